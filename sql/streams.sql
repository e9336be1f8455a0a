-- One row per CUDA stream that the capture saw created. Order: as stored.
-- requires: TARGET_INFO_CUDA_STREAM(streamId, processId, contextId)
-- optional: TARGET_INFO_CUDA_STREAM(priority, flag, hwId, vmId)
-- unreadable: skip
-- without it: stream priorities and kinds are unknown
-- column: pid INT64 process number
-- column: context_id INT32 CUDA context
-- column: stream_id INT32 CUDA stream
-- column: priority INT32 stream priority, smaller is more urgent; NULL when unknown
-- column: flag INT32 raw creation flag, as in ENUM_CUPTI_STREAM_TYPE; NULL when unknown
-- column: hw_id INT64 hardware id part of the process id; NULL when unknown
-- column: vm_id INT64 VM id part of the process id; NULL when unknown
SELECT
    processId AS pid,
    contextId AS context_id,
    streamId AS stream_id,
    priority AS priority,
    flag AS flag,
    hwId AS hw_id,
    vmId AS vm_id
FROM TARGET_INFO_CUDA_STREAM
