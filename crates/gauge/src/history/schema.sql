-- One schema for SQLite and PostgreSQL: types, keys and upserts that both have. Times are milliseconds since 1970, UTC.

-- One row for each run of `gauge run`.
CREATE TABLE campaigns (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    -- running, done, aborted
    status TEXT NOT NULL,
    started_unix_ms BIGINT NOT NULL,
    ended_unix_ms BIGINT,
    gauge_version TEXT NOT NULL,
    -- Where the result files are.
    host TEXT NOT NULL,
    directory TEXT NOT NULL,
    -- The program that writes it (JSON), while it runs.
    writer TEXT,
    -- Machine, kernel, processors, versions (JSON).
    environment TEXT NOT NULL,
    -- Everything but the trials: raw/campaign.json.
    document TEXT NOT NULL
);
CREATE INDEX campaigns_started ON campaigns (started_unix_ms);

-- One row for each trial: one system under one workload in one round.
CREATE TABLE test_runs (
    id TEXT PRIMARY KEY,
    campaign_id TEXT NOT NULL REFERENCES campaigns (id) ON DELETE CASCADE,
    -- The system and the workload.
    api TEXT NOT NULL,
    mode TEXT NOT NULL,
    payload TEXT,
    protocol TEXT,
    round BIGINT NOT NULL,
    -- running, done, failed, void, aborted
    status TEXT NOT NULL,
    reason TEXT,
    started_unix_ms BIGINT,
    ended_unix_ms BIGINT,
    -- raw/TRIAL.json, with every histogram; null while it runs.
    document TEXT
);
CREATE INDEX test_runs_campaign ON test_runs (campaign_id);
CREATE INDEX test_runs_api ON test_runs (api, mode);

-- One row for each test run that was measured.
CREATE TABLE performance_metrics (
    run_id TEXT PRIMARY KEY REFERENCES test_runs (id) ON DELETE CASCADE,
    duration_s DOUBLE PRECISION,
    total_requests BIGINT,
    successful_requests BIGINT,
    failed_requests BIGINT,
    throughput DOUBLE PRECISION,
    -- Latencies that the figures are of.
    samples BIGINT,
    mean_ms DOUBLE PRECISION,
    min_ms DOUBLE PRECISION,
    max_ms DOUBLE PRECISION,
    stdev_ms DOUBLE PRECISION,
    p50_ms DOUBLE PRECISION,
    p90_ms DOUBLE PRECISION,
    p95_ms DOUBLE PRECISION,
    p99_ms DOUBLE PRECISION,
    error_rate DOUBLE PRECISION,
    cpu_us_per_request DOUBLE PRECISION,
    memory_bytes DOUBLE PRECISION,
    -- All latencies: an HDR histogram, V2 compressed, base64.
    histogram TEXT
);

-- CPU and memory through a test run, about one row a second for each part: system, upstream, generator.
CREATE TABLE resource_metrics (
    run_id TEXT NOT NULL REFERENCES test_runs (id) ON DELETE CASCADE,
    part TEXT NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    -- 100 is one processor.
    cpu_percent DOUBLE PRECISION,
    memory_bytes BIGINT,
    PRIMARY KEY (run_id, part, at_s)
);

-- The phases of a test run's load.
CREATE TABLE test_phases (
    run_id TEXT NOT NULL REFERENCES test_runs (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    name TEXT NOT NULL,
    target_users DOUBLE PRECISION,
    duration_s DOUBLE PRECISION,
    requests BIGINT,
    cpu_percent DOUBLE PRECISION,
    memory_bytes DOUBLE PRECISION,
    -- cpu_percent * duration_s / requests; the same of memory in MB.
    cpu_percent_per_request DOUBLE PRECISION,
    memory_mb_per_request DOUBLE PRECISION,
    PRIMARY KEY (run_id, position)
);
