"""What each GPU does in every nanosecond: exactly one of five states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nsys_deepprof import intervals
from nsys_deepprof.device import by_gpu, device_ops

if TYPE_CHECKING:
    from nsys_deepprof.intervals import Intervals, Ints
    from nsys_deepprof.trace import Trace

STATES = ("compute", "comm", "copy", "memset")
"""Busy states by precedence: a nanosecond belongs to the first whose work runs then."""

STATE_COLUMNS = (*(f"{state}_ns" for state in STATES), "idle_ns")


@dataclass(frozen=True)
class GpuStates:
    """One GPU's activity.

    `window_ns` is [first device activity start, last device activity end). `layers[k]` is the
    disjoint set in which work of any of the first k+1 `STATES` runs, so the time of state k
    within any interval is what `layers[k]` covers and `layers[k-1]` does not.
    """

    gpu: int
    window_ns: tuple[int, int]
    layers: tuple[Intervals, ...]

    @property
    def busy(self) -> Intervals:
        """Where any work runs."""
        return self.layers[-1]

    @property
    def kernels(self) -> Intervals:
        """Where any kernel runs, communication included."""
        return self.layers[STATES.index("comm")]

    def split(self, starts_ns: Ints, ends_ns: Ints) -> dict[str, Ints]:
        """For each interval, the ns in each state: keys are `STATE_COLUMNS`; they add up."""
        parts = intervals.layer_lengths(self.layers, starts_ns, ends_ns)
        return dict(zip(STATE_COLUMNS, parts, strict=True))


def gpu_states(trace: Trace) -> dict[int, GpuStates]:
    """Activity of every GPU with device work, by GPU number, over the whole trace."""
    return trace.once("gpu_states", lambda: _gpu_states(trace), whole_trace=True)


def analysed_windows(trace: Trace) -> dict[int, Intervals]:
    """Per GPU, the time that is analysed: its window, inside the trace's windows if it has any.

    GPUs that have no time left are absent.
    """
    result: dict[int, Intervals] = {}
    for gpu, states in gpu_states(trace).items():
        whole = np.array([states.window_ns[0]]), np.array([states.window_ns[1]])
        if trace.windows is not None:
            chosen = trace.windows.filter(pl.col("gpu") == gpu)
            asked = (chosen["start_ns"].to_numpy(), chosen["end_ns"].to_numpy())
            whole = intervals.intersect(intervals.union(*whole), asked)
            if len(whole[0]) == 0:
                continue
        result[gpu] = whole
    return result


def _gpu_states(trace: Trace) -> dict[int, GpuStates]:
    result: dict[int, GpuStates] = {}
    for gpu, mine in by_gpu(device_ops(trace)):
        starts, ends = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
        here = (mine["state"] == state for state in STATES)
        chosen = (
            (starts, ends) if mask.all() else (starts[rows := mask.to_numpy()], ends[rows])
            for mask in here
        )
        layers = intervals.stacked(chosen)
        result[gpu] = GpuStates(gpu, (int(starts.min()), int(ends.max())), layers)
    return result
