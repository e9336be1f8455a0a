"""nsys-deepprof: answers from NVIDIA Nsight Systems exports.

    import nsys_deepprof as nd

    trace = nd.open_trace("run.sqlite")
    nd.gaps(trace).frame

Every command of the command line is a function here that takes a `Trace` and returns a `Result`.
Names are imported when first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nsys_deepprof.analyses.communication import communication
    from nsys_deepprof.analyses.diff import diff
    from nsys_deepprof.analyses.findings import findings
    from nsys_deepprof.analyses.gaps import gaps
    from nsys_deepprof.analyses.info import info
    from nsys_deepprof.analyses.iterations import iterations
    from nsys_deepprof.analyses.kernels import kernels
    from nsys_deepprof.analyses.launches import launches
    from nsys_deepprof.analyses.memcpy import memcpy
    from nsys_deepprof.analyses.patterns import patterns
    from nsys_deepprof.analyses.ranks import ranks
    from nsys_deepprof.analyses.timeline_tracks import timeline_tracks
    from nsys_deepprof.checking import check
    from nsys_deepprof.dataset import convert
    from nsys_deepprof.errors import DeepProfError, InputError, OutputError, UsageError
    from nsys_deepprof.notebook import charts, report
    from nsys_deepprof.opening import open_trace
    from nsys_deepprof.reports.perfetto import to_perfetto
    from nsys_deepprof.reports.trace_json import to_trace_json
    from nsys_deepprof.result import Result
    from nsys_deepprof.trace import Trace
    from nsys_deepprof.windows import narrow

__version__ = "0.1.0"

_HOME = {
    "DeepProfError": "errors",
    "InputError": "errors",
    "OutputError": "errors",
    "Result": "result",
    "Trace": "trace",
    "UsageError": "errors",
    "charts": "notebook",
    "check": "checking",
    "communication": "analyses.communication",
    "convert": "dataset",
    "diff": "analyses.diff",
    "findings": "analyses.findings",
    "gaps": "analyses.gaps",
    "info": "analyses.info",
    "iterations": "analyses.iterations",
    "kernels": "analyses.kernels",
    "launches": "analyses.launches",
    "memcpy": "analyses.memcpy",
    "narrow": "windows",
    "open_trace": "opening",
    "patterns": "analyses.patterns",
    "ranks": "analyses.ranks",
    "report": "notebook",
    "timeline_tracks": "analyses.timeline_tracks",
    "to_perfetto": "reports.perfetto",
    "to_trace_json": "reports.trace_json",
}

__all__ = [
    "DeepProfError",
    "InputError",
    "OutputError",
    "Result",
    "Trace",
    "UsageError",
    "charts",
    "check",
    "communication",
    "convert",
    "diff",
    "findings",
    "gaps",
    "info",
    "iterations",
    "kernels",
    "launches",
    "memcpy",
    "narrow",
    "open_trace",
    "patterns",
    "ranks",
    "report",
    "timeline_tracks",
    "to_perfetto",
    "to_trace_json",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"nsys_deepprof.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
