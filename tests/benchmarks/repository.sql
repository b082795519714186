-- name: read_stored
SELECT id, content
FROM memories

-- name: read_texts
-- What a query without an index has to read: all that the filter lets through.
SELECT id, content, epoch_us(updated_at) AS updated_us
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND (expires_at IS NULL OR expires_at > $live_at)
