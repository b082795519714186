-- name: name_erased
CREATE OR REPLACE TEMP TABLE erased AS
SELECT i.memory_id, i.token, to_json(i.memory_id)::TEXT AS quoted
FROM incoming AS i

-- name: mark_removed
CREATE OR REPLACE TEMP TABLE removed AS
SELECT m.id AS memory_id, m.revision
FROM memories AS m
INNER JOIN erased AS e ON e.memory_id = m.id
WHERE m.namespace_id = $namespace_id

-- name: count_named
SELECT n.place, count(*)
FROM named_memories AS n
INNER JOIN erased AS e ON e.memory_id = n.memory_id
WHERE n.namespace_id = $namespace_id
GROUP BY n.place
ORDER BY n.place

-- name: list_attempts
SELECT a.partition, a.record_id
FROM embedding_attempts AS a
INNER JOIN partitions AS p ON p.partition = a.partition
WHERE p.namespace_id = $namespace_id
ORDER BY a.partition, a.record_id

-- name: delete_attempts
DELETE FROM embedding_attempts
WHERE (partition, record_id) IN (SELECT (i.partition, i.record_id) FROM incoming AS i)

-- name: delete_revisions
DELETE FROM revisions WHERE namespace_id = $namespace_id AND memory_id IN (SELECT e.memory_id FROM erased AS e)

-- name: delete_merged_revisions
-- What a merge that was taken back had made of a memory that stays: it had the other's text and labels.
DELETE FROM revisions
WHERE namespace_id = $namespace_id AND revision_kind = 'merged' AND memory_id IN (
    SELECT k.memory_id
    FROM kept_apart AS k
    INNER JOIN erased AS e ON e.memory_id = k.partner_id
    WHERE k.namespace_id = $namespace_id
    UNION ALL
    SELECT k.partner_id
    FROM kept_apart AS k
    INNER JOIN erased AS e ON e.memory_id = k.memory_id
    WHERE k.namespace_id = $namespace_id
)

-- name: delete_evidence
DELETE FROM evidence WHERE namespace_id = $namespace_id AND memory_id IN (SELECT e.memory_id FROM erased AS e)

-- name: delete_relations
DELETE FROM relations
WHERE namespace_id = $namespace_id AND (
    memory_id IN (SELECT e.memory_id FROM erased AS e) OR target_id IN (SELECT e.memory_id FROM erased AS e)
)

-- name: delete_access_events
DELETE FROM access_events WHERE namespace_id = $namespace_id AND memory_id IN (SELECT e.memory_id FROM erased AS e)

-- name: delete_merge_sources
DELETE FROM merge_sources
WHERE namespace_id = $namespace_id AND (
    memory_id IN (SELECT e.memory_id FROM erased AS e) OR source_id IN (SELECT e.memory_id FROM erased AS e)
)

-- name: delete_merge_receipts
DELETE FROM merge_receipts
WHERE receipt_id IN (
    SELECT m.receipt_id
    FROM (
        SELECT receipt_id, unnest(list_append(json_keys(losers), canonical_id)) AS memory_id
        FROM merge_receipts
        WHERE namespace_id = $namespace_id
        UNION ALL
        SELECT receipt_id, unnest(from_json(figures -> '$.awaiting', '["VARCHAR"]'))
        FROM merge_receipts
        WHERE namespace_id = $namespace_id
    ) AS m
    INNER JOIN erased AS e ON e.memory_id = m.memory_id
)

-- name: delete_kept_apart
DELETE FROM kept_apart
WHERE namespace_id = $namespace_id AND (
    memory_id IN (SELECT e.memory_id FROM erased AS e) OR partner_id IN (SELECT e.memory_id FROM erased AS e)
)

-- name: delete_refiner_attempts
DELETE FROM refiner_attempts
WHERE namespace_id = $namespace_id AND cluster_digest IN (
    SELECT m.cluster_digest
    FROM (
        SELECT cluster_digest, unnest(list_append(from_json(member_ids, '["VARCHAR"]'), candidate_id)) AS memory_id
        FROM refiner_attempts
        WHERE namespace_id = $namespace_id
    ) AS m
    INNER JOIN erased AS e ON e.memory_id = m.memory_id
)

-- name: delete_publication_rows
DELETE FROM publication_rows
WHERE memory_id IN (SELECT e.memory_id FROM erased AS e)
    AND publication_id IN (SELECT u.publication_id FROM publications AS u WHERE u.namespace_id = $namespace_id)

-- name: settle_pointers
-- What a pointer serves is fewer by what was taken; its vectors follow when the tables are rewritten.
UPDATE partitions
SET record_count = (
    SELECT count(*) FROM publication_rows AS r WHERE r.publication_id = partitions.publication_id
)
WHERE namespace_id = $namespace_id AND publication_id IS NOT NULL

-- name: delete_plan_pairs
DELETE FROM plan_pairs
WHERE (plan_id, position) IN (
    SELECT (n.plan_id, n.position)
    FROM (
        SELECT plan_id, position, unnest([memory_id, partner_id]) AS memory_id
        FROM plan_pairs
        UNION ALL
        SELECT plan_id, position, json_extract_string(unnest(regexp_extract_all(figures, '"(?:[^"\\]|\\.)*"')), '$')
        FROM plan_pairs
    ) AS n
    INNER JOIN erased AS e ON e.memory_id = n.memory_id
    INNER JOIN plans AS p ON p.plan_id = n.plan_id AND p.namespace_id = $namespace_id
)

-- name: rename_heads
-- Rows of a plan stay, so that it still adds up: their memory is one that nobody finds.
UPDATE decisions
SET head_id = e.token, figures = replace(decisions.figures, e.quoted, to_json(e.token)::TEXT), error = NULL
FROM erased AS e
WHERE decisions.head_id = e.memory_id
    AND decisions.plan_id IN (SELECT p.plan_id FROM plans AS p WHERE p.namespace_id = $namespace_id)

-- name: rename_decisions
UPDATE decisions
SET memory_id = e.token, figures = replace(decisions.figures, e.quoted, to_json(e.token)::TEXT), error = NULL
FROM erased AS e
WHERE decisions.memory_id = e.memory_id
    AND decisions.plan_id IN (SELECT p.plan_id FROM plans AS p WHERE p.namespace_id = $namespace_id)

-- name: list_receipts
-- Receipts that name an erased memory: their own, or one that was carried or kept, or one that the
-- figures tell of.
WITH named AS (
    SELECT receipt_key, memory_id FROM apply_receipts WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT receipt_key, json_extract_string(unnest(regexp_extract_all(figures, '"(?:[^"\\]|\\.)*"')), '$')
    FROM apply_receipts
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT receipt_key, unnest(from_json(carried, '["VARCHAR"]'))
    FROM apply_receipts
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT receipt_key, unnest(from_json(ancestors_kept, '["VARCHAR"]'))
    FROM apply_receipts
    WHERE namespace_id = $namespace_id
)

SELECT receipt_key, plan_id, memory_id, carried, ancestors_kept, figures
FROM apply_receipts
WHERE receipt_key IN (SELECT n.receipt_key FROM named AS n INNER JOIN erased AS e ON e.memory_id = n.memory_id)
ORDER BY receipt_key

-- name: rename_receipts
UPDATE apply_receipts
SET
    receipt_key = 'plan-' || sha256(apply_receipts.plan_id || chr(0) || i.memory_id), memory_id = i.memory_id,
    carried = i.carried, ancestors_kept = i.ancestors_kept, figures = i.figures
FROM incoming AS i
WHERE apply_receipts.receipt_key = i.receipt_key

-- name: list_warnings
SELECT plan_id, warnings FROM plans WHERE namespace_id = $namespace_id AND warnings <> '[]' ORDER BY plan_id

-- name: rename_warnings
UPDATE plans SET warnings = i.warnings FROM incoming AS i WHERE plans.plan_id = i.plan_id

-- name: list_change_sets
SELECT idempotency_key, digest, results
FROM change_sets
WHERE namespace_id = $namespace_id AND idempotency_key IN (
    SELECT c.idempotency_key
    FROM (
        SELECT idempotency_key, unnest(json_transform(results, '[["JSON"]]'))[1] ->> '$' AS memory_id
        FROM change_sets
        WHERE namespace_id = $namespace_id
    ) AS c
    INNER JOIN erased AS e ON e.memory_id = c.memory_id
)
ORDER BY idempotency_key

-- name: rename_results
UPDATE change_sets
SET idempotency_key = i.new_key, digest = i.digest, results = i.results
FROM incoming AS i
WHERE change_sets.namespace_id = $namespace_id AND change_sets.idempotency_key = i.idempotency_key

-- name: clear_errors
UPDATE runs
SET error = code
WHERE namespace_id = $namespace_id
    AND error IS NOT NULL
    AND EXISTS (SELECT 1 FROM erased AS e WHERE contains(runs.error, e.memory_id))

-- name: delete_tokens
DELETE FROM duplicate_texts
WHERE namespace_id = $namespace_id
    AND text_number NOT IN (SELECT m.text_number FROM memories AS m WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL)

-- name: delete_keys
DELETE FROM duplicate_keys
WHERE namespace_id = $namespace_id
    AND text_number NOT IN (SELECT m.text_number FROM memories AS m WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL)

-- name: delete_verdicts
DELETE FROM judged_pairs
WHERE namespace_id = $namespace_id AND (
    text_number NOT IN (SELECT m.text_number FROM memories AS m WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL)
    OR partner_number NOT IN (SELECT m.text_number FROM memories AS m WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL)
)

-- name: delete_searches
DELETE FROM semantic_searches
WHERE namespace_id = $namespace_id
    AND text_number NOT IN (SELECT m.text_number FROM memories AS m WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL)

-- name: delete_pairs
DELETE FROM semantic_pairs
WHERE namespace_id = $namespace_id AND (
    text_number NOT IN (SELECT m.text_number FROM memories AS m WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL)
    OR partner_number NOT IN (SELECT m.text_number FROM memories AS m WHERE m.namespace_id = $namespace_id AND m.text_number IS NOT NULL)
)

-- name: delete_decisions_of_all
DELETE FROM decisions WHERE plan_id IN (SELECT p.plan_id FROM plans AS p WHERE p.namespace_id = $namespace_id)

-- name: delete_pairs_of_all
DELETE FROM plan_pairs WHERE plan_id IN (SELECT p.plan_id FROM plans AS p WHERE p.namespace_id = $namespace_id)

-- name: delete_plans_of_all
DELETE FROM plans WHERE namespace_id = $namespace_id

-- name: delete_receipts_of_all
DELETE FROM apply_receipts WHERE namespace_id = $namespace_id

-- name: delete_attempts_of_all
DELETE FROM embedding_attempts
WHERE partition IN (SELECT p.partition FROM partitions AS p WHERE p.namespace_id = $namespace_id)

-- name: clear_runs_of_all
UPDATE runs
SET error = CASE WHEN error IS NOT NULL THEN code END, plan_id = NULL
WHERE namespace_id = $namespace_id
