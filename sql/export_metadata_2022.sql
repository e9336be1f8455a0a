-- One row per fact about the export (nsys 2022). Order: as stored.
-- requires: EXPORT_META_DATA(name, value)
-- unreadable: skip
-- without it: the nsys version is unknown
-- column: name TEXT fact, such as EXPORT_SCHEMA_VERSION
-- column: value TEXT its value
SELECT
    CAST(COALESCE(name, '') AS BLOB) AS name,
    CAST(COALESCE(value, '') AS BLOB) AS value
FROM EXPORT_META_DATA
