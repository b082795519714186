-- name: read_columns
-- The cheapest query that has to read every column of the rules: no rule, no score, no result rows.
-- Each aggregate has a filter or an expression, so that none is answered from statistics.
SELECT
    count(*) FILTER (status = 'active' AND kind = 'episodic' AND NOT pinned),
    bit_xor(epoch_us(created_at)),
    bit_xor(epoch_us(content_at)),
    bit_xor(epoch_us(restored_at)),
    bit_xor(epoch_us(last_accessed_at)),
    bit_xor(access_count),
    max(abs(salience))
FROM memories

-- name: read_decided
SELECT reason, memory_id FROM decisions

-- name: read_applied
SELECT reason, memory_id FROM apply_receipts
