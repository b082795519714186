-- name: insert_receipt
INSERT INTO refresh_receipts (
    receipt_id, run_id, namespace_id, partition, profile, snapshot_profile, snapshot_digest, snapshot_bytes,
    source_token, store_history, binding_schema, generation, record_profile, cas_scope, publication_id,
    active_count, published, failed, permanent, quarantined, deferred, mutation_consistency, index_history,
    index_revision, partition_count, record_count, byte_count, verified_at
)
VALUES (
    $receipt_id, $run_id, $namespace_id, $partition, $profile, $snapshot_profile, $snapshot_digest,
    $snapshot_bytes, $source_token, $store_history, $binding_schema, $generation, $record_profile, $cas_scope,
    $publication_id, $active_count, $published, $failed, $permanent, $quarantined, $deferred,
    $mutation_consistency, $index_history, $index_revision, $partition_count, $record_count, $byte_count,
    $verified_at
)

-- name: read_receipt
SELECT
    receipt_id, run_id, namespace_id, partition, profile, snapshot_profile, snapshot_digest, snapshot_bytes,
    source_token, store_history, binding_schema, generation, record_profile, cas_scope, publication_id,
    active_count, published, failed, permanent, quarantined, deferred, mutation_consistency, index_history,
    index_revision, partition_count, record_count, byte_count, verified_at
FROM refresh_receipts
WHERE receipt_id = $receipt_id
