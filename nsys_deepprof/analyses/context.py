"""What every result says beside its rows."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from nsys_deepprof.analyses.trust import capture_warnings

if TYPE_CHECKING:
    from collections.abc import Callable

    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace

P = ParamSpec("P")


def with_context(
    analysis: Callable[Concatenate[Trace, P], Result],
) -> Callable[Concatenate[Trace, P], Result]:
    """An analysis of one trace whose result has, as further extra keys, `warnings` (what in the
    capture cannot be trusted), `trace_start_ns` (the first event: where --from and --to count from)
    and, of a narrowed trace, `analysed_windows` (a frame of gpu, start_ns, end_ns)."""

    @wraps(analysis)
    def run(trace: Trace, /, *args: P.args, **options: P.kwargs) -> Result:
        result = analysis(trace, *args, **options)
        context = {
            "warnings": list(capture_warnings(trace)),
            "trace_start_ns": trace.span_ns()[0],
        }
        if trace.windows is not None:
            context["analysed_windows"] = trace.windows
        return replace(result, extra={**context, **result.extra})

    return run
