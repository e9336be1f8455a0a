"""What each CUDA API function does to its caller: the classes that causes are told by.

A name is matched exactly, once the exporter's suffixes are off: `cudaStreamWaitEvent` is not a
wait of the host, whatever it is called, and `cudaMemcpyAsync` is not a `cudaMemcpy`.
"""

from __future__ import annotations

import re
from functools import cache

import polars as pl

_SUFFIX = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")

CLASSES = (
    "launch",
    "graph_launch",
    "sync",
    "sync_copy",
    "sync_memset",
    "async_copy",
    "async_memset",
    "alloc",
    "load",
    "other",
)
"""launch: one kernel. graph_launch: a whole graph. sync: waits for the device. sync_copy,
sync_memset: transfers that are not Async by name. alloc: takes or returns memory. load: modules,
libraries and their functions, JIT linking. other: anything else."""

_RULES = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("launch", r"(?:cuda|cu)Launch(?:Cooperative)?Kernel(?:ExC?|MultiDevice)?"),
        ("launch", r"cudaLaunch|cuLaunch|cuLaunchGrid(?:Async)?"),
        ("graph_launch", r"(?:cuda|cu)GraphLaunch"),
        (
            "sync",
            r"cuda(?:Device|Stream|Event|Thread)Synchronize|cu(?:Ctx|Stream|Event)Synchronize",
        ),
        ("async_copy", r"(?:cuda|cu)Memcpy\w*Async\w*"),
        ("sync_copy", r"(?:cuda|cu)Memcpy\w*"),
        ("async_memset", r"(?:cuda|cu)Memset\w*Async"),
        ("sync_memset", r"(?:cuda|cu)Memset\w*"),
        # Prefetches and advice are about where memory is, not about having it.
        ("other", r"cuMem(?:Prefetch|Advise|DiscardAndPrefetch|DiscardBatch)\w*"),
        ("alloc", r"cuda(?:Malloc|Free|HostAlloc|HostRegister|HostUnregister|MemPool)\w*"),
        ("alloc", r"cuMem[A-Z]\w*"),
        ("load", r"cu(?:Module|Library)(?:Load|Unload|GetFunction|GetKernel|GetGlobal)\w*"),
        ("load", r"cudaLibrary(?:Load|Unload|GetKernel|GetGlobal)\w*"),
        ("load", r"cuLink(?:Create|AddData|AddFile|Complete|Destroy)|cuKernelGetFunction"),
    )
)


def base_name(name: str) -> str:
    """`name` without the suffixes that exporters add: `cudaMemcpy_v3020` is `cudaMemcpy`."""
    return _SUFFIX.sub("", name)


@cache
def classify(name: str) -> str:
    """The class of an API function, one of `CLASSES`; suffixes are ignored."""
    base = base_name(name)
    return next((label for label, rule in _RULES if rule.fullmatch(base)), "other")


def with_classes(calls: pl.DataFrame) -> pl.DataFrame:
    """`calls` plus `api` (Categorical: the name without suffixes) and `api_class` (Enum)."""
    names = calls["name"].unique().drop_nulls()
    texts = names.cast(pl.String).to_list()
    known = pl.DataFrame(
        {
            "name": names,
            "api": pl.Series([base_name(t) for t in texts], dtype=pl.String).cast(pl.Categorical),
            "api_class": pl.Series([classify(t) for t in texts], dtype=pl.Enum(CLASSES)),
        }
    )
    return calls.join(known, on="name", how="left", maintain_order="left")
