-- One row per interval in which CUPTI or the CUDA driver held a thread (buffer flush, instrumentation, lazy loading). Order: as stored.
-- requires: CUPTI_ACTIVITY_KIND_OVERHEAD(start, end, globalTid)
-- optional: CUPTI_ACTIVITY_KIND_OVERHEAD(nameId)
-- unreadable: skip
-- without it: CUPTI's own cost is counted as host time
-- column: start_ns INT64 start, ns on the trace clock
-- column: end_ns INT64 end, ns on the trace clock
-- column: global_tid INT64 thread that is held up
-- column: name STRING_ID what CUPTI did; NULL when unknown
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalTid AS global_tid,
    nameId AS name
FROM CUPTI_ACTIVITY_KIND_OVERHEAD
