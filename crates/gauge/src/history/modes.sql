-- The workload has a column of its own, and the mode is the load by name: smoke, short, full or saturation; - for any other load. Of rows of earlier
-- versions it is known where the workload is called so.
ALTER TABLE test_runs ADD COLUMN workload TEXT;
UPDATE test_runs SET workload = mode;
UPDATE test_runs SET mode = '-' WHERE mode NOT IN ('smoke', 'short', 'full', 'saturation');
CREATE INDEX test_runs_workload ON test_runs (api, workload);
