-- One row per NVTX range or mark. Order: as stored. Left out: rows that carry definitions, such as domains, categories and names of threads.
-- requires: NVTX_EVENTS(start, eventType)
-- optional: NVTX_EVENTS(end, text, textId, globalTid, endGlobalTid, domainId)
-- unreadable: skip
-- without it: time is not tied to the program's own annotations
-- column: start_ns INT64 range start, ns on the trace clock; may be negative
-- column: end_ns INT64 range end; start_ns for marks; NULL for ranges still open at the end of the capture
-- column: global_tid INT64 thread that opened the range
-- column: end_global_tid INT64 thread that closed a start/end range; NULL when the same or unknown
-- column: name TEXT text in the row itself; empty when it is kept in StringIds or when there is none
-- column: name_string STRING_ID text kept in StringIds; NULL when there is none
-- column: domain_id INT64 NVTX domain; NULL when unknown
-- column: kind CODE(nvtx_kind) push_pop, start_end or mark
SELECT
    "start" AS start_ns,
    CASE WHEN eventType = 34 THEN "start" ELSE "end" END AS end_ns,
    globalTid AS global_tid,
    endGlobalTid AS end_global_tid,
    CAST(COALESCE(text, '') AS BLOB) AS name,
    textId AS name_string,
    domainId AS domain_id,
    eventType AS kind
FROM NVTX_EVENTS
WHERE eventType IN (34, 59, 60, 70, 71)
