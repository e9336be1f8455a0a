-- One row per memset on a GPU. Order: as stored. Left out: nothing.
-- requires: CUPTI_ACTIVITY_KIND_MEMSET(start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes)
-- optional: CUPTI_ACTIVITY_KIND_MEMSET(memKind, graphNodeId)
-- unreadable: error
-- without it: no memsets are known
-- column: start_ns INT64 memset start, ns on the trace clock
-- column: end_ns INT64 memset end, ns on the trace clock
-- column: global_pid INT64 process with its VM and hardware bits
-- column: device_id INT32 CUDA ordinal as the process sees it
-- column: context_id INT32 CUDA context
-- column: stream_id INT32 CUDA stream
-- column: correlation_id INT64 joins the API call within the same process
-- column: bytes INT64 bytes set
-- column: mem_kind CODE(memory_kind) kind of the target memory; NULL when unknown
-- column: graph_node_id INT64 CUDA-graph node; NULL outside of graphs
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalPid AS global_pid,
    deviceId AS device_id,
    contextId AS context_id,
    streamId AS stream_id,
    correlationId AS correlation_id,
    bytes AS bytes,
    memKind AS mem_kind,
    graphNodeId AS graph_node_id
FROM CUPTI_ACTIVITY_KIND_MEMSET
