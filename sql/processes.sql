-- One row per process that the exporter names. Order: as stored.
-- requires: PROCESSES(globalPid, pid)
-- optional: PROCESSES(name)
-- unreadable: skip
-- without it: processes have numbers and no names
-- column: global_pid INT64 process with its VM and hardware bits
-- column: pid INT64 process number
-- column: name TEXT command name
SELECT
    globalPid AS global_pid,
    pid AS pid,
    CAST(COALESCE(name, '') AS BLOB) AS name
FROM PROCESSES
