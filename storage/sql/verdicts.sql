-- name: read_texts
SELECT text_number, content
FROM memories
WHERE namespace_id = $namespace_id
    AND status = 'active'
    AND text_number IN (SELECT unnest($numbers::BIGINT[]))

-- name: insert_verdicts
INSERT INTO judged_pairs BY NAME
SELECT
    $namespace_id AS namespace_id, i.text_number, i.partner_number, i.kind, i.partner_kind, i.result,
    i.reasons, i.conflict_class, i.shared, i.union_size
FROM incoming AS i
ANTI JOIN judged_pairs AS j
    ON j.namespace_id = $namespace_id
    AND j.text_number = i.text_number
    AND j.partner_number = i.partner_number
    AND j.kind = i.kind
    AND j.partner_kind = i.partner_kind
