-- name: read_texts
-- The canonical text of each active memory, with a comma before it, in id order. NULL: a number or a
-- character whose canonical text is not the one that SQL gives.
WITH members AS (
    SELECT *
    FROM memories
    WHERE namespace_id = $namespace_id AND status = 'active' AND id BETWEEN $first_id AND $last_id
),

sources AS (
    SELECT
        e.memory_id,
        string_agg(
            '{"uri":' || to_json(e.uri) || ',"digest":' || to_json(e.digest) || ',"kind":"' || e.kind
            || '","occurred_at":"' || strftime(e.occurred_at, $instant) || '"}', ','
            ORDER BY e.uri, e.digest, list_position($evidence_kinds::TEXT[], e.kind), e.occurred_at
        ) AS texts
    FROM evidence AS e
    INNER JOIN members AS m ON m.id = e.memory_id
    WHERE e.namespace_id = $namespace_id
        AND e.memory_id BETWEEN $first_id AND $last_id
        AND e.since_revision <= m.revision
    GROUP BY e.memory_id
),

edges AS (
    SELECT
        r.memory_id,
        string_agg(
            '{"kind":"' || r.kind || '","target_id":' || to_json(r.target_id) || '}', ','
            ORDER BY list_position($relation_kinds::TEXT[], r.kind), r.target_id
        ) AS texts
    FROM relations AS r
    INNER JOIN members AS m ON m.id = r.memory_id
    WHERE r.namespace_id = $namespace_id
        AND r.memory_id BETWEEN $first_id AND $last_id
        AND r.since_revision <= m.revision
        AND coalesce(m.revision < r.until_revision, true)
    GROUP BY r.memory_id
),

told AS (
    SELECT
        m.id,
        ',{"id":' || to_json(m.id) || ',"namespace":' || $owner || ',"revision":' || m.revision
        || ',"kind":"' || m.kind || '","status":"active","content":' || to_json(m.content)
        || ',"confidence":' || m.confidence || ',"importance":' || m.importance
        || ',"salience":' || coalesce(m.salience::TEXT, 'null')
        || ',"tags":' || m.tags || ',"metadata":' || m.metadata || ',"pinned":' || m.pinned
        || ',"evidence":[' || coalesce(s.texts, '') || '],"relations":[' || coalesce(e.texts, '')
        || '],"created_at":"' || strftime(m.created_at, $instant)
        || '","updated_at":"' || strftime(m.updated_at, $instant)
        || '","expires_at":' || coalesce('"' || strftime(m.expires_at, $instant) || '"', 'null')
        || ',"revision_kind":"' || m.revision_kind || '"}' AS text,
        regexp_matches(m.content, $unusual) AS is_unusual,
        least(
            CASE WHEN m.confidence = 0 THEN 1 ELSE m.confidence END,
            CASE WHEN m.importance = 0 THEN 1 ELSE m.importance END,
            CASE WHEN m.salience = 0 THEN 1 ELSE coalesce(m.salience, 1) END
        ) AS smallest
    FROM members AS m
    LEFT JOIN sources AS s ON s.memory_id = m.id
    LEFT JOIN edges AS e ON e.memory_id = m.id
)

SELECT
    id,
    CASE WHEN is_unusual OR smallest < 0.0001 OR NOT isfinite(smallest) THEN NULL ELSE text END AS text
FROM told
ORDER BY id
