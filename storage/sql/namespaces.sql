-- name: list_namespaces
SELECT namespace_id, namespace_key, tenant, principal, scope
FROM namespaces
ORDER BY namespace_key

-- name: find_namespace
SELECT namespace_id, namespace_key, tenant, principal, scope
FROM namespaces
WHERE tenant = $tenant AND principal = $principal AND scope = $scope

-- name: read_namespace
SELECT namespace_id, namespace_key, tenant, principal, scope
FROM namespaces
WHERE namespace_id = $namespace_id

-- name: insert_namespace
INSERT INTO namespaces (namespace_id, namespace_key, tenant, principal, scope, sequence, change_fence)
SELECT coalesce(max(namespace_id), 0) + 1, $namespace_key, $tenant, $principal, $scope, 0, 0
FROM namespaces

-- name: step_sequence
UPDATE namespaces
SET sequence = sequence + 1, change_fence = change_fence + 1
WHERE namespace_id = $namespace_id

-- name: read_sequence
SELECT sequence FROM namespaces WHERE namespace_id = $namespace_id
