-- name: list_active
SELECT id, revision, content
FROM memories
WHERE status = 'active'
ORDER BY id

-- name: count_publications
SELECT count(*) FROM publications
