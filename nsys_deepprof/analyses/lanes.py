"""Lanes: each in-order queue of GPU work as a sequence that can be mined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from nsys_deepprof.device import (
    LANE_KEYS,
    by_lane,
    communication_names,
    whole_graphs,
    with_gpu,
)
from nsys_deepprof.ids import lane_label
from nsys_deepprof.mining.sequence import Sequence, make_sequence
from nsys_deepprof.signatures import signature
from nsys_deepprof.windows import in_windows

if TYPE_CHECKING:
    from nsys_deepprof.trace import Trace

Symbols = Literal["names", "shapes", "signatures"]

KEYS = ("gpu", "global_pid", "pid", "context_id", "stream_id")

_COLUMNS = [*LANE_KEYS, "start_ns", "end_ns", "name", "shape", "is_kernel"]


@dataclass(frozen=True)
class Lane:
    """One lane of the analysed time.

    `label` is its text (`gpu0/pid1234/ctx1/stream7`), `sequence` its operations by start.
    `is_kernel[i]`: operation `i` is a kernel or a whole CUDA graph. `compute_ns` is the summed time
    of those that are no communication.
    """

    label: str
    gpu: int
    global_pid: int | None
    pid: int | None
    context_id: int | None
    stream_id: int | None
    sequence: Sequence
    is_kernel: np.ndarray[tuple[int], np.dtype[np.bool_]]
    compute_ns: int


def lanes(trace: Trace, *, symbols: Symbols = "names", with_copies: bool = False) -> list[Lane]:
    """Every lane with kernels or whole CUDA graphs, the one with the most operations first.

    Operations are kernels by demangled name (`shapes`: with launch shape; `signatures`: without
    template arguments and generated hashes) and whole-graph executions by graph; `with_copies` adds
    copies and memsets by kind. Unified-memory migrations have no lane.
    """
    key = ("lanes", symbols, with_copies)
    return trace.once(key, lambda: _lanes(trace, symbols, with_copies))


def _lanes(trace: Trace, symbols: Symbols, with_copies: bool) -> list[Lane]:
    rows = _rows(trace, symbols, with_copies)
    if trace.windows is not None:
        rows = in_windows(with_gpu(rows, trace), trace.windows)
    rows = rows.with_columns(pl.col("name").to_physical().alias("code"))
    # Categories can be shared by many frames: only the texts in use are looked up.
    texts = rows.select(pl.col("code"), "name").unique("code").sort("code")
    known = dict(zip(texts["code"].to_list(), texts["name"].cast(pl.String).to_list(), strict=True))
    names = [known.get(code) or "" for code in range(max(known, default=-1) + 1)]
    if symbols == "signatures":
        names, rows = _by_signature(names, rows)
    comm = set(communication_names(pl.Series("name", names), trace.comm_patterns).to_list())
    is_comm = np.array([name in comm for name in names], bool)
    shapes = _shape_texts(trace) if symbols == "shapes" else []
    found = [
        _lane(trace, part, names, is_comm, shapes)
        for part in by_lane(rows)
        if part["stream_id"][0] is not None and part["is_kernel"].any()
    ]
    return sorted(found, key=lambda lane: (-len(lane.sequence), lane.label))


def _rows(trace: Trace, symbols: Symbols, with_copies: bool) -> pl.DataFrame:
    """Operations of all lanes, sorted by start, with the columns `_COLUMNS`."""
    kernels = trace.table("kernels")
    shape = pl.lit(0, pl.Int32)
    if symbols == "shapes":
        distinct = _shapes(kernels)
        kernels = kernels.join(distinct, on=_SIZES, how="left", maintain_order="left")
        shape = pl.col("shape").cast(pl.Int32)
    parts = [kernels.select(*_COLUMNS[:7], shape.alias("shape"), pl.lit(True).alias("is_kernel"))]
    whole = whole_graphs(trace)
    if whole.height:
        label = pl.format("CUDA graph {}", pl.col("graph_id").cast(pl.String).fill_null("?"))
        parts.append(_plain(whole, label, is_kernel=True))
    if with_copies:
        copies = trace.table("memcpys").filter(pl.col("stream_id").is_not_null())
        parts.append(_plain(copies, "Memcpy " + pl.col("kind").cast(pl.String), is_kernel=False))
        parts.append(_plain(trace.table("memsets"), pl.lit("Memset"), is_kernel=False))
    parts = [part for part in parts if part.height] or parts[:1]
    return parts[0] if len(parts) == 1 else pl.concat(parts).sort("start_ns", maintain_order=True)


_SIZES = [f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz"]


def _shapes(kernels: pl.DataFrame) -> pl.DataFrame:
    """The launch shapes that occur, numbered from 1 in `shape`; 0 is for what has none."""
    return kernels.select(_SIZES).unique(maintain_order=True).with_row_index("shape", 1)


def _shape_texts(trace: Trace) -> list[str]:
    sizes = _shapes(trace.table("kernels")).select(_SIZES)
    return ["", *(f" <<<{row[:3]}, {row[3:]}>>>" for row in sizes.iter_rows())]


def _plain(frame: pl.DataFrame, name: pl.Expr, *, is_kernel: bool) -> pl.DataFrame:
    return frame.select(
        *_COLUMNS[:6],
        name.cast(pl.Categorical).alias("name"),
        pl.lit(0, pl.Int32).alias("shape"),
        pl.lit(is_kernel).alias("is_kernel"),
    )


def _by_signature(names: list[str], rows: pl.DataFrame) -> tuple[list[str], pl.DataFrame]:
    texts = [signature(name) for name in names]
    distinct = list(dict.fromkeys(texts))
    number = {text: i for i, text in enumerate(distinct)}
    mapped = np.array([number[text] for text in texts], np.uint32)
    code = mapped[rows["code"].to_numpy()] if rows.height else np.empty(0, np.uint32)
    return distinct, rows.with_columns(pl.Series("code", code))


def _lane(
    trace: Trace,
    rows: pl.DataFrame,
    names: list[str],
    is_comm: np.ndarray[tuple[int], np.dtype[np.bool_]],
    shapes: list[str],
) -> Lane:
    columns = {
        name: rows[name].to_numpy() for name in ("start_ns", "end_ns", "code", "shape", "is_kernel")
    }
    codes = columns["code"].astype(np.int32)
    computing = columns["is_kernel"] & ~is_comm[codes]
    compute_ns = int((columns["end_ns"] - columns["start_ns"])[computing].sum())
    if shapes:
        codes, names = _with_shapes(codes, columns["shape"], names, shapes)
    first = with_gpu(rows.head(1).select(LANE_KEYS), trace)
    key = first.select(*KEYS, lane_label().alias("lane")).row(0, named=True)
    return Lane(
        label=key["lane"],
        gpu=key["gpu"],
        global_pid=key["global_pid"],
        pid=key["pid"],
        context_id=key["context_id"],
        stream_id=key["stream_id"],
        sequence=make_sequence(codes, columns["start_ns"], columns["end_ns"], names),
        is_kernel=columns["is_kernel"],
        compute_ns=compute_ns,
    )


def _with_shapes(
    codes: np.ndarray[tuple[int], np.dtype[np.int32]],
    shape: np.ndarray[tuple[int], np.dtype[np.int32]],
    names: list[str],
    shapes: list[str],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], list[str]]:
    """Codes and texts of the pairs of name and launch shape that occur."""
    pairs = pl.DataFrame({"code": codes, "shape": shape})
    distinct = pairs.unique(maintain_order=True).with_row_index("pair")
    paired = pairs.join(distinct, on=["code", "shape"], how="left", maintain_order="left")
    texts = [
        names[code] + shapes[number]
        for code, number in distinct.select("code", "shape").iter_rows()
    ]
    return paired["pair"].to_numpy().astype(np.int32), texts
