"""Which physical GPU each process's CUDA device is.

`deviceId` in event rows is the process's CUDA ordinal. Two ranks that each see "device 0" are two
GPUs, unless a table of the export says otherwise; two processes that share a GPU are one.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import polars as pl

from nsys_deepprof.ids import pid_of

if TYPE_CHECKING:
    from collections.abc import Callable

HOST_FIRST_DEVICE = 2_147_483_647
"""deviceId of a whole-graph row whose first node is on the host: it names no device."""

SCHEMA: dict[str, pl.DataType] = {
    "gpu": pl.Int64(),
    "global_pid": pl.Int64(),
    "pid": pl.Int64(),
    "device_id": pl.Int32(),
    "name": pl.String(),
    "uuid": pl.String(),
    "bus_location": pl.String(),
    "memory_bytes": pl.Int64(),
    "memory_bandwidth_bytes_per_s": pl.Int64(),
    "sm_count": pl.Int64(),
}


def gpu_table(devices: pl.DataFrame, read: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    """One row per (process, CUDA device) with device work, with the GPU behind it.

    `devices` has the distinct `global_pid`, `device_id` of all device rows; `read(name)` gives the
    rows of a query of `sql/`. The number `gpu` is, in this order: the physical id where the
    export maps (pid, CUDA ordinal) to it; the CUDA ordinal where it names one GPU only; else a
    number counted over what is left. Schema: `SCHEMA`; name and properties are null where
    the export does not tell them.
    """
    found = (
        devices.unique()
        .sort("global_pid", "device_id")
        .with_columns(pid_of(pl.col("global_pid")).alias("pid"))
    )
    mapping = read("cuda_devices").unique(["pid", "device_id"], keep="first")
    found = found.join(
        mapping.select(
            "pid",
            pl.col("device_id").cast(pl.Int32, strict=False),
            "gpu_id",
            pl.col("uuid").alias("map_uuid"),
        ),
        on=["pid", "device_id"],
        how="left",
        maintain_order="left",
    )
    properties = _properties(read)
    numbered = found.with_columns(_numbers(found))
    known = pl.col("gpu_id").is_not_null()
    joined = pl.concat(
        [
            _described(numbered.filter(known), "gpu_id", properties, "gpu_id"),
            _described(numbered.filter(~known), "device_id", properties, "ordinal"),
        ]
    ).sort("global_pid", "device_id")
    uuid = pl.coalesce(pl.col("map_uuid").replace("", None), pl.col("uuid").replace("", None))
    return joined.with_columns(
        uuid.alias("uuid"),
        pl.col("name").replace("", None),
        pl.col("bus_location").replace("", None),
    ).select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


def _numbers(found: pl.DataFrame) -> pl.Series:
    """The number of each (process, device): a mapped GPU keeps its own, whatever the others get."""
    mapped, ordinals = found["gpu_id"].to_list(), found["device_id"].to_list()
    rest = [ordinal for gpu, ordinal in zip(mapped, ordinals, strict=True) if gpu is None]
    taken = {gpu for gpu in mapped if gpu is not None}
    telling = len(set(rest)) == len(rest) and taken.isdisjoint(rest)
    free = iter(rest) if telling else (number for number in count() if number not in taken)
    numbers = [next(free) if gpu is None else gpu for gpu in mapped]
    return pl.Series("gpu", numbers, dtype=pl.Int64)


def _described(found: pl.DataFrame, by: str, properties: pl.DataFrame, key: str) -> pl.DataFrame:
    """`found` with the properties whose `key` equals its column `by`; null where there are none."""
    keyed = (
        properties.filter(pl.col(key).is_not_null())
        .unique(key, keep="first")
        .with_columns(pl.col(key).alias("key"))
        .drop("gpu_id", "ordinal")
    )
    return (
        found.with_columns(pl.col(by).cast(pl.Int64).alias("key"))
        .join(keyed, on="key", how="left", maintain_order="left")
        .drop("key")
    )


def _properties(read: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    common = ["name", "bus_location", "memory_bytes", "memory_bandwidth_bytes_per_s", "sm_count"]
    newer = read("gpu_properties").select(
        "gpu_id",
        # The oldest exports have the device's own number, the ones after it CUDA's ordinal.
        pl.coalesce("cu_device", "table_device_id").alias("ordinal"),
        "uuid",
        *common,
    )
    oldest = read("cuda_gpus_2020").select(
        pl.lit(None, pl.Int64).alias("gpu_id"),
        pl.col("device_id").alias("ordinal"),
        pl.lit("").alias("uuid"),
        *common,
    )
    return pl.concat([oldest, newer])
