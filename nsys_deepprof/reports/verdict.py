"""One line on a run: where its GPU time goes, and what could come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsys_deepprof.units import format_ns, format_share

if TYPE_CHECKING:
    from nsys_deepprof.result import Result

_NAMES = {
    "compute_ns": "compute",
    "comm_ns": "communication with no compute beside it",
    "exposed_copy_ns": "waiting for copies",
    "idle_ns": "idle",
}

_WORTH_SAYING = 0.005
"""Parts below this share are left out of the line."""


def verdict(findings: Result) -> str:
    """The line, from the result of `findings`."""
    facts = findings.extra
    if facts["status"] == "no_gpu_activity":
        return "This capture holds no GPU activity: there is nothing to judge."
    wall_ns = facts["wall_ns"]
    if not wall_ns:
        return "All GPU work of this capture begins and ends at one instant: nothing to judge."
    parts = sorted(((facts[key], words) for key, words in _NAMES.items()), reverse=True)
    said = [
        f"{format_share(part_ns / wall_ns)} {words}"
        for part_ns, words in parts
        if part_ns / wall_ns >= _WORTH_SAYING
    ]
    spent = f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else said[0]
    return f"GPU time is {spent}; {_gain(findings)}."


def _gain(findings: Result) -> str:
    facts = findings.extra
    recoverable_ns, wall_ns = facts["recoverable_ns"], facts["wall_ns"]
    if findings.frame.height == 0:
        return "nothing found that is worth changing"
    if not recoverable_ns:
        return "nothing found gives back idle time or copy time"
    speedup = facts["speedup_max"]
    faster = "" if speedup is None or speedup > _BOUNDLESS else f": {speedup + 1:.2f}× at best"
    return (
        f"fixing all that was found gives back at most {format_ns(recoverable_ns)} of "
        f"{format_ns(wall_ns)}{faster}"
    )


_BOUNDLESS = 9.0
"""A run that could be ten times as fast waits nearly all the time: the factor tells nothing."""
