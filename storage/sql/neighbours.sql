-- name: list_embedded
-- Who takes part (spec/consolidate.md R1), and how a publication holds them: `state` is current,
-- stale (another content was embedded) or missing. A vector is cut off where its importer says so.
SELECT
    m.id AS memory_id,
    m.text_number,
    'sha256:' || sha256(m.content) AS content_digest,
    CASE
        WHEN r.memory_id IS NULL OR m.text_number IS NULL THEN 'missing'
        WHEN r.content_digest = 'sha256:' || sha256(m.content) THEN 'current'
        ELSE 'stale'
    END AS state,
    coalesce(json_extract_string(m.metadata, $truncated_path) = 'true', false) AS is_truncated
FROM memories AS m
LEFT JOIN publication_rows AS r ON r.publication_id = $publication_id AND r.memory_id = m.id
WHERE m.namespace_id = $namespace_id
    AND m.status = 'active'
    AND (m.expires_at IS NULL OR m.expires_at > $now)
ORDER BY m.created_at, m.id
