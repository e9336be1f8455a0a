-- One row per kernel execution. Order: as stored. Left out: nothing; impossible times are dropped later, and counted.
-- requires: CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName)
-- optional: CUPTI_ACTIVITY_KIND_KERNEL(shortName, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory, graphNodeId, graphId)
-- unreadable: error
-- without it: no kernels are known
-- column: start_ns INT64 execution start, ns on the trace clock
-- column: end_ns INT64 execution end, ns on the trace clock
-- column: global_pid INT64 process with its VM and hardware bits; NULL when the exporter left it out
-- column: device_id INT32 CUDA ordinal as the process sees it (not the id of the physical GPU)
-- column: context_id INT32 CUDA context
-- column: stream_id INT32 CUDA stream within the context
-- column: correlation_id INT64 joins the launch call within the same process; NULL when unknown
-- column: name STRING_ID demangled name with template arguments
-- column: short_name STRING_ID name without arguments; NULL when the exporter has none
-- column: grid_x INT32 blocks in x; NULL when unknown
-- column: grid_y INT32 blocks in y; NULL when unknown
-- column: grid_z INT32 blocks in z; NULL when unknown
-- column: block_x INT32 threads of a block in x; NULL when unknown
-- column: block_y INT32 threads of a block in y; NULL when unknown
-- column: block_z INT32 threads of a block in z; NULL when unknown
-- column: registers_per_thread INT32 registers; NULL when unknown
-- column: static_shared_bytes INT32 static shared memory of a block, bytes; NULL when unknown
-- column: dynamic_shared_bytes INT32 dynamic shared memory of a block, bytes; NULL when unknown
-- column: graph_node_id INT64 CUDA-graph node; NULL outside of graphs
-- column: graph_id INT64 CUDA graph; NULL outside of graphs and before schema 3.23
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalPid AS global_pid,
    deviceId AS device_id,
    contextId AS context_id,
    streamId AS stream_id,
    correlationId AS correlation_id,
    demangledName AS name,
    shortName AS short_name,
    gridX AS grid_x,
    gridY AS grid_y,
    gridZ AS grid_z,
    blockX AS block_x,
    blockY AS block_y,
    blockZ AS block_z,
    registersPerThread AS registers_per_thread,
    staticSharedMemory AS static_shared_bytes,
    dynamicSharedMemory AS dynamic_shared_bytes,
    graphNodeId AS graph_node_id,
    graphId AS graph_id
FROM CUPTI_ACTIVITY_KIND_KERNEL
