-- One row per CUDA-graph execution that was traced as a whole; the kernels inside it have no rows. Order: as stored.
-- requires: CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start, end, deviceId, correlationId, globalPid)
-- optional: CUPTI_ACTIVITY_KIND_GRAPH_TRACE(contextId, streamId, graphId, graphExecId)
-- unreadable: error
-- without it: no whole-graph executions are known
-- column: start_ns INT64 first node's start, ns on the trace clock
-- column: end_ns INT64 last node's end, ns on the trace clock
-- column: global_pid INT64 process with its VM and hardware bits
-- column: device_id INT32 CUDA ordinal as the process sees it; 2147483647 when the first node is on the host
-- column: context_id INT32 CUDA context; 2147483647 when the first node is on the host
-- column: stream_id INT32 CUDA stream of the launch
-- column: correlation_id INT64 joins the cudaGraphLaunch call within the same process
-- column: graph_id INT64 graph
-- column: graph_exec_id INT64 instantiated graph
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalPid AS global_pid,
    deviceId AS device_id,
    contextId AS context_id,
    streamId AS stream_id,
    correlationId AS correlation_id,
    graphId AS graph_id,
    graphExecId AS graph_exec_id
FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE
