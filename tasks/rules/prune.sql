-- name: define_prune
-- The facts and the verdict before the cap of every memory of a namespace (spec/prune.md R4-R8, R11, R12).
-- Thresholds reach SQL as FLOAT, like the stored importance; clocks are compared in microseconds.
CREATE OR REPLACE TEMP MACRO prune_age_clock(age_at, created_at, content_at) AS
CASE age_at WHEN created_at THEN 'created_at' WHEN content_at THEN 'content_at' ELSE 'restored_at' END;

CREATE OR REPLACE TEMP MACRO prune_judged(
    namespace, instant, stale_before, min_importance, is_curated_kept, grace_us, cap_order
) AS TABLE
WITH linked AS (
    SELECT DISTINCT r.memory_id
    FROM relations AS r
    WHERE r.namespace_id = namespace
        AND r.until_revision IS NULL
        AND r.kind IN ('supersedes', 'conflicts_with')
),
facts AS (
    SELECT
        m.*,
        greatest(m.created_at, m.content_at, m.restored_at) AS age_at,
        greatest(epoch_us(instant) - epoch_us(age_at), 0) / 86400000000.0 AS age_days,
        m.importance::DOUBLE * 0.7::DOUBLE AS importance_term,
        exp(-age_days / 30.0::DOUBLE) * 0.3::DOUBLE AS recency_term,
        importance_term + recency_term AS relevance,
        abs(epoch_us(instant) - epoch_us(age_at)) < grace_us AS is_graced,
        age_at > instant AND NOT is_graced AS is_ahead,
        m.pinned OR (
            is_curated_kept
            AND (m.access_count >= 3 OR m.marks <> '[]' OR m.id IN (FROM linked))
        ) AS is_protected
    FROM rule_scope AS m
    WHERE m.namespace_id = namespace
)
SELECT
    f.*,
    CASE
        WHEN f.status <> 'active' THEN 'inactive'
        WHEN f.expires_at IS NOT NULL AND f.expires_at <= instant THEN 'expired_pending'
        WHEN f.is_protected THEN 'kept_protected'
        WHEN f.importance < min_importance AND f.age_at < stale_before THEN 'stale'
        WHEN f.is_graced THEN 'kept_grace'
        ELSE 'candidate'
    END AS verdict,
    CASE WHEN cap_order = 'relevance' THEN f.relevance ELSE f.importance::DOUBLE END AS cap_score,
    CASE WHEN cap_order = 'relevance' THEN NULL ELSE f.age_at END AS cap_at
FROM facts AS f

-- name: judge_prune
-- One pass over the namespace: how many rows have each verdict, and which rows are stale.
SELECT
    verdict,
    count(*) AS rows,
    count(*) FILTER (age_at > $now) AS ahead,
    list(row_no) FILTER (verdict = 'stale') AS picked
FROM prune_judged($namespace_id, $now, $stale_before, $min_importance::FLOAT, $protect_curated, $grace_us, $cap_order)
GROUP BY verdict

-- name: cut_prune
-- The score of the best candidate that has to go: only a prefilter, so that few rows are sorted.
SELECT quantile_disc(cap_score - CASE WHEN is_ahead THEN 10 ELSE 0 END, ($over_cap - 0.5) / $candidates)
FROM prune_judged($namespace_id, $now, $stale_before, $min_importance::FLOAT, $protect_curated, $grace_us, $cap_order)
WHERE verdict = 'candidate'

-- name: pick_prune
-- The candidates up to the cut: the rows over the cap, and those that tie with the last of them.
SELECT row_no
FROM prune_judged($namespace_id, $now, $stale_before, $min_importance::FLOAT, $protect_curated, $grace_us, $cap_order)
WHERE verdict = 'candidate' AND cap_score - CASE WHEN is_ahead THEN 10 ELSE 0 END <= $cut

-- name: decide_prune
-- Stale rows by id, then rows over the cap by rank: the order of apply (spec/prune.md R7, R9, R10, R17).
WITH judged AS (
    SELECT *
    FROM prune_judged($namespace_id, $now, $stale_before, $min_importance::FLOAT, $protect_curated, $grace_us, $cap_order)
    WHERE verdict IN ('stale', 'candidate')
),
ranked AS (
    SELECT
        *,
        CASE WHEN verdict = 'candidate' THEN row_number() OVER (
            PARTITION BY verdict
            ORDER BY is_ahead DESC, cap_score, cap_at, created_at, id DESC
        ) END AS rank
    FROM judged
)
SELECT
    id AS memory_id,
    CASE WHEN rank IS NULL THEN 'stale' ELSE 'over_cap' END AS reason,
    revision AS expected_revision,
    status, pinned, importance, salience, access_count, last_accessed_at, expires_at, tombstoned_at,
    CASE WHEN rank IS NULL
        THEN to_json({
            'importance': importance::DOUBLE, 'age_days': age_days,
            'age_clock': prune_age_clock(age_at, created_at, content_at), 'clock_anomaly': age_at > $now,
            'max_age_days': $max_age_days, 'min_importance_to_keep': $min_importance
        })
        ELSE to_json({
            'importance': importance::DOUBLE, 'age_days': age_days,
            'age_clock': prune_age_clock(age_at, created_at, content_at), 'clock_anomaly': age_at > $now,
            'rank': rank, 'relevance': relevance, 'importance_term': importance_term,
            'recency_term': recency_term
        })
    END::TEXT AS figures
FROM ranked
WHERE rank IS NULL OR rank <= $over_cap
ORDER BY reason DESC, CASE WHEN rank IS NULL THEN id END, rank

-- name: explain_prune
-- The verdict of every visible memory, kept ones included, with the figures behind it (spec/prune.md R15).
WITH judged AS (
    SELECT *
    FROM prune_judged($namespace_id, $now, $stale_before, $min_importance::FLOAT, $protect_curated, $grace_us, $cap_order)
    WHERE verdict NOT IN ('inactive', 'expired_pending')
),
ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY verdict = 'candidate'
        ORDER BY is_ahead DESC, cap_score, cap_at, created_at, id DESC
    ) AS rank
    FROM judged
),
edges AS (
    SELECT memory_id, list(DISTINCT 'relation:' || kind ORDER BY 'relation:' || kind) AS kinds
    FROM relations
    WHERE namespace_id = $namespace_id AND until_revision IS NULL AND kind IN ('supersedes', 'conflicts_with')
    GROUP BY memory_id
)
SELECT
    r.id AS memory_id,
    CASE
        WHEN r.verdict <> 'candidate' THEN r.verdict
        WHEN r.rank <= $over_cap THEN 'over_cap'
        ELSE 'kept_other'
    END AS verdict,
    r.importance, r.age_days,
    prune_age_clock(r.age_at, r.created_at, r.content_at) AS age_clock,
    r.age_at > $now AS clock_anomaly,
    r.relevance,
    CASE WHEN NOT r.is_protected THEN []
    ELSE list_concat(
        CASE WHEN r.pinned THEN ['pinned'] ELSE [] END,
        CASE WHEN $protect_curated AND r.access_count >= 3 THEN ['access_count'] ELSE [] END,
        CASE WHEN $protect_curated THEN from_json(r.marks, '["VARCHAR"]') ELSE [] END,
        CASE WHEN $protect_curated THEN coalesce(e.kinds, []) ELSE [] END
    ) END AS protections
FROM ranked AS r
LEFT JOIN edges AS e ON e.memory_id = r.id
ORDER BY r.id
