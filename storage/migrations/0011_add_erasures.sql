-- What was erased, as keyed fingerprints only: HMAC-SHA256 under the secret in memory.key, so nobody
-- can guess from a row what it was. It keeps the same from coming back.
CREATE TABLE erasures (
    namespace_id INTEGER NOT NULL,
    subject TEXT NOT NULL CHECK (subject IN ('id', 'content')),
    fingerprint TEXT NOT NULL,
    erasure_id TEXT NOT NULL,
    PRIMARY KEY (namespace_id, subject, fingerprint)
);

-- One row for each erasure. rows: its rows are gone, its bytes may still be in files; the next
-- erasure goes on with it. proved: files and both stores were read back; proof: JSON, figures and
-- digests only.
CREATE TABLE erasure_proofs (
    erasure_id TEXT PRIMARY KEY,
    namespace_id INTEGER NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN ('rows', 'proved')),
    memories BIGINT NOT NULL,
    removed TEXT NOT NULL,
    erased_at TIMESTAMPTZ NOT NULL,
    proof TEXT,
    proved_at TIMESTAMPTZ
);

-- Every id of a memory that a row names, and where: what an erasure has to find, and to find gone.
CREATE VIEW named_memories AS
SELECT namespace_id, 'memories' AS place, id AS memory_id FROM memories
UNION ALL
SELECT namespace_id, 'revisions', memory_id FROM revisions
UNION ALL
SELECT namespace_id, 'evidence', memory_id FROM evidence
UNION ALL
SELECT namespace_id, 'evidence', regexp_extract(uri, '^memtend:memory:(.+):[0-9]+$', 1)
FROM evidence
WHERE starts_with(uri, 'memtend:memory:')
UNION ALL
SELECT namespace_id, 'relations', unnest([memory_id, target_id]) FROM relations
UNION ALL
SELECT namespace_id, 'access_events', memory_id FROM access_events
UNION ALL
SELECT namespace_id, 'merge_sources', unnest([memory_id, source_id]) FROM merge_sources
UNION ALL
SELECT namespace_id, 'merge_receipts', unnest(list_append(json_keys(losers), canonical_id)) FROM merge_receipts
UNION ALL
SELECT namespace_id, 'kept_apart', unnest([memory_id, partner_id]) FROM kept_apart
UNION ALL
SELECT namespace_id, 'refiner_attempts', unnest(list_append(from_json(member_ids, '["VARCHAR"]'), candidate_id))
FROM refiner_attempts
UNION ALL
SELECT p.namespace_id, 'decisions', unnest([d.memory_id, d.head_id])
FROM decisions AS d
INNER JOIN plans AS p ON p.plan_id = d.plan_id
UNION ALL
SELECT p.namespace_id, 'plan_pairs', unnest([r.memory_id, r.partner_id])
FROM plan_pairs AS r
INNER JOIN plans AS p ON p.plan_id = r.plan_id
UNION ALL
SELECT namespace_id, 'apply_receipts', memory_id FROM apply_receipts
UNION ALL
SELECT namespace_id, 'apply_receipts', unnest(from_json(carried, '["VARCHAR"]')) FROM apply_receipts
UNION ALL
SELECT namespace_id, 'apply_receipts', unnest(from_json(ancestors_kept, '["VARCHAR"]')) FROM apply_receipts
UNION ALL
SELECT namespace_id, 'change_sets', unnest(json_transform(results, '[["JSON"]]'))[1] ->> '$' FROM change_sets
UNION ALL
SELECT u.namespace_id, 'publication_rows', r.memory_id
FROM publication_rows AS r
INNER JOIN publications AS u ON u.publication_id = r.publication_id;
