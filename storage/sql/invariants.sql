-- name: edge_without_inverse
SELECT r.namespace_id, r.memory_id
FROM relations AS r
LEFT JOIN relations AS i
    ON i.namespace_id = r.namespace_id
    AND i.memory_id = r.target_id
    AND i.target_id = r.memory_id
    AND i.until_revision IS NULL
    AND i.kind = CASE r.kind
        WHEN 'supersedes' THEN 'superseded_by'
        WHEN 'superseded_by' THEN 'supersedes'
        ELSE r.kind
    END
WHERE r.until_revision IS NULL AND i.memory_id IS NULL
ORDER BY ALL

-- name: edge_to_nothing
SELECT r.namespace_id, r.memory_id
FROM relations AS r
LEFT JOIN memories AS m ON m.namespace_id = r.namespace_id AND m.id = r.target_id
WHERE r.until_revision IS NULL AND m.id IS NULL
ORDER BY ALL

-- name: supersedes_a_live_memory
SELECT r.namespace_id, r.memory_id
FROM relations AS r
INNER JOIN memories AS m ON m.namespace_id = r.namespace_id AND m.id = r.target_id
WHERE r.kind = 'supersedes' AND r.until_revision IS NULL AND m.status NOT IN ('superseded', 'tombstoned')
ORDER BY ALL

-- name: rows_of_no_memory
SELECT o.namespace_id, o.memory_id
FROM (
    SELECT namespace_id, memory_id FROM revisions
    UNION
    SELECT namespace_id, memory_id FROM evidence
    UNION
    SELECT namespace_id, memory_id FROM relations
    UNION
    SELECT namespace_id, memory_id FROM access_events
) AS o
LEFT JOIN memories AS m ON m.namespace_id = o.namespace_id AND m.id = o.memory_id
WHERE m.id IS NULL
ORDER BY ALL

-- name: memory_of_no_namespace
SELECT m.namespace_id, m.id
FROM memories AS m
LEFT JOIN namespaces AS n ON n.namespace_id = m.namespace_id
WHERE n.namespace_id IS NULL
ORDER BY ALL

-- name: history_after_the_present
SELECT m.namespace_id, m.id
FROM memories AS m
INNER JOIN revisions AS r ON r.namespace_id = m.namespace_id AND r.memory_id = m.id
WHERE r.revision >= m.revision
ORDER BY ALL

-- name: edge_or_evidence_after_the_present
SELECT m.namespace_id, m.id
FROM memories AS m
INNER JOIN (
    SELECT namespace_id, memory_id, since_revision FROM evidence
    UNION ALL
    SELECT namespace_id, memory_id, since_revision FROM relations
) AS e ON e.namespace_id = m.namespace_id AND e.memory_id = m.id
WHERE e.since_revision > m.revision
ORDER BY ALL

-- name: active_without_evidence
SELECT m.namespace_id, m.id
FROM memories AS m
LEFT JOIN evidence AS e ON e.namespace_id = m.namespace_id AND e.memory_id = m.id
WHERE m.status = 'active' AND e.memory_id IS NULL
ORDER BY ALL

-- name: times_out_of_order
SELECT namespace_id, id
FROM memories
WHERE updated_at < created_at
ORDER BY ALL

-- name: applied_without_receipt
SELECT p.namespace_id, d.memory_id
FROM decisions AS d
INNER JOIN plans AS p ON p.plan_id = d.plan_id
LEFT JOIN apply_receipts AS a ON a.plan_id = d.plan_id AND a.memory_id = d.memory_id
WHERE d.outcome = 'applied' AND d.reason <> 'carried' AND a.memory_id IS NULL
ORDER BY ALL

-- name: receipt_without_decision
SELECT a.namespace_id, a.memory_id
FROM apply_receipts AS a
INNER JOIN plans AS p ON p.plan_id = a.plan_id
LEFT JOIN decisions AS d
    ON d.plan_id = a.plan_id AND d.memory_id = a.memory_id AND d.outcome = 'applied' AND d.reason <> 'carried'
WHERE d.memory_id IS NULL
ORDER BY ALL

-- name: run_that_does_not_add_up
SELECT namespace_id, run_id
FROM runs
WHERE outcome NOT IN ('running', 'abandoned')
    AND found <> applied + failed + coalesce(list_sum(json_transform(json_extract(skipped, '$.*'), '["BIGINT"]')), 0)
ORDER BY ALL

-- name: result_of_a_later_revision
SELECT c.namespace_id, m.id
FROM (
    SELECT namespace_id, unnest(json_transform(results, '[["JSON"]]')) AS result
    FROM change_sets
) AS c
INNER JOIN memories AS m ON m.namespace_id = c.namespace_id AND m.id = (c.result[1] ->> '$')
WHERE (c.result[2] ->> '$')::BIGINT > m.revision
ORDER BY ALL

-- name: text_not_indexed
SELECT namespace_id, id
FROM memories
WHERE text_number IS NULL
ORDER BY ALL
