"""Findings about memory copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.copies import TRAIN_COPY_NS
from nsys_deepprof.rules.finding import (
    Evidence,
    Finding,
    by_place,
    dearest,
    finding,
    how_often,
    per_time,
    quoted,
)
from nsys_deepprof.units import format_bytes, format_count, format_ns, format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator

IDLE_PART = 0.1
"""Idle time around copies is said from this part of their finding on."""

DIRECTIONS = {
    "HtoD": "host-to-device",
    "DtoH": "device-to-host",
    "DtoD": "device-to-device",
    "PtoP": "peer-to-peer",
    "HtoH": "host-to-host",
    "UM HtoD": "to the device",
    "UM DtoH": "to the host",
    "UM DtoD": "between devices",
}


def exposed_copies(evidence: Evidence) -> Iterator[Finding]:
    """Copies that do not hold the host, in time in which no kernel runs: one finding a direction.

    Formula: exposed-copy time of asynchronous copies of pinned memory.
    """
    for direction, copies in _by_direction(evidence, "exposed_copy"):
        volume, rate = _volume(copies)
        advice = (
            "Start these copies earlier, on a stream of their own, so that they run beside the "
            "kernels: prefetch the next batch, layer or block while the current one computes "
            "(double buffering). "
        )
        long_copies = copies.filter(pl.col("copy_time_ns") > TRAIN_COPY_NS)
        if int(long_copies["lost_ns"].sum()) * 2 > int(copies["lost_ns"].sum()):
            advice += (
                "The memory is pinned and the copies are large: what finds no room beside kernels "
                "can only shrink (keep weights on the device, quantise or compress what is "
                "offloaded)."
            )
        else:
            advice += "Many short copies: gather them into few."
        # What is not pageable is pinned, unless the export does not tell.
        memory = "Pinned" if evidence.memory_kinds else "Asynchronous"
        yield _copy_finding(
            evidence,
            copies,
            kind="exposed_copy",
            title=f"{memory} {direction} copies run with no kernel beside them: {volume} ({rate})",
            advice=advice,
            formula="exposed-copy time of asynchronous copies of pinned memory",
        )


def pageable_copies(evidence: Evidence) -> Iterator[Finding]:
    """Asynchronous calls with pageable memory hold the host, and so the GPU: one a direction.

    Formula: exposed-copy time of such copies, plus the gaps behind those that the host waited for.
    """
    for direction, copies in _by_direction(evidence, "pageable_copy"):
        volume, rate = _volume(copies)
        yield _copy_finding(
            evidence,
            copies,
            kind="pageable_copy",
            title=f"{direction.capitalize()} copies of pageable memory stop host and GPU: "
            f"{volume} ({rate})",
            advice="Pin the host memory (pin_memory=True in the data loader, tensor.pin_memory(), "
            "cudaHostAlloc) and copy with non_blocking=True: only then is the copy asynchronous "
            "and at the full rate of the link. Create small tensors on the device instead.",
            formula="exposed-copy time of Async copies with pageable memory + gaps behind them",
        )


def synchronous_copies(evidence: Evidence) -> Iterator[Finding]:
    """Synchronous copy calls: one finding a direction.

    Formula: exposed-copy time of copies by synchronous calls, plus the gaps behind them.
    """
    for direction, copies in _by_direction(evidence, "sync_copy"):
        volume, rate = _volume(copies)
        api = dearest(copies, "what") or "a synchronous call"
        yield _copy_finding(
            evidence,
            copies,
            kind="sync_copy",
            title=f"Synchronous {direction} copies stop host and GPU: {volume} by {api} ({rate})",
            advice="Use the Async form on a stream, with pinned host memory, and wait only where "
            "the data is used.",
            formula="exposed-copy time of synchronous copy calls + gaps behind them",
        )


def awaited_copies(evidence: Evidence) -> Iterator[Finding]:
    """Copies that the host waits for at once: a finding a place.

    Formula: exposed-copy time of copies followed by a synchronise that covers their end, plus the
    gaps behind them.
    """
    for copies, one_place in by_place(evidence, evidence.of("awaited_copy")):
        api = dearest(copies, "what") or "a synchronise"
        size = copies["bytes"].median()
        yield _copy_finding(
            evidence,
            copies,
            kind="awaited_copy",
            title=f"The host waits in {api} right after issuing copies of "
            f"{format_bytes(_number(size))}: {how_often(evidence, copies)}",
            advice="Wait for the copy where its data is needed, not right after issuing it: record "
            "an event and let the consuming stream wait for that (cudaStreamWaitEvent).",
            formula="exposed-copy time of copies that a synchronise awaits + gaps behind them",
            one_place=one_place,
        )


def readbacks(evidence: Evidence) -> Iterator[Finding]:
    """The host reads a few bytes back and waits (`.item()`, `.cpu()`, printing): one a place.

    Formula: exposed-copy time of blocking device-to-host copies under 64 KiB, plus the gaps behind
    them, in which the GPU has run out of work.
    """
    for copies, one_place in by_place(evidence, evidence.of("readback"), key=["prev_op", "bytes"]):
        api = dearest(copies, "what") or "a synchronise"
        size = format_bytes(_number(copies["bytes"].median()))
        after = dearest(copies, "prev_op")
        place = f" after {quoted(after)}" if after and one_place else ""
        yield _copy_finding(
            evidence,
            copies,
            kind="readback",
            title=f"The host reads {size} back with {api}{place} and the GPU waits, "
            f"{per_time(copies)}: {how_often(evidence, copies)}",
            advice="Take .item(), .cpu(), float(tensor), print(tensor) and tests on tensor values "
            "out of the loop: keep the value on the device, add it up there, and read it every "
            "N iterations or from a copy started earlier (pinned, non_blocking=True).",
            formula="exposed-copy time of blocking DtoH copies < 64 KiB + gaps behind them",
            one_place=one_place,
        )


def copy_trains(evidence: Evidence) -> Iterator[Finding]:
    """Small copies in a row that one copy could replace: one finding a direction.

    Formula: exposed-copy time of trains of copies under 64 KiB on average, plus the gaps inside
    and behind them.
    """
    for direction, copies in _by_direction(evidence, "copy_train"):
        count = copies.filter(pl.col("copy_time_ns").is_not_null()).height
        size = format_bytes(_number(copies["bytes"].median()))
        yield _copy_finding(
            evidence,
            copies,
            kind="copy_train",
            title=f"{format_count(count)} small {direction} copies in trains ({size} each) where "
            "one would do",
            advice="Gather the data in one pinned buffer and copy it at once, then slice it on "
            "the device; batch uploads of parameters and indices.",
            formula="exposed-copy time of trains of small copies + gaps inside and behind them",
        )


def device_copies(evidence: Evidence) -> Iterator[Finding]:
    """Copies inside the device with no kernel beside them.

    Formula: exposed-copy time of device-to-device and array copies where no other copy runs.
    """
    for direction, copies in _by_direction(evidence, "device_copy"):
        volume, rate = _volume(copies)
        yield _copy_finding(
            evidence,
            copies,
            kind="device_copy",
            title=f"Copies inside the device take time of their own: {volume} {direction} ({rate})",
            advice="Avoid the copies: .contiguous(), .clone(), cat and slicing into new tensors; "
            "write results where they are needed, or fuse the copy into the kernel before it.",
            formula="exposed-copy time of copies inside the device",
        )


def peer_copies(evidence: Evidence) -> Iterator[Finding]:
    """Copies between GPUs with no kernel beside them.

    Formula: exposed-copy time of peer copies.
    """
    for _, copies in _by_direction(evidence, "peer_copy"):
        volume, rate = _volume(copies)
        yield _copy_finding(
            evidence,
            copies,
            kind="peer_copy",
            title=f"Copies between GPUs run with no kernel beside them: {volume} ({rate})",
            advice="Overlap them with compute on another stream. At a rate far under that of "
            "NVLink or PCIe, check that peer access is on and which link joins the two GPUs "
            "(nvidia-smi topo -m).",
            formula="exposed-copy time of peer copies",
        )


def migrations(evidence: Evidence) -> Iterator[Finding]:
    """Unified memory that moves while no kernel runs.

    Formula: exposed-copy time of unified-memory migrations.
    """
    moved = evidence.of("migration")
    if not evidence.matters(int(moved["lost_ns"].sum())):
        return
    volume, rate = _volume(moved)
    cause = dearest(moved, "what")
    why = f", mostly by {cause.replace('_', ' ')}" if cause not in (None, "unknown", "user") else ""
    yield _copy_finding(
        evidence,
        moved,
        kind="migration",
        title=f"Unified memory migrates while no kernel runs: {volume}{why} ({rate})",
        advice="Prefetch with cudaMemPrefetchAsync before the kernels that touch it, advise its "
        "place (cudaMemAdvise), or use device memory and explicit copies.",
        formula="exposed-copy time of unified-memory migrations",
    )


def _by_direction(evidence: Evidence, kind: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """The pieces of a kind by the direction of their copies, where they matter."""
    pieces = evidence.of(kind)
    for (direction,), mine in pieces.group_by("direction", maintain_order=True):
        if evidence.matters(int(mine["lost_ns"].sum())):
            words = DIRECTIONS.get(str(direction), str(direction))
            yield words, mine


def _copy_finding(
    evidence: Evidence,
    pieces: pl.DataFrame,
    *,
    kind: str,
    title: str,
    advice: str,
    formula: str,
    one_place: bool = False,
) -> Finding:
    copies = pieces.filter(pl.col("copy_time_ns").is_not_null())
    known = copies["host_ns"].drop_nulls()
    lost = int(pieces["lost_ns"].sum())
    behind = int(pieces["idle_ns"].sum())
    # The rate and the volume do not tell the time in which nothing is copied.
    parts = f", {format_ns(behind)} of it idle around them" if behind >= IDLE_PART * lost else ""
    return finding(
        evidence,
        pieces,
        kind=kind,
        title=f"{title}, {evidence.cost(lost)}{parts}",
        advice=advice,
        formula=formula,
        one_place=one_place,
        api=dearest(pieces, "what"),
        bytes=int(copies["bytes"].sum()),
        throughput_gbps=_rate(copies),
        host_blocked_ns=int(known.sum()) if len(known) else None,
    )


def _volume(pieces: pl.DataFrame) -> tuple[str, str]:
    copies = pieces.filter(pl.col("copy_time_ns").is_not_null())
    words = f"{format_count(copies.height)} copies, {format_bytes(int(copies['bytes'].sum()))}"
    return words, format_rate(_rate(copies))


def _rate(copies: pl.DataFrame) -> float | None:
    duration = int(copies["copy_time_ns"].sum())
    return int(copies["bytes"].sum()) / duration if duration else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
