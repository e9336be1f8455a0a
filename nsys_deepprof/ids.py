"""Process and thread numbers inside nsys's 64-bit ids, and the names of lanes.

Bits 56-63 hold a hardware id, 48-55 a VM id, 24-47 the pid, 0-23 the tid. Two processes with one
pid in different containers differ in the upper bits, so everything is keyed on the whole id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_LOW_24_BITS = 0xFFFFFF


def pid_of(global_id: pl.Expr) -> pl.Expr:
    """pid of a globalPid or globalTid column (Int64)."""
    return (global_id // (1 << 24)) & _LOW_24_BITS


def tid_of(global_tid: pl.Expr) -> pl.Expr:
    """tid of a globalTid column (Int64)."""
    return global_tid & _LOW_24_BITS


def global_pid_of(global_tid: pl.Expr) -> pl.Expr:
    """globalPid of a globalTid column: its low 24 bits cleared (Int64)."""
    return global_tid - (global_tid & _LOW_24_BITS)


def lane_label() -> pl.Expr:
    """Text that names a lane, from columns gpu, pid, context_id, stream_id:
    `gpu0/pid1234/ctx1/stream7`; `?` stands for what the trace does not tell."""
    import polars as pl

    known = (
        pl.col(part).cast(pl.String).fill_null("?")
        for part in ("gpu", "pid", "context_id", "stream_id")
    )
    return pl.format("gpu{}/pid{}/ctx{}/stream{}", *known)
