"""Kernel names without what differs from build to build."""

from __future__ import annotations

import re

_HASHES = (
    # torch.compile: triton_poi_fused_add_1_cemi5yor3uh3, triton_per_fused_..._0d1d2d3d
    (re.compile(r"^(triton_\w+?)_\d+(?:_[0-9a-z]{6,})?(?:_(?:\d+d?e?)+)?$"), r"\1"),
    (re.compile(r"^(\w+?)_(?=[0-9a-z]*\d)[0-9a-z]{10,}$"), r"\1"),
    (re.compile(r"(?<![0-9a-zA-Z])(?:0x)?[0-9a-f]{8,}(?![0-9a-zA-Z])"), "*"),
)


def signature(name: str) -> str:
    """A kernel's name without template arguments, parameters, generated hashes and counters.

    `void at::native::reduce_kernel<512, 1, Op>(Op)` is `at::native::reduce_kernel`; a name that
    would lose everything stays as it is.
    """
    text = _without_brackets(name.removeprefix("void ")).strip()
    for pattern, replacement in _HASHES:
        text = pattern.sub(replacement, text)
    return text or name


def _without_brackets(name: str) -> str:
    """The text outside of <...> and, from the parameter list on, (...)."""
    kept: list[str] = []
    depth = 0
    for i, character in enumerate(name):
        if character == "<" and (depth or not name.startswith("<unnamed>", i)):
            depth += 1
        elif character == ">" and depth:
            depth -= 1
        elif character == "(" and not depth and not name.startswith("(anonymous namespace)", i):
            break
        elif not depth:
            kept.append(character)
    # Unbalanced brackets: a name cut short, or an operator.
    return "".join(kept) if depth == 0 else name
