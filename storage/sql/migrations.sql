-- name: create_schema_migrations
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL
)

-- name: read_schema_migrations
SELECT version, checksum FROM schema_migrations ORDER BY version

-- name: has_schema_migrations
SELECT count(*) > 0 FROM information_schema.tables WHERE table_name = 'schema_migrations'

-- name: read_schema_version
SELECT coalesce(max(version), 0) FROM schema_migrations

-- name: insert_schema_migration
INSERT INTO schema_migrations (version, name, checksum, applied_at)
VALUES ($version, $name, $checksum, $clock)
