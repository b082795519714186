-- name: insert_publication
INSERT INTO publications (
    publication_id, partition, namespace_id, run_id, vector_table, record_profile, phase, lease_fence,
    base_revision, index_history, store_history, snapshot_digest, snapshot_bytes, source_token, counts,
    record_count, byte_count, set_digest, staged_at
)
VALUES (
    $publication_id, $partition, $namespace_id, $run_id, $vector_table, $record_profile, 'staging', $lease_fence,
    $base_revision, $index_history, $store_history, $snapshot_digest, $snapshot_bytes, $source_token, $counts,
    $record_count, $byte_count, $set_digest, $staged_at
)

-- name: insert_rows
INSERT INTO publication_rows (publication_id, memory_id, revision, content_digest)
SELECT $publication_id, memory_id, revision, content_digest
FROM incoming

-- name: set_staged
UPDATE publications SET phase = 'staged' WHERE publication_id = $publication_id AND phase = 'staging'

-- name: set_published
UPDATE publications
SET phase = 'published', revision = $revision
WHERE publication_id = $publication_id AND phase = 'staged'

-- name: set_verified
UPDATE publications
SET phase = 'verified', verified_at = $clock
WHERE publication_id = $publication_id AND phase = 'published'

-- name: supersede
UPDATE publications
SET phase = 'superseded', ended_at = $clock
WHERE partition = $partition AND phase IN ('published', 'verified') AND publication_id <> $publication_id

-- name: end_publication
UPDATE publications
SET phase = $phase, ended_at = $clock
WHERE publication_id = $publication_id AND phase IN ('staging', 'staged', 'published')

-- name: abandon_leftovers
-- What runs with a lower fence left on their way; nothing of it is ever read again.
UPDATE publications
SET phase = 'abandoned', ended_at = $clock
WHERE namespace_id = $namespace_id AND phase IN ('staging', 'staged') AND lease_fence < $lease_fence

-- name: read_publication
SELECT
    publication_id, partition, namespace_id, run_id, vector_table, record_profile, phase, lease_fence,
    base_revision, revision, index_history, store_history, snapshot_digest, snapshot_bytes, source_token, counts,
    record_count, byte_count, set_digest, staged_at
FROM publications
WHERE publication_id = $publication_id

-- name: find_reusable
-- The newest publication that was ever verified: of the partition itself, else of a generation of the
-- same namespace whose vectors are the same.
WITH proven AS (
    SELECT
        u.publication_id, u.vector_table, u.verified_at, u.revision,
        p.partition = $partition AS is_own
    FROM publications AS u
    INNER JOIN partitions AS p ON p.partition = u.partition
    WHERE u.namespace_id = $namespace_id
        AND u.verified_at IS NOT NULL
        AND u.phase IN ('verified', 'superseded')
        AND u.record_profile = $record_profile
        AND p.embedding_digest = $embedding_digest
)

SELECT publication_id, vector_table, is_own
FROM proven
WHERE is_own OR ($across AND NOT EXISTS (SELECT 1 FROM proven WHERE is_own))
ORDER BY verified_at DESC, revision DESC, publication_id
LIMIT 1

-- name: is_same_set
-- Whether a publication holds exactly the incoming rows, revisions included.
WITH served AS (
    SELECT memory_id, revision, content_digest FROM publication_rows WHERE publication_id = $publication_id
)

SELECT
    (SELECT count(*) FROM served) = (SELECT count(*) FROM incoming)
    AND NOT EXISTS (
        SELECT 1
        FROM incoming AS i
        WHERE NOT EXISTS (
            SELECT 1
            FROM served AS s
            WHERE s.memory_id = i.memory_id
                AND s.revision = i.revision
                AND s.content_digest = i.content_digest
        )
    ) AS is_same

-- name: delete_old_rows
-- Rows of publications that can neither be served nor reused any more: all but the two newest
-- verified ones of each partition.
DELETE FROM publication_rows
WHERE publication_id IN (
    SELECT publication_id
    FROM publications
    WHERE partition = $partition AND phase IN ('superseded', 'abandoned', 'invalidated', 'collected')
    EXCEPT
    SELECT publication_id
    FROM (
        SELECT publication_id
        FROM publications
        WHERE partition = $partition AND verified_at IS NOT NULL
        ORDER BY verified_at DESC, revision DESC, publication_id
        LIMIT 2
    ) AS kept
)

-- name: list_collectable
-- spec/refresh.md R65, R66: a grace has passed, nothing points at it, it is not among the two newest
-- verified ones of its partition, no run may still be at work on it.
WITH newest AS (
    SELECT publication_id
    FROM publications
    WHERE verified_at IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY partition ORDER BY verified_at DESC, revision DESC, publication_id) <= 2
),

fences AS (
    SELECT namespace_id, lease_fence FROM leases WHERE job = 'refresh'
)

SELECT u.publication_id, u.vector_table, u.phase, u.record_count
FROM publications AS u
LEFT JOIN fences AS f ON f.namespace_id = u.namespace_id
WHERE u.phase = 'collecting' OR (
    u.vector_table IN (SELECT unnest($tables::TEXT[]))
    AND (
        (u.phase IN ('abandoned', 'invalidated', 'superseded') AND u.ended_at <= $before)
        OR (u.phase IN ('staging', 'staged') AND u.lease_fence < f.lease_fence AND u.staged_at <= $before)
    )
    AND NOT EXISTS (SELECT 1 FROM partitions AS p WHERE p.publication_id = u.publication_id)
    AND NOT EXISTS (SELECT 1 FROM newest AS n WHERE n.publication_id = u.publication_id)
)
ORDER BY u.publication_id

-- name: set_collecting
UPDATE publications
SET phase = 'collecting'
WHERE publication_id IN (SELECT unnest($ids::TEXT[]))
    AND NOT EXISTS (SELECT 1 FROM partitions AS p WHERE p.publication_id = publications.publication_id)

-- name: set_collected
UPDATE publications
SET phase = 'collected'
WHERE publication_id IN (SELECT unnest($ids::TEXT[])) AND phase = 'collecting'

-- name: delete_collected_rows
DELETE FROM publication_rows
WHERE publication_id IN (
    SELECT publication_id
    FROM publications
    WHERE publication_id IN (SELECT unnest($ids::TEXT[])) AND phase = 'collected'
)

-- name: list_known
SELECT publication_id FROM publications WHERE phase <> 'collected'

-- name: list_left_tables
-- Tables that the store has given up: no pointer names a publication in one, no refresh would copy
-- from it (the newest verified one of a partition), and nothing in it is younger than the grace.
WITH sources AS (
    SELECT vector_table
    FROM publications
    WHERE verified_at IS NOT NULL AND phase IN ('verified', 'superseded')
    QUALIFY row_number() OVER (PARTITION BY partition ORDER BY verified_at DESC, revision DESC, publication_id) = 1
),

served AS (
    SELECT u.vector_table
    FROM partitions AS p
    INNER JOIN publications AS u ON u.publication_id = p.publication_id
),

young AS (
    SELECT vector_table FROM publications WHERE coalesce(ended_at, verified_at, staged_at) > $before
),

given AS (
    SELECT unnest($tables::TEXT[]) AS vector_table
)

SELECT
    g.vector_table,
    (
        SELECT coalesce(sum(u.record_count), 0)::BIGINT
        FROM publications AS u
        WHERE u.vector_table = g.vector_table AND u.phase <> 'collected'
    ) AS record_count
FROM given AS g
WHERE NOT EXISTS (SELECT 1 FROM sources AS s WHERE s.vector_table = g.vector_table)
    AND NOT EXISTS (SELECT 1 FROM served AS s WHERE s.vector_table = g.vector_table)
    AND NOT EXISTS (SELECT 1 FROM young AS y WHERE y.vector_table = g.vector_table)
ORDER BY g.vector_table

-- name: set_leaving
UPDATE publications
SET phase = 'collecting'
WHERE vector_table = $table AND phase <> 'collected'
    AND NOT EXISTS (SELECT 1 FROM partitions AS p WHERE p.publication_id = publications.publication_id)

-- name: list_leaving
SELECT publication_id FROM publications WHERE vector_table = $table AND phase = 'collecting' ORDER BY publication_id

-- name: list_unserved
-- spec/refresh.md R9: due when readers were switched to another generation by $before, and no run has
-- published or proved anything of this one since.
WITH last_moves AS (
    SELECT partition, max(staged_at) AS at_instant FROM publications GROUP BY partition
    UNION ALL
    SELECT partition, max(verified_at) AS at_instant FROM refresh_receipts GROUP BY partition
)

SELECT
    p.partition, p.generation, p.revision, p.record_count, p.byte_count,
    s.switched_at <= $before
    AND NOT EXISTS (SELECT 1 FROM last_moves AS m WHERE m.partition = p.partition AND m.at_instant > $before) AS is_due
FROM partitions AS p
INNER JOIN serving AS s ON s.namespace_id = p.namespace_id AND s.partition <> p.partition
WHERE EXISTS (SELECT 1 FROM publications AS u WHERE u.partition = p.partition AND u.phase <> 'collected')
ORDER BY p.partition

-- name: set_unserved_collecting
UPDATE publications
SET phase = 'collecting'
WHERE partition = $partition AND phase <> 'collected'
    AND NOT EXISTS (SELECT 1 FROM partitions AS p WHERE p.publication_id = publications.publication_id)

-- name: forget_attempts
DELETE FROM embedding_attempts WHERE partition = $partition
