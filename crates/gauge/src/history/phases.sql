-- Phases have what test runs have, and samples more of what was seen.
ALTER TABLE test_phases ADD COLUMN planned_rate DOUBLE PRECISION;
ALTER TABLE test_phases ADD COLUMN throughput DOUBLE PRECISION;
ALTER TABLE test_phases ADD COLUMN failed_requests BIGINT;
ALTER TABLE test_phases ADD COLUMN mean_ms DOUBLE PRECISION;
ALTER TABLE test_phases ADD COLUMN p50_ms DOUBLE PRECISION;
ALTER TABLE test_phases ADD COLUMN p90_ms DOUBLE PRECISION;
ALTER TABLE test_phases ADD COLUMN p95_ms DOUBLE PRECISION;
ALTER TABLE test_phases ADD COLUMN p99_ms DOUBLE PRECISION;
ALTER TABLE resource_metrics ADD COLUMN pss_bytes BIGINT;
ALTER TABLE resource_metrics ADD COLUMN context_switches BIGINT;
-- Seconds since the sample before.
ALTER TABLE resource_metrics ADD COLUMN throttled_s DOUBLE PRECISION;
