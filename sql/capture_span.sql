-- One row: how long the profiler recorded. Order: as stored.
-- requires: ANALYSIS_DETAILS(duration)
-- unreadable: skip
-- without it: the length of the recording is unknown
-- column: duration_ns INT64 recording time, ns
SELECT
    duration AS duration_ns
FROM ANALYSIS_DETAILS
