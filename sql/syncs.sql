-- One row per synchronisation as the driver saw it. Order: as stored. The numbers of sync_type changed between versions: use the API call's name.
-- requires: CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start, end, globalPid)
-- optional: CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(contextId, streamId, correlationId, syncType, eventId, eventSyncId)
-- unreadable: skip
-- without it: waits on events cannot be traced to the stream that records them
-- column: start_ns INT64 wait start, ns on the trace clock
-- column: end_ns INT64 wait end, ns on the trace clock
-- column: global_pid INT64 process with its VM and hardware bits
-- column: context_id INT32 CUDA context
-- column: stream_id INT64 CUDA stream that is waited for, or that waits; 4294967295 for all streams
-- column: correlation_id INT64 joins the API call within the same process
-- column: sync_type INT32 raw number; its meaning depends on the exporter's version
-- column: event_id INT64 CUDA event; reused by the driver
-- column: event_sync_id INT64 names one record of an event; NULL before schema 3.17
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalPid AS global_pid,
    contextId AS context_id,
    streamId AS stream_id,
    correlationId AS correlation_id,
    syncType AS sync_type,
    eventId AS event_id,
    eventSyncId AS event_sync_id
FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
