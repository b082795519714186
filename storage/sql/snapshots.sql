-- name: count_members
SELECT count(*)
FROM memories
WHERE namespace_id = $namespace_id AND status IN (SELECT unnest($statuses::TEXT[]))

-- name: plan_pages
-- Ranges of ids of about $page_bytes each. text_bytes counts texts that every payload repeats in
-- full, so no payload is smaller.
WITH members AS (
    SELECT id, strlen(content) AS text_bytes, strlen(tags) + strlen(metadata) + 512 AS other_bytes
    FROM memories
    WHERE namespace_id = $namespace_id AND status IN (SELECT unnest($statuses::TEXT[]))
),

parts AS (
    SELECT memory_id, 0 AS text_bytes, strlen(uri) + strlen(digest) + 128 AS other_bytes
    FROM evidence
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT memory_id, 0 AS text_bytes, strlen(target_id) + 64 AS other_bytes
    FROM relations
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT memory_id, strlen(content) AS text_bytes, strlen(tags) + strlen(metadata) + 512 AS other_bytes
    FROM revisions
    WHERE $with_history AND namespace_id = $namespace_id
),

added AS (
    SELECT memory_id, sum(text_bytes) AS text_bytes, sum(other_bytes) AS other_bytes
    FROM parts
    GROUP BY memory_id
),

sized AS (
    SELECT
        m.id,
        m.text_bytes + coalesce(a.text_bytes, 0) AS text_bytes,
        m.other_bytes + coalesce(a.other_bytes, 0) AS other_bytes
    FROM members AS m
    LEFT JOIN added AS a ON a.memory_id = m.id
),

placed AS (
    SELECT
        id,
        text_bytes,
        (sum(text_bytes + other_bytes) OVER (ORDER BY id) - text_bytes - other_bytes) // $page_bytes AS page
    FROM sized
)

SELECT min(id) AS first_id, max(id) AS last_id, sum(text_bytes)::BIGINT AS text_bytes
FROM placed
GROUP BY page
ORDER BY page

-- name: read_page
-- The lists come in no order: the encoder sorts them.
WITH members AS (
    SELECT
        id, revision, revision_kind, kind, status, content, confidence, importance, salience, tags,
        metadata, pinned, strftime(created_at, $instant) AS created_at,
        strftime(updated_at, $instant) AS updated_at, strftime(expires_at, $instant) AS expires_at
    FROM memories
    WHERE namespace_id = $namespace_id
        AND status IN (SELECT unnest($statuses::TEXT[]))
        AND id BETWEEN $first_id AND $last_id
),

sources AS (
    SELECT
        memory_id,
        list({
            'uri': uri, 'digest': digest, 'kind': kind, 'occurred_at': strftime(occurred_at, $instant),
            'since_revision': since_revision
        }) AS evidence
    FROM evidence
    WHERE namespace_id = $namespace_id AND memory_id IN (SELECT id FROM members)
    GROUP BY memory_id
),

edges AS (
    SELECT
        memory_id,
        list({
            'kind': kind, 'target_id': target_id, 'since_revision': since_revision,
            'until_revision': until_revision
        }) AS relations
    FROM relations
    WHERE namespace_id = $namespace_id AND memory_id IN (SELECT id FROM members)
    GROUP BY memory_id
),

past AS (
    SELECT
        memory_id,
        list({
            'revision': revision, 'revision_kind': revision_kind, 'kind': kind, 'status': status,
            'content': content, 'confidence': confidence, 'importance': importance, 'salience': salience,
            'tags': tags, 'metadata': metadata, 'pinned': pinned,
            'updated_at': strftime(updated_at, $instant), 'expires_at': strftime(expires_at, $instant)
        }) AS history
    FROM revisions
    WHERE $with_history AND namespace_id = $namespace_id AND memory_id IN (SELECT id FROM members)
    GROUP BY memory_id
)

SELECT
    m.id, m.revision, m.revision_kind, m.kind, m.status, m.content, m.confidence, m.importance, m.salience,
    m.tags, m.metadata, m.pinned, m.created_at, m.updated_at, m.expires_at, s.evidence, e.relations, p.history
FROM members AS m
LEFT JOIN sources AS s ON s.memory_id = m.id
LEFT JOIN edges AS e ON e.memory_id = m.id
LEFT JOIN past AS p ON p.memory_id = m.id
ORDER BY m.id
