-- One row per message of the profiler about the capture. Order: as stored. Severity 1 information, 2 warning, 3 error; 2 and 3 occur in good captures too.
-- requires: DIAGNOSTIC_EVENT(timestamp, severity, text)
-- unreadable: skip
-- without it: the profiler's own warnings are unknown
-- column: time_ns INT64 when, ns on the trace clock
-- column: severity INT32 1 information, 2 warning, 3 error
-- column: text TEXT message
SELECT
    "timestamp" AS time_ns,
    severity AS severity,
    CAST(COALESCE(text, '') AS BLOB) AS text
FROM DIAGNOSTIC_EVENT
