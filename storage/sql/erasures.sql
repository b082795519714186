-- name: find_memories
SELECT m.id AS memory_id, m.revision, m.status
FROM memories AS m
INNER JOIN incoming AS i ON i.memory_id = m.id
WHERE m.namespace_id = $namespace_id
ORDER BY m.id

-- name: find_traces
-- Ids that some row still names, whether or not there is a memory.
SELECT DISTINCT n.memory_id
FROM named_memories AS n
INNER JOIN incoming AS i ON i.memory_id = n.memory_id
WHERE n.namespace_id = $namespace_id
ORDER BY n.memory_id

-- name: find_tagged
SELECT id AS memory_id
FROM memories
WHERE namespace_id = $namespace_id AND list_contains(from_json(tags, '["VARCHAR"]'), $tag)
ORDER BY id

-- name: find_all
SELECT DISTINCT memory_id
FROM named_memories
WHERE namespace_id = $namespace_id AND memory_id IS NOT NULL
ORDER BY memory_id

-- name: find_merged
-- One step along the merges that hold: what a memory took in, and what took it in, if only its text
-- so far (R96). A loser that was given back is in it for as long as its values are.
WITH members AS (
    SELECT receipt_id, unnest(list_append(json_keys(losers), canonical_id)) AS memory_id
    FROM merge_receipts
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT receipt_id, unnest(from_json(figures -> '$.kept_from', '["VARCHAR"]'))
    FROM merge_receipts
    WHERE namespace_id = $namespace_id
    UNION ALL
    SELECT r.receipt_id, unnest(from_json(r.figures -> '$.awaiting', '["VARCHAR"]'))
    FROM merge_receipts AS r
    WHERE r.namespace_id = $namespace_id
        AND r.released_at IS NULL
        AND NOT EXISTS (
            -- A later merge was taken back, and the text with it.
            SELECT 1
            FROM merge_receipts AS l
            WHERE l.namespace_id = $namespace_id
                AND l.canonical_id = r.canonical_id
                AND l.position > r.position
                AND l.released_at IS NOT NULL
                AND (l.figures -> '$.kept_from') IS NULL
                AND (l.figures ->> '$.former_revision')::BIGINT <= (r.figures ->> '$.former_revision')::BIGINT
        )
)

SELECT s.source_id AS memory_id
FROM merge_sources AS s
INNER JOIN incoming AS i ON i.memory_id = s.memory_id
WHERE s.namespace_id = $namespace_id
UNION
SELECT s.memory_id
FROM merge_sources AS s
INNER JOIN incoming AS i ON i.memory_id = s.source_id
WHERE s.namespace_id = $namespace_id
UNION
SELECT o.memory_id
FROM members AS m
INNER JOIN incoming AS i ON i.memory_id = m.memory_id
INNER JOIN members AS o ON o.receipt_id = m.receipt_id
ORDER BY memory_id

-- name: find_refined
-- One step to what a refiner made of a memory: as its own rows say, and as its attempts do.
SELECT e.memory_id
FROM evidence AS e
INNER JOIN incoming AS i ON i.memory_id = regexp_extract(e.uri, '^memtend:memory:(.+):[0-9]+$', 1)
WHERE e.namespace_id = $namespace_id AND starts_with(e.uri, 'memtend:memory:')
UNION
SELECT r.candidate_id
FROM (
    SELECT candidate_id, unnest(from_json(member_ids, '["VARCHAR"]')) AS member_id
    FROM refiner_attempts
    WHERE namespace_id = $namespace_id AND candidate_id IS NOT NULL
) AS r
INNER JOIN incoming AS i ON i.memory_id = r.member_id
ORDER BY memory_id

-- name: count_active
SELECT count(*) FROM memories WHERE namespace_id = $namespace_id AND status = 'active'

-- name: read_contents
-- Every text that the memories have, or had.
SELECT m.id AS memory_id, m.revision, m.content
FROM memories AS m
INNER JOIN incoming AS i ON i.memory_id = m.id
WHERE m.namespace_id = $namespace_id
UNION ALL
SELECT r.memory_id, r.revision, r.content
FROM revisions AS r
INNER JOIN incoming AS i ON i.memory_id = r.memory_id
WHERE r.namespace_id = $namespace_id
ORDER BY memory_id, revision

-- name: forget_marks
DELETE FROM erasures
WHERE namespace_id = $namespace_id AND (subject, fingerprint) IN (SELECT (i.subject, i.fingerprint) FROM incoming AS i)

-- name: insert_marks
INSERT INTO erasures (namespace_id, subject, fingerprint, erasure_id)
SELECT $namespace_id, i.subject, i.fingerprint, $erasure_id
FROM incoming AS i

-- name: find_marked_ids
SELECT i.memory_id
FROM incoming AS i
INNER JOIN erasures AS e
    ON e.namespace_id = $namespace_id AND e.subject = 'id' AND e.fingerprint = i.fingerprint
ORDER BY i.memory_id

-- name: insert_erasure
INSERT INTO erasure_proofs (erasure_id, namespace_id, phase, memories, removed, erased_at)
VALUES ($erasure_id, $namespace_id, 'rows', $memories, $removed, $clock)

-- name: count_erasures
SELECT count(*) FROM erasure_proofs

-- name: list_unproved
SELECT p.erasure_id, p.namespace_id, n.namespace_key, p.memories, p.erased_at, p.proof
FROM erasure_proofs AS p
INNER JOIN namespaces AS n ON n.namespace_id = p.namespace_id
WHERE p.phase = 'rows'
ORDER BY p.erased_at, p.erasure_id

-- name: list_unproved_marks
SELECT e.fingerprint
FROM erasures AS e
INNER JOIN erasure_proofs AS p ON p.erasure_id = e.erasure_id
WHERE p.phase = 'rows' AND e.subject = 'id' AND e.namespace_id = $namespace_id
ORDER BY e.fingerprint

-- name: digest_marks
SELECT count(*), 'sha256:' || sha256(coalesce(string_agg(subject || ':' || fingerprint, chr(10) ORDER BY subject, fingerprint), ''))
FROM erasures
WHERE erasure_id = $erasure_id

-- name: set_proved
UPDATE erasure_proofs
SET phase = 'proved', proof = $proof, proved_at = $clock
WHERE erasure_id = $erasure_id AND phase = 'rows'

-- name: note_failed_proof
UPDATE erasure_proofs SET proof = $proof WHERE erasure_id = $erasure_id AND phase = 'rows'

-- name: list_proofs
-- What these runs erased, and what they verified for runs that ended before.
SELECT p.erasure_id, p.phase, p.memories, p.removed, p.erased_at, p.proof, p.proved_at
FROM erasure_proofs AS p
WHERE p.erasure_id IN (SELECT unnest($run_ids::TEXT[]))
    OR json_extract_string(p.proof, '$.run_id') IN (SELECT unnest($run_ids::TEXT[]))
ORDER BY p.erased_at, p.erasure_id

-- name: list_named
SELECT memory_id, list(DISTINCT place)
FROM named_memories
WHERE namespace_id = $namespace_id AND memory_id IS NOT NULL
GROUP BY memory_id

-- name: is_said_elsewhere
-- Whether a memory that stays has the text as part of its own.
SELECT
    EXISTS (SELECT 1 FROM memories WHERE contains(content, $text) OR contains(metadata, $text) OR contains(tags, $text))
    OR EXISTS (SELECT 1 FROM revisions WHERE contains(content, $text) OR contains(metadata, $text) OR contains(tags, $text))

-- name: list_partitions
SELECT p.partition, n.namespace_id, n.namespace_key
FROM partitions AS p
INNER JOIN namespaces AS n ON n.namespace_id = p.namespace_id
ORDER BY p.partition
