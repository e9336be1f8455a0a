"""Makes `templates/vega.js`, the chart library that pages carry: `python -m ...reports.bundle`.

Bundling takes two seconds, which every report would pay, so the file is kept. A test holds it to
what the installed vl-convert makes.
"""

from __future__ import annotations

from pathlib import Path

TARGET = Path(__file__).parent / "templates" / "vega.js"

_SNIPPET = "window.vegaEmbed = vegaEmbed; window.vega = vega; window.vegaLite = vegaLite;"

_HEADER = """\
/* Vega {vega}, Vega-Lite {lite}, vega-embed {embed}, bundled by vl-convert {convert}: do not edit.
   Copyright (c) University of Washington Interactive Data Lab. BSD-3-Clause.
   Contains d3 (ISC, Mike Bostock), topojson-client (ISC), fast-json-patch, semver (ISC),
   json-stringify-pretty-compact and lodash.debounce (MIT). */
"""


def bundle() -> str:
    """The library as one script that sets `window.vegaEmbed`, `window.vega`, `window.vegaLite`."""
    from importlib.metadata import version

    import vl_convert

    header = _HEADER.format(
        vega=vl_convert.get_vega_version(),
        lite=vl_convert.get_vegalite_versions()[-1],
        embed=vl_convert.get_vega_embed_version(),
        convert=version("vl-convert-python"),
    )
    return header + vl_convert.javascript_bundle(_SNIPPET) + "\n"


if __name__ == "__main__":
    TARGET.write_text(bundle(), encoding="utf-8")
