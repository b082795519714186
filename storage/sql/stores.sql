-- name: read_meta
SELECT value FROM store_meta WHERE name = $name

-- name: insert_meta
INSERT INTO store_meta (name, value) VALUES ($name, $value)
