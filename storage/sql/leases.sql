-- name: insert_lease
INSERT INTO leases (lease_key, namespace_id, job, lease_fence)
SELECT $lease_key, $namespace_id, $job, 0
WHERE NOT EXISTS (SELECT 1 FROM leases WHERE lease_key = $lease_key)

-- name: find_live_leases
-- Those of the namespace first; some jobs exclude one another in the whole store.
SELECT job, holder, expires_at, namespace_id = $namespace_id AS is_near
FROM leases
WHERE holder IS NOT NULL AND expires_at > $clock
ORDER BY is_near DESC, job, namespace_id

-- name: grant_lease
UPDATE leases
SET holder = $holder, lease_fence = lease_fence + 1, heartbeat_at = $clock, expires_at = $expires_at
WHERE lease_key = $lease_key AND (holder IS NULL OR expires_at <= $clock)

-- name: read_lease_fence
SELECT lease_fence FROM leases WHERE lease_key = $lease_key

-- name: keep_lease
UPDATE leases
SET heartbeat_at = $clock, expires_at = $expires_at
WHERE lease_key = $lease_key AND lease_fence = $lease_fence AND holder = $holder

-- name: release_lease
UPDATE leases
SET holder = NULL, expires_at = $clock
WHERE lease_key = $lease_key AND lease_fence = $lease_fence
