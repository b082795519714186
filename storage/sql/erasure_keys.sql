-- name: has_erasures
SELECT count(*) > 0 FROM erasures WHERE namespace_id = $namespace_id

-- name: find_marks
SELECT e.subject, e.fingerprint
FROM erasures AS e
INNER JOIN incoming AS i ON i.subject = e.subject AND i.fingerprint = e.fingerprint
WHERE e.namespace_id = $namespace_id
ORDER BY e.subject, e.fingerprint

-- name: read_path
SELECT path FROM duckdb_databases() WHERE database_name = current_database()
