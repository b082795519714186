-- name: read_control
SELECT phase, report FROM control

-- name: set_control
UPDATE control SET phase = $phase, report = $report, changed_at = $clock

-- name: insert_control
INSERT INTO control (control_id, phase, report, changed_at) VALUES (1, $phase, $report, $clock)

-- name: list_paused
SELECT job FROM pauses WHERE is_paused ORDER BY job

-- name: set_pause
UPDATE pauses SET is_paused = $is_paused, changed_at = $clock WHERE job = $job

-- name: insert_pause
INSERT INTO pauses (job, is_paused, changed_at) VALUES ($job, $is_paused, $clock)
