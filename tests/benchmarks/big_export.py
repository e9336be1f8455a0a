"""A big export, made inside SQLite: as many kernels and launch calls as asked for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_GLOBAL_PID = (1 << 48) | (4242 << 24)
_NAMES = 200
_SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER,
    registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
    gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
    blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
    dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
    localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER,
    graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER, qmdBulkReleaseDone INTEGER,
    qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, graphId INTEGER, clusterX INTEGER,
    clusterY INTEGER, clusterZ INTEGER, clusterSchedulingPolicy INTEGER,
    maxPotentialClusterSize INTEGER, maxActiveClusters INTEGER,
    sharedMemoryRequestedPercentage INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL,
    callchainId INTEGER);
"""
_COUNT = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows) "
_KERNELS = """
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT
    1000000000 + i * 10000, 1000000000 + i * 10000 + 4000 + abs(random()) % 5000, 0, 1, 0,
    7 + (i % 16 = 0), i, :pid, 1000 + i % 200, 1200 + i % 200, 1400 + i % 200, 1, 2,
    32 + i % 200, 128 + i % 1000, 1, 1, 256, 1, 1, 1024, (i % 50) * 1024, 0, 111149056, i, 102400,
    NULL, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 8, 0, 0
FROM n"""
_CALLS = """
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT
    999990000 + i * 10000, 999990000 + i * 10000 + 2500 + abs(random()) % 3000, 0, :pid + 4243, i,
    1600 + (i % 100 = 0), 0, NULL
FROM n"""
_STRINGS = """
INSERT INTO StringIds SELECT i, CASE
    WHEN i < 1000 THEN 'text ' || i
    WHEN i < 1600 THEN
        'void cutlass::Kernel<shape<' || i || ', 128, 32>, float, layout::RowMajor>(Params)'
    ELSE 'cudaLaunchKernel_v7000' END
FROM n"""


def write_big_export(path: Path, rows: int) -> Path:
    """Write an export of `rows` kernels and `rows` launch calls; about 210 bytes a pair."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
        values = {"rows": rows, "pid": _GLOBAL_PID}
        connection.execute(_COUNT + _STRINGS, values | {"rows": 1602})
        connection.execute(_COUNT + _KERNELS, values)
        connection.execute(_COUNT + _CALLS, values)
        connection.commit()
    return path
