-- One row per thread name that was set (a thread may have several: the last one holds). Order: as stored.
-- requires: ThreadNames(nameId, globalTid)
-- unreadable: skip
-- without it: threads have numbers and no names
-- column: global_tid INT64 thread with its process, VM and hardware bits
-- column: name STRING_ID thread name
SELECT
    globalTid AS global_tid,
    nameId AS name
FROM ThreadNames
