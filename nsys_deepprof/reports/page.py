"""One self-contained page: templates, style, scripts and data in a single file.

The page asks the network for nothing, and its policy forbids that it does. Scripts run by their
hash alone, so nothing that a trace names can ever run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from nsys_deepprof import names, units
from nsys_deepprof.reports import palette

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import jinja2
    from jinja2.bccache import Bucket, BytecodeCache


def render_page(
    template: str, context: Mapping[str, Any], *, scripts: Sequence[str] = (), style: str = ""
) -> str:
    """A template that extends `base.html.j2`, with the shared style and the named scripts inlined.

    `scripts` and `style` name files beside the templates. The template sees `context`, the
    filters of `units` and `names`, and `json_block(id, value)` for data that scripts read.
    """
    sources = [_script(name) for name in scripts]
    csp = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(_hash(source) for source in sources)}" if sources else "",
            # Chart libraries set styles on the elements they make.
            "style-src 'unsafe-inline'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    ).replace("; ; ", "; ")
    css = "\n".join(
        (
            f":root{{{palette.css_variables(dark=False)}}}",
            f"@media screen and (prefers-color-scheme:dark){{:root{{"
            f"{palette.css_variables(dark=True)}}}}}",
            _asset("page.css"),
            _asset(style) if style else "",
        )
    )
    return (
        _environment()
        .get_template(template)
        .render(**context, csp=csp, css=Markup(css), scripts=[Markup(source) for source in sources])
    )


def json_block(block_id: str, value: Any) -> Markup:
    """A data block `<script type="application/json">` that no text inside can close."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup('<script type="application/json" id="{}">').format(block_id) + Markup(
        f"{text}</script>"
    )


def counted(count: int, noun: str) -> str:
    """`1 kernel`, `1,234 kernels`, `2 copies`, `3 launches`."""
    ending = {"y": (1, "ies"), "h": (0, "es")}.get(noun[-1], (0, "s"))
    plural = noun[: len(noun) - ending[0]] + ending[1]
    return f"{units.format_count(count)} {noun if count == 1 else plural}"


def ticked(text: str) -> Markup:
    """A sentence in which names stand between backticks, with these as code."""
    parts = names.visible(text).split("`")
    whole = Markup()
    for index, part in enumerate(parts):
        whole += Markup("<code><bdi>{}</bdi></code>").format(part) if index % 2 else escape(part)
    return whole


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nsys_deepprof.reports"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=kept_templates(Path(str(files("nsys_deepprof.reports") / "templates"))),
    )
    environment.filters |= {
        "ns": units.format_ns,
        "bytes": units.format_bytes,
        "share": units.format_share,
        "count": units.format_count,
        "rate": units.format_rate,
        "counted": counted,
        "exact": lambda value: "—" if value is None else f"{value:,}",
        "visible": names.visible,
        "shorten": names.shorten,
        "ticked": ticked,
    }
    environment.globals["json_block"] = json_block
    return environment


def kept_templates(folder: Path) -> BytecodeCache:
    """Compiled templates, kept beside their sources as Python keeps its own compiled code: making
    them takes a third of a small report's time. Where they cannot be kept they are made anew."""
    from jinja2 import FileSystemBytecodeCache

    class Kept(FileSystemBytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            try:
                super().load_bytecode(bucket)
            except Exception:
                # A spoiled file raises whatever it happens to.
                bucket.reset()

        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):
                super().dump_bytecode(bucket)

    kept = folder / "__pycache__"
    with suppress(OSError):
        kept.mkdir(exist_ok=True)
    return Kept(str(kept))


def _asset(name: str) -> str:
    return (files("nsys_deepprof.reports") / "templates" / name).read_text("utf-8")


@cache
def _script(name: str) -> str:
    # Each in its own scope: the bundled library declares thousands of short global names.
    return f"(()=>{{\n{_asset(name)}\n}})();"


@cache
def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
