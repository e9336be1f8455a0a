-- One row per operating-system runtime call (poll, read, pthread_cond_wait, ...). Order: as stored. Left out: nothing.
-- requires: OSRT_API(start, end, globalTid, nameId)
-- unreadable: skip
-- without it: host time outside of CUDA calls is unexplained
-- column: start_ns INT64 call, ns on the trace clock
-- column: end_ns INT64 return, ns on the trace clock
-- column: global_tid INT64 calling thread
-- column: name STRING_ID function
SELECT
    "start" AS start_ns,
    "end" AS end_ns,
    globalTid AS global_tid,
    nameId AS name
FROM OSRT_API
