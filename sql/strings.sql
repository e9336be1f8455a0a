-- One row per text that other tables name by id. Order: as stored.
-- requires: StringIds(id, value)
-- unreadable: skip
-- without it: every name is <unknown:ID>
-- column: id INT64 id
-- column: value TEXT text
SELECT
    id AS id,
    CAST(COALESCE(value, '') AS BLOB) AS value
FROM StringIds
