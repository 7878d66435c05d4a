#!/usr/bin/env bash
# The six event-ingestion services: unit tests of Go and Java (Rust's run with the workspace), then one contract suite for
# all of them against a real PostgreSQL.
source "$(dirname "$0")/../suite.sh"
need postgres jdk mvn
need_program go "Go 1.26 or newer builds two of the services."
need_program cargo "Rust builds two of the services."
here=$root/services/producer
venv=$(need_venv producers "$here/contract/requirements.txt")
export PRODUCERS_PROFILE=dev
export MAVEN_OPTS=${MAVEN_OPTS:--XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx512m}
logs=$logs/producers; mkdir -p "$logs"
passed=0 failed=0 skipped=0

# check NAME COMMAND...: one test that is a command.
check() {
  local name=$1; shift
  if "$@" >"$logs/$name.log" 2>&1; then passed=$((passed + 1)); say "ok   $name"
  else failed=$((failed + 1)); say "FAIL $name"; tail -n 40 "$logs/$name.log"; fi
}

say "-- go"
generated_is_current() {
  local fresh; fresh=$(mktemp -d)
  (cd "$here" && GRPC_TOOLS_PYTHON=$venv/bin/python sh go-grpc/generate.sh "$fresh") && diff -r "$fresh" "$here/go-grpc/eventpb"
}
check go-generated-code-is-current generated_is_current
code=0
(cd "$here" && go test -v ./... >"$logs/go.log" 2>&1) || code=$?
p=$(grep -c '^ *--- PASS' "$logs/go.log" || true) f=$(grep -c '^ *--- FAIL' "$logs/go.log" || true)
[ "$p" -gt 0 ] || { say "go: no test ran"; code=1; }
[ "$code" = 0 ] || { [ "$f" -gt 0 ] || f=1; grep -vE '^(=== |--- PASS|PASS)' "$logs/go.log" | tail -n 40; }
passed=$((passed + p)) failed=$((failed + f)); say "go: $p passed, $f failed"

say "-- builds, and java's tests"
rm -rf "$here"/java-*/target/surefire-reports
if ! python3 "$here/stack.py" build --java-tests; then failed=$((failed + 1)); fi
read -r p f s < <(cat "$here"/java-*/target/surefire-reports/TEST-*.xml 2>/dev/null | awk '
  function n(name) { return match($0, " " name "=\"[0-9]+\"") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4) : 0 }
  /<testsuite / { t += n("tests"); f += n("failures") + n("errors"); s += n("skipped") } END { print t - f - s, f + 0, s + 0 }')
if [ "$p" -eq 0 ] && [ "$f" -eq 0 ]; then say "java: no test ran"; f=1; fi
passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)); say "java: $p passed, $f failed, $s skipped"

say "-- rust"
check rust-query-data-is-current python3 "$here/rust-core/prepare.py" --check

say "-- contract"
code=0
(cd "$here/contract" && "$venv/bin/python" -m pytest --tb=short 2>&1) | tee "$logs/contract.log" || code=${PIPESTATUS[0]}
summary=$(grep -E '^[0-9]+ (passed|failed|error)' "$logs/contract.log" | tail -n 1 || true)
number() { awk -v word="^$1" '{ for (i = 2; i <= NF; i++) if ($i ~ word) n = $(i - 1) } END { print n + 0 }' <<<"$summary"; }
p=$(number passed) f=$(($(number failed) + $(number error))) s=$(number skipped)
[ "${p:-0}" -gt 0 ] || { say "contract: no test passed"; code=1; }
[ "$code" = 0 ] || [ "$f" -gt 0 ] || f=1
passed=$((passed + ${p:-0})) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))

count_line "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
