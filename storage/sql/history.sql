-- name: read_meta
SELECT name, value FROM store_meta WHERE name IN ('store_uuid', 'database_inode', 'history_log', 'rebuilds')

-- name: write_meta
UPDATE store_meta SET value = $value WHERE name = $name

-- name: add_meta
INSERT INTO store_meta (name, value)
SELECT $name, $value
WHERE NOT EXISTS (SELECT 1 FROM store_meta WHERE name = $name)
