-- name: read_space
SELECT block_size * total_blocks AS byte_count, block_size * free_blocks AS free_bytes
FROM pragma_database_size()
WHERE database_name = current_database()

-- name: checkpoint
CHECKPOINT

-- name: attach_old
ATTACH $file AS old (READ_ONLY)

-- name: attach_new
ATTACH $file AS new

-- name: copy
COPY FROM DATABASE old TO new

-- name: detach_new
DETACH new

-- name: detach_old
DETACH old

-- name: list_objects
-- Everything that a copy must have kept, as one line each; tables are counted one by one.
SELECT 'column ' || table_name || ' ' || column_index || ' ' || column_name || ' ' || data_type AS line
FROM duckdb_columns()
WHERE database_name = $database AND NOT internal
UNION ALL
SELECT 'constraint ' || table_name || ' ' || constraint_text
FROM duckdb_constraints()
WHERE database_name = $database
UNION ALL
SELECT 'comment ' || table_name || ' ' || comment
FROM duckdb_tables()
WHERE database_name = $database AND comment IS NOT NULL
UNION ALL
SELECT 'view ' || view_name
FROM duckdb_views()
WHERE database_name = $database AND NOT internal
UNION ALL
SELECT 'sequence ' || sequence_name || ' ' || coalesce(last_value, 0)
FROM duckdb_sequences()
WHERE database_name = $database
UNION ALL
SELECT 'index ' || index_name
FROM duckdb_indexes()
WHERE database_name = $database
UNION ALL
SELECT 'macro ' || function_name || ' ' || macro_definition
FROM duckdb_functions()
WHERE database_name = $database AND NOT internal AND macro_definition IS NOT NULL
ORDER BY line

-- name: list_tables
SELECT table_name
FROM duckdb_tables()
WHERE database_name = $database AND NOT internal AND NOT temporary
ORDER BY table_name

-- name: count_rows
SELECT count(*) FROM query_table($name)
