-- name: set_time_zone
SET GLOBAL TimeZone = 'UTC'

-- name: begin_reading
BEGIN TRANSACTION READ ONLY
