#!/usr/bin/env bash
# Unit, property and integration tests of every crate of the workspace.
source "$(dirname "$0")/../suite.sh"
# Servers that the tests start themselves, on free ports and in temporary directories.
need redis-server postgres nginx openssl curl nghttp
log=$logs/rust-raw.log
code=0
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
# Of the tests that failed, those that pass alone are named; see there.
flaky=0
if [ "$code" != 0 ]; then
  scripts/again.py "$log" | tee "$logs/rust-again.log"
  flaky=$(tail -n 1 "$logs/rust-again.log")
  grep '^FLAKY ' "$logs/rust-again.log" >>"$logs/flaky" || true
fi
# A program that was killed says no result: it counts as one failure.
read -r p f s < <(awk '/^test result:/ {p+=$4; f+=$6; s+=$8} /^  process did.*\(signal: / {f++} END {print p+0, f+0, s+0}' "$log")
if [ "$f" -gt 0 ] && [ "$flaky" = "$f" ]; then p=$((p + f)) f=0 code=0; fi
# The cache and the counts of limits under a scheduler: 36,000 orders of threads, about a minute.
log=$logs/rust-shuttle.log
cargo test --workspace --lib --locked --features weir/shuttle schedules 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
read -r p f s < <(awk -v p="$p" -v f="$f" -v s="$s" '/^test result:/ {p+=$4; f+=$6; s+=$8} /^  process did.*\(signal: / {f++} END {print p+0, f+0, s+0}' "$log")
count_line "$p" "$f" "$s"
exit "$code"
