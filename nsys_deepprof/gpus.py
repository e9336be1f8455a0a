"""Which physical GPU each process's CUDA device is.

`deviceId` in event rows is the process's CUDA ordinal. Two ranks that each see "device 0" are two
GPUs, unless a table of the export says otherwise; two processes that share a GPU are one.
"""

from __future__ import annotations

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
    number counted over (process, ordinal). Schema: `SCHEMA`; name and properties are null where
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
    mapped = found["gpu_id"].null_count() == 0 and found.height > 0
    if mapped:
        found = found.with_columns(pl.col("gpu_id").alias("gpu"))
        by = "gpu_id"
    else:
        shared = found.filter(pl.col("device_id").is_duplicated()).height > 0
        number = pl.int_range(pl.len(), dtype=pl.Int64) if shared else pl.col("device_id")
        found = found.with_columns(number.cast(pl.Int64).alias("gpu"))
        by = "ordinal"
    keyed = properties.filter(pl.col(by).is_not_null()).unique(by, keep="first")
    joined = found.join(
        keyed.drop({"gpu_id", "ordinal"} - {by}),
        left_on="gpu_id" if mapped else pl.col("device_id").cast(pl.Int64),
        right_on=by,
        how="left",
        maintain_order="left",
    )
    uuid = pl.coalesce(pl.col("map_uuid").replace("", None), pl.col("uuid").replace("", None))
    return joined.with_columns(
        uuid.alias("uuid"),
        pl.col("name").replace("", None),
        pl.col("bus_location").replace("", None),
    ).select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


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
