-- One row per cudaEventRecord. Order: as stored. Left out: nothing. The row has no time of its own before schema 3.23: its API call has.
-- requires: CUPTI_ACTIVITY_KIND_CUDA_EVENT(contextId, streamId, correlationId, globalPid, eventId)
-- optional: CUPTI_ACTIVITY_KIND_CUDA_EVENT(eventSyncId)
-- unreadable: skip
-- without it: waits of one stream for another cannot be named
-- column: global_pid INT64 process with its VM and hardware bits
-- column: context_id INT32 CUDA context
-- column: stream_id INT32 CUDA stream that records the event
-- column: correlation_id INT64 joins the API call within the same process
-- column: event_id INT64 CUDA event; reused by the driver
-- column: event_sync_id INT64 names one record of an event; NULL before schema 3.17
SELECT
    globalPid AS global_pid,
    contextId AS context_id,
    streamId AS stream_id,
    correlationId AS correlation_id,
    eventId AS event_id,
    eventSyncId AS event_sync_id
FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT
