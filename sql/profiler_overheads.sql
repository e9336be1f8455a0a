-- One row per interval in which the profiler itself held a thread. Order: as stored. Left out: nothing.
-- requires: PROFILER_OVERHEAD(start, end, globalTid)
-- optional: PROFILER_OVERHEAD(nameId)
-- unreadable: skip
-- without it: the profiler's own cost is counted as host time
-- column: start_ns INT64 start, ns on the trace clock
-- column: end_ns INT64 end, ns on the trace clock
-- column: global_tid INT64 thread that is held up
-- column: name STRING_ID what the profiler did; NULL when unknown
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalTid AS global_tid,
    nameId AS name
FROM PROFILER_OVERHEAD
