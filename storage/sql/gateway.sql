-- name: set_time_zone
SET GLOBAL TimeZone = 'UTC'

-- name: begin_reading
BEGIN TRANSACTION READ ONLY

-- name: attach
ATTACH '{file}' AS {name} ({mode})

-- name: use
USE {name}

-- name: detach
DETACH {name}
