-- One row per memory copy on a GPU, unified-memory migrations included. Order: as stored. Left out: nothing.
-- requires: CUPTI_ACTIVITY_KIND_MEMCPY(start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, copyKind)
-- optional: CUPTI_ACTIVITY_KIND_MEMCPY(srcKind, dstKind, srcDeviceId, dstDeviceId, migrationCause, copyCount, graphNodeId)
-- unreadable: error
-- without it: no copies are known
-- column: start_ns INT64 copy start, ns on the trace clock
-- column: end_ns INT64 copy end, ns on the trace clock
-- column: global_pid INT64 process with its VM and hardware bits
-- column: device_id INT32 CUDA ordinal as the process sees it
-- column: context_id INT32 CUDA context
-- column: stream_id INT32 CUDA stream; NULL for unified-memory migrations, which are on none
-- column: correlation_id INT64 joins the API call within the same process; NULL for unified-memory migrations, which have none
-- column: bytes INT64 bytes copied
-- column: kind CODE(copy_kind) direction, as in ENUM_CUDA_MEMCPY_OPER
-- column: src_kind CODE(memory_kind) kind of the source memory, as in ENUM_CUDA_MEM_KIND; NULL when unknown
-- column: dst_kind CODE(memory_kind) kind of the target memory; NULL when unknown
-- column: src_device_id INT32 source device of a peer copy; NULL when unknown
-- column: dst_device_id INT32 target device of a peer copy; NULL when unknown
-- column: migration_cause CODE(migration_cause) why unified memory moved; NULL for other copies
-- column: copy_count INT64 copies merged into this row; NULL when the exporter does not say
-- column: graph_node_id INT64 CUDA-graph node; NULL outside of graphs
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalPid AS global_pid,
    deviceId AS device_id,
    contextId AS context_id,
    CASE WHEN copyKind IN (11, 12, 13) THEN NULL ELSE streamId END AS stream_id,
    CASE WHEN copyKind IN (11, 12, 13) THEN NULL ELSE correlationId END AS correlation_id,
    bytes AS bytes,
    copyKind AS kind,
    srcKind AS src_kind,
    dstKind AS dst_kind,
    srcDeviceId AS src_device_id,
    dstDeviceId AS dst_device_id,
    CASE WHEN copyKind IN (11, 12, 13) THEN migrationCause ELSE NULL END AS migration_cause,
    copyCount AS copy_count,
    graphNodeId AS graph_node_id
FROM CUPTI_ACTIVITY_KIND_MEMCPY
