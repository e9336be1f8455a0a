-- One row: when the capture started, in wall-clock time. Order: as stored.
-- requires: TARGET_INFO_SESSION_START_TIME(utcEpochNs)
-- unreadable: skip
-- without it: the capture's date is unknown
-- column: utc_epoch_ns INT64 start of the trace clock, ns since 1970-01-01 UTC
SELECT
    utcEpochNs AS utc_epoch_ns
FROM TARGET_INFO_SESSION_START_TIME
