"""One colour for one thing, on every page, in light and in dark.

States are Okabe and Ito's colours, causes Paul Tol's muted ones: both are told apart with any of
the usual colour-vision deficiencies, and lightened where the background is dark.
"""

from __future__ import annotations

from typing import Any

LIGHT_DARK: dict[str, tuple[str, str]] = {
    "state-compute": ("#0072b2", "#3d9bdb"),
    "state-comm": ("#cc79a7", "#dd95bd"),
    "state-copy": ("#e69f00", "#efb12d"),
    "state-memset": ("#c9bd1a", "#f0e442"),
    "state-idle": ("#d5dade", "#3f4a53"),
    "cause-launch": ("#88ccee", "#88ccef"),
    "cause-device_wait": ("#44aa99", "#4fbbab"),
    "cause-sync": ("#cc6677", "#dd7788"),
    "cause-alloc": ("#aa4499", "#c66db9"),
    "cause-load": ("#882255", "#c2577f"),
    "cause-api": ("#332288", "#8278d8"),
    "cause-profiler": ("#999933", "#b5b54b"),
    "cause-os": ("#117733", "#3fa563"),
    "cause-host": ("#ddcc77", "#decd79"),
    "cause-unknown": ("#8e98a1", "#8f99a2"),
    "mark-blocking": ("#d55e00", "#f07d28"),
    "mark-slow": ("#d55e01", "#f07d29"),
    "ink": ("#1b2127", "#e6eaed"),
    "muted": ("#56616b", "#9ba7b0"),
    "line": ("#e0e4e8", "#2c353d"),
    "soft": ("#f1f3f5", "#232b32"),
    "panel": ("#ffffff", "#1a2127"),
    "page": ("#f8f9fa", "#12171b"),
    "accent": ("#0b5fa4", "#6cb4ee"),
    "high": ("#b3261d", "#ff8a7d"),
    "medium": ("#8f5f00", "#f0b849"),
    "low": ("#56616c", "#9ba7b1"),
}
"""Name to (light, dark). Every light colour occurs once, so that it names its role in a chart."""

_ROLES = {light: name for name, (light, _) in LIGHT_DARK.items()}


def colour(name: str) -> str:
    """The colour of a role on a light background, as `#rrggbb`."""
    return LIGHT_DARK[name][0]


def css_variables(*, dark: bool) -> str:
    """Declarations `--state-compute:#0072b2;...` for a style sheet."""
    return "".join(f"--{name}:{pair[dark]};" for name, pair in LIGHT_DARK.items())


def with_css_variables(spec: Any) -> Any:
    """A chart specification whose colours are the page's CSS variables: it follows light and dark
    without being drawn again. Its data, under `datasets` and `values`, is left as it is."""
    if isinstance(spec, dict):
        return {
            k: v if k in ("datasets", "values") else with_css_variables(v) for k, v in spec.items()
        }
    if isinstance(spec, list):
        return [with_css_variables(v) for v in spec]
    if isinstance(spec, str) and spec in _ROLES:
        return f"var(--{_ROLES[spec]})"
    return spec
