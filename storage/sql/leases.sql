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
SET
    holder = $holder, lease_fence = lease_fence + 1, heartbeat_at = $clock, expires_at = $expires_at,
    cancel_requested = false
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

-- name: is_cancel_requested
SELECT coalesce(bool_or(cancel_requested), false)
FROM leases
WHERE lease_key = $lease_key AND lease_fence = $lease_fence

-- name: request_cancel
UPDATE leases
SET cancel_requested = true
WHERE holder IS NOT NULL
    AND expires_at > $clock
    AND NOT coalesce(cancel_requested, false)
    AND ($job::TEXT IS NULL OR job = $job)

-- name: list_held
SELECT lease_key, namespace_id, job, holder, lease_fence, expires_at
FROM leases
WHERE holder IS NOT NULL
ORDER BY job, namespace_id

-- name: free_expired
UPDATE leases
SET holder = NULL
WHERE lease_key = $lease_key AND lease_fence = $lease_fence AND holder IS NOT NULL AND expires_at <= $clock
