-- name: scope_all
-- What the rules' macros read: first every row, for the counters and the picks in one pass.
CREATE OR REPLACE TEMP VIEW rule_scope AS SELECT rowid AS row_no, * FROM memories

-- name: pick_rows
CREATE OR REPLACE TEMP TABLE picked AS SELECT row_no FROM incoming

-- name: scope_picked
-- Then only the rows that were picked, for their figures.
CREATE OR REPLACE TEMP VIEW rule_scope AS
SELECT m.rowid AS row_no, m.* FROM memories AS m SEMI JOIN picked AS p ON m.rowid = p.row_no
