#!/usr/bin/env bash
# The Python and Node services: unit tests of each, and the contract suite against each, started on free ports.
source "$(dirname "$0")/../suite.sh"
runner=$(need_venv contract services/contract/requirements.txt)/bin/python
inference=$(need_venv inference-python services/inference-python/requirements-dev.txt)/bin/python
need_npm services/inference-node
need_npm services/messages-hono

passed=0 failed=0 skipped=0 code=0

# step NAME COMMAND...: runs it, and adds up what it counted: pytest's, node's and the contract suite's closing lines are known.
step() {
  local name=$1 log=$logs/services-js-$1.log p f s bad=0
  shift
  say "-- $name"
  "$@" >"$log" 2>&1 || bad=1
  read -r p f s < <(awk '
    /^# pass / {p += $3} /^# (fail|cancelled) / {f += $3} /^# skipped / {s += $3}
    /[0-9]+ (passed|failed|error|errors|skipped)/ && (/ in [0-9.]+s/ || /^[0-9]+ passed, [0-9]+ failed/) {
      for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i-1); if ($i ~ /^(failed|error)/) f += $(i-1); if ($i ~ /^skipped/) s += $(i-1) }
    }
    END {print p + 0, f + 0, s + 0}' "$log")
  [ "$bad" = 0 ] || { cat "$log"; code=1; [ "$f" -gt 0 ] || f=1; }
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  say "   $(count_line "$p" "$f" "$s")"
}
unit_node() { (cd "services/$1" && exec node --test --test-reporter=tap); }
unit_python() { (cd services/inference-python && exec "$inference" -m pytest -q); }
# contract CASES SERVICE COMMAND: the cases against the service, which the runner starts and stops.
contract() { (cd services/contract && exec "$runner" -m contract "cases/$1.yaml" --cwd "../$2" --start "$3"); }

step inference-python unit_python
step inference-node unit_node inference-node
step messages-hono unit_node messages-hono
for cases in inference inference-env; do
  step "contract-$cases-python" contract "$cases" inference-python "$inference -m app"
  step "contract-$cases-node" contract "$cases" inference-node 'node src/index.js'
done
step contract-messages contract messages messages-hono 'node src/index.js'

count_line "$passed" "$failed" "$skipped"
exit "$code"
