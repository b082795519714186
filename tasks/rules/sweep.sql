-- name: define_sweep
-- The facts, the score and the verdict of every memory of a namespace (spec/sweep.md R4-R11).
-- A superseded row is 'inactive' here; whether a head carries it is decided by lineage.
-- The order of operations is the spec's; salience and counts are DOUBLE before any arithmetic.
CREATE OR REPLACE TEMP MACRO sweep_age_clock(age_at, created_at, content_at) AS
CASE age_at WHEN created_at THEN 'created_at' WHEN content_at THEN 'content_at' ELSE 'restored_at' END;

CREATE OR REPLACE TEMP MACRO sweep_decay_source(kind, half_life_kinds) AS
CASE WHEN list_contains(half_life_kinds::TEXT[], kind) THEN 'half_life:' || kind ELSE 'lambda_per_day' END;

CREATE OR REPLACE TEMP MACRO sweep_instant(instant) AS strftime(instant, '%Y-%m-%dT%H:%M:%S.%fZ');

CREATE OR REPLACE TEMP MACRO sweep_anomalies(instant, age_at, created_at, content_at, last_accessed_at) AS
list_concat(
    CASE WHEN age_at > instant THEN [sweep_age_clock(age_at, created_at, content_at)] ELSE [] END,
    CASE WHEN last_accessed_at > instant THEN ['last_accessed_at'] ELSE [] END
);

-- Days until the score has fallen to the threshold: closed form without an access term, else 60
-- halvings of 36,500 days. Ages are those at now + t, from the raw ages, which may be negative.
CREATE OR REPLACE TEMP MACRO sweep_score_at(t, weight, decay, raw_age, gain, mu, raw_since) AS
weight * exp(-decay * greatest(raw_age + t, 0)) + CASE WHEN raw_since IS NULL THEN 0
ELSE gain * exp(-mu * greatest(raw_since + t, 0)) END;

CREATE OR REPLACE TEMP MACRO sweep_halve(weight, decay, raw_age, gain, mu, raw_since, threshold) AS
list_reduce(
    list_resize([]::STRUCT(low DOUBLE, high DOUBLE)[], 61, {'low': 0.0::DOUBLE, 'high': 36500.0::DOUBLE}),
    lambda span, step: CASE
        WHEN sweep_score_at((span.low + span.high) / 2, weight, decay, raw_age, gain, mu, raw_since) > threshold
        THEN {'low': (span.low + span.high) / 2, 'high': span.high}
        ELSE {'low': span.low, 'high': (span.low + span.high) / 2}
    END
).high;

CREATE OR REPLACE TEMP MACRO sweep_days_until_cold(
    score, weight, decay, raw_age, access_term, gain, mu, raw_since, threshold
) AS CASE
    WHEN threshold = 0 THEN NULL
    WHEN score <= threshold THEN 0
    WHEN sweep_score_at(36500.0::DOUBLE, weight, decay, raw_age, gain, mu, raw_since) > threshold THEN NULL
    WHEN access_term = 0 THEN greatest(ln(weight / threshold) / decay - raw_age, 0)
    ELSE sweep_halve(weight, decay, raw_age, gain, mu, raw_since, threshold)
END;

CREATE OR REPLACE TEMP MACRO sweep_judged(
    namespace, instant, is_ttl_on, purge_before, evicts_episodic, evicts_procedural, evicts_working,
    decay_episodic, decay_procedural, decay_working, start_salience, sigma, mu, breadth, threshold
) AS TABLE
WITH readers AS (
    SELECT a.memory_id, count(DISTINCT a.actor) AS actors
    FROM access_events AS a
    WHERE a.namespace_id = namespace AND breadth > 0
    GROUP BY a.memory_id
),
facts AS (
    SELECT
        m.*,
        greatest(m.created_at, m.content_at, m.restored_at) AS age_at,
        greatest(epoch_us(instant) - epoch_us(age_at), 0) / 86400000000.0 AS age_days,
        CASE WHEN m.last_accessed_at IS NOT NULL
        THEN greatest(epoch_us(instant) - epoch_us(m.last_accessed_at), 0) / 86400000000.0 END AS days_since_access,
        CASE
            WHEN decay_episodic = decay_procedural AND decay_episodic = decay_working THEN decay_episodic
            WHEN m.kind = 'procedural' THEN decay_procedural
            WHEN m.kind = 'working' THEN decay_working
            ELSE decay_episodic
        END AS decay,
        coalesce(m.salience::DOUBLE, start_salience) AS weight,
        CASE WHEN breadth > 0 THEN 1 + breadth * ln(greatest(coalesce(r.actors, 0), 1)) ELSE 1.0::DOUBLE END AS spread,
        weight * exp(-decay * age_days) AS time_term,
        CASE WHEN days_since_access IS NULL THEN 0.0::DOUBLE
        ELSE sigma * ln(1 + m.access_count::DOUBLE) * exp(-mu * days_since_access) * spread END AS access_term,
        time_term + access_term AS score,
        m.pinned OR (
            m.marks <> '[]' AND regexp_matches(m.marks, '"(tag|metadata):(keep|pinned|protected)"')
        ) AS is_pinned
    FROM rule_scope AS m
    LEFT JOIN readers AS r ON r.memory_id = m.id
    WHERE m.namespace_id = namespace
)
SELECT
    f.*,
    CASE
        WHEN is_ttl_on AND f.expires_at IS NOT NULL AND f.expires_at <= instant THEN 'expired'
        WHEN f.status = 'tombstoned' THEN CASE
            WHEN f.tombstoned_at IS NOT NULL AND f.tombstoned_at <= purge_before THEN 'purge'
            ELSE 'tombstone_waiting' END
        WHEN f.status <> 'active' THEN 'inactive'
        WHEN f.expires_at IS NOT NULL AND f.expires_at <= instant THEN 'expired_pending'
        WHEN f.kind = 'semantic'
            OR (f.kind = 'episodic' AND NOT evicts_episodic)
            OR (f.kind = 'procedural' AND NOT evicts_procedural)
            OR (f.kind = 'working' AND NOT evicts_working) THEN 'exempt_kind'
        WHEN f.is_pinned THEN 'exempt_pinned'
        WHEN NOT isfinite(f.weight) OR f.weight < 0 THEN 'unscorable'
        WHEN f.score < threshold THEN 'cold'
        ELSE 'kept_hot'
    END AS verdict
FROM facts AS f

-- name: judge_sweep
-- One pass over the namespace: how many rows have each verdict, and which rows are decisions.
SELECT verdict, count(*) AS rows, list(row_no) FILTER (verdict IN ('expired', 'cold', 'purge')) AS picked
FROM sweep_judged(
    $namespace_id, $now, $ttl, $purge_before, $evicts_episodic, $evicts_procedural, $evicts_working,
    $decay_episodic, $decay_procedural, $decay_working, $salience_default, $sigma, $mu, $breadth_weight,
    $cold_threshold
)
GROUP BY verdict

-- name: decide_sweep
-- What would go, in the order of apply: expired, cold, purge, each by id (spec/sweep.md R12, R13).
SELECT
    id AS memory_id,
    verdict AS reason,
    revision AS expected_revision,
    status, pinned, importance, salience, access_count, last_accessed_at, expires_at, tombstoned_at,
    CASE verdict
        WHEN 'cold' THEN to_json({
            'score': score, 'time_term': time_term, 'access_term': access_term, 'threshold': $cold_threshold,
            'age_days': age_days, 'age_clock': sweep_age_clock(age_at, created_at, content_at),
            'days_since_access': days_since_access,
            'access_clock': CASE WHEN last_accessed_at IS NULL THEN 'none' ELSE 'last_accessed_at' END,
            'lambda_per_day': decay, 'lambda_source': sweep_decay_source(kind, $half_life_kinds),
            'days_until_cold': 0.0::DOUBLE,
            'clock_anomaly': sweep_anomalies($now, age_at, created_at, content_at, last_accessed_at)
        })
        WHEN 'expired' THEN to_json({'expires_at': sweep_instant(expires_at), 'is_pinned': is_pinned})
        ELSE to_json({
            'tombstoned_days': greatest(epoch_us($now) - epoch_us(tombstoned_at), 0) / 86400000000.0,
            'hard_delete_after_days': $hard_delete_after_days
        })
    END::TEXT AS figures
FROM sweep_judged(
    $namespace_id, $now, $ttl, $purge_before, $evicts_episodic, $evicts_procedural, $evicts_working,
    $decay_episodic, $decay_procedural, $decay_working, $salience_default, $sigma, $mu, $breadth_weight,
    $cold_threshold
)
WHERE verdict IN ('expired', 'cold', 'purge')
ORDER BY CASE verdict WHEN 'expired' THEN 1 WHEN 'cold' THEN 2 ELSE 3 END, id

-- name: explain_sweep
-- The verdict of every memory and, where the score judged it, figures and forecast (spec/sweep.md R10, R12).
SELECT
    id AS memory_id,
    verdict,
    CASE WHEN is_scored THEN score END AS score,
    CASE WHEN is_scored THEN time_term END AS time_term,
    CASE WHEN is_scored THEN access_term END AS access_term,
    CASE WHEN is_scored THEN age_days END AS age_days,
    CASE WHEN is_scored THEN sweep_age_clock(age_at, created_at, content_at) END AS age_clock,
    CASE WHEN is_scored THEN days_since_access END AS days_since_access,
    CASE WHEN NOT is_scored THEN NULL WHEN last_accessed_at IS NULL THEN 'none' ELSE 'last_accessed_at' END AS access_clock,
    CASE WHEN is_scored THEN decay END AS lambda_per_day,
    CASE WHEN is_scored THEN sweep_decay_source(kind, $half_life_kinds) END AS lambda_source,
    CASE WHEN is_scored THEN sweep_days_until_cold(
        score, weight, decay, (epoch_us($now) - epoch_us(age_at)) / 86400000000.0, access_term,
        $sigma * ln(1 + access_count::DOUBLE) * spread, $mu,
        (epoch_us($now) - epoch_us(last_accessed_at)) / 86400000000.0, $cold_threshold
    ) END AS days_until_cold,
    CASE
        WHEN is_scored THEN sweep_anomalies($now, age_at, created_at, content_at, last_accessed_at)
        WHEN verdict = 'tombstone_waiting' AND tombstoned_at > $now THEN ['tombstoned_at']
        ELSE []
    END AS clock_anomaly,
    CASE WHEN verdict = 'expired' THEN expires_at END AS expires_at,
    CASE WHEN verdict = 'purge' THEN greatest(epoch_us($now) - epoch_us(tombstoned_at), 0) / 86400000000.0 END AS tombstoned_days
FROM (
    SELECT *, verdict IN ('cold', 'kept_hot') AS is_scored
    FROM sweep_judged(
        $namespace_id, $now, $ttl, $purge_before, $evicts_episodic, $evicts_procedural, $evicts_working,
        $decay_episodic, $decay_procedural, $decay_working, $salience_default, $sigma, $mu, $breadth_weight,
        $cold_threshold
    )
)
ORDER BY id

-- name: warn_sweep
-- Pinned rows that expire all the same, and rows whose stored salience cannot be scored (R5, R9).
SELECT CASE verdict WHEN 'expired' THEN 'pinned_expired:' ELSE 'unscorable:' END || id AS warning
FROM sweep_judged(
    $namespace_id, $now, $ttl, $purge_before, $evicts_episodic, $evicts_procedural, $evicts_working,
    $decay_episodic, $decay_procedural, $decay_working, $salience_default, $sigma, $mu, $breadth_weight,
    $cold_threshold
)
WHERE (verdict = 'expired' AND is_pinned) OR verdict = 'unscorable'
ORDER BY warning
