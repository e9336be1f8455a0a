"""The numbers that nsys writes for kinds, and their words.

The words are fixed here, not taken from the export's own ENUM tables: those are absent in old
files and change their spelling between versions, while the numbers keep their meaning.
"""

from __future__ import annotations

COPY_KINDS = {
    0: "unknown",
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "UM HtoD",
    12: "UM DtoH",
    13: "UM DtoD",
}
"""ENUM_CUDA_MEMCPY_OPER; A is a CUDA array, UM unified memory, P a peer device."""

MEMORY_KINDS = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "array",
    4: "managed",
    5: "device_static",
    6: "managed_static",
    7: "unknown",
}
"""ENUM_CUDA_MEM_KIND."""

MIGRATION_CAUSES = {
    0: "unknown",
    1: "user",
    2: "coherence",
    3: "prefetch",
    4: "eviction",
    5: "access_counters",
}
"""ENUM_CUDA_UNIF_MEM_MIGRATION."""

NVTX_KINDS = {34: "mark", 59: "push_pop", 60: "start_end", 70: "push_pop", 71: "start_end"}
"""ENUM_NSYS_EVENT_TYPE, the ones that are ranges and marks (70 and 71: from NVTX text imports)."""

CODES: dict[str, dict[int, str]] = {
    "copy_kind": COPY_KINDS,
    "memory_kind": MEMORY_KINDS,
    "migration_cause": MIGRATION_CAUSES,
    "nvtx_kind": NVTX_KINDS,
}
"""Tables of codes by the name that the SQL headers use. A number that is not in its table
becomes `kind_NUMBER`."""

UNIFIED_MEMORY_KINDS = ("UM HtoD", "UM DtoH", "UM DtoD")
