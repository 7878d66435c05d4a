#!/usr/bin/env bash
# The inputs of load/ in short runs, each with the tool that it is for, against what `make services` starts; and that all of it stops.
source "$(dirname "$0")/../suite.sh"
suite=load
source "$root/scripts/lib-services.sh"
need_program go "Go 1.26 or newer builds some of the services: https://go.dev/doc/install"
need redis-server wrk curl
need java mvn
k6=$(need_venv k6 load/k6/requirements.txt)/bin/k6
pytest=$(need_venv contract services/contract/requirements.txt)/bin/pytest
jmeter=$(load/jmeter/jmeter-home.sh "$WEIR_CACHE/jmeter")
need_weir
export K6_NO_USAGE_REPORT=true

step comparison "$pytest" -q load/k6/tests
compared=$(grep -Eo '[0-9]+ passed' "$WEIR_BUILD/logs/load-comparison.log" | tail -n 1 | grep -Eo '[0-9]+' || echo 0)
[ "$compared" -gt 0 ] || { say "comparison: no test passed"; failed=$((failed + 1)) code=1; }
passed=$((passed + compared))

# Everything, on free ports; then its addresses by name.
RATE_LIMIT_ENABLED=false CACHE_ENABLED=false WEIR=$weir SERVICES_DATA=$tmp/services scripts/services --free-ports >"$tmp/services.out" 2>&1 &
services=$!
started+=("$services")
for _ in $(seq 1800); do
  grep -q 'all are up' "$tmp/services.out" && break
  kill -0 "$services" 2>/dev/null || break
  sleep 0.1
done
grep -q 'all are up' "$tmp/services.out" || die "make services: $(cat "$tmp/services.out")"
at() { awk -v name="$1" '{line = $0; sub(/ +(http|unix):.*/, "", line)} line == name {match($0, /http:[^ ]+/); print substr($0, RSTART, RLENGTH)}' "$tmp/services.out"; }
pids=()
while read -r pid; do pids+=("$pid"); done < <(sed -nE 's/^[^:]* (http|unix):[^ ]+ +([0-9]+)  .*/\2/p' "$tmp/services.out" | sort -u)
gateway=$(at weir) reference=$(at weir-reference)

# The health check of each image, run by the program itself; also against a port where nothing listens.
health() {
  local command; command=$(python3 deploy/check/check.py --health "$1"); shift
  env "PATH=$(dirname "$weir"):$PATH" "$@" python3 -c 'import json, os, sys; command = json.loads(sys.argv[1]); os.execvp(command[0], command)' "$command"
}
port() { at "$1" | sed 's/.*://'; }
one health-python health services/inference-python/Dockerfile "PORT=$(port inference-python)"
one health-node health services/inference-node/Dockerfile "PORT=$(port inference-node)"
one health-hono health services/messages-hono/Dockerfile "AUTH_PORT=$(port 'messages-hono (auth)')" "MESSAGES_PORT=$(port 'messages-hono (messages)')"
for name in gateway-fiber limiter-fiber calculator; do one "health-$name" health "services/$name/Dockerfile" "PORT=$(port "$name")"; done
one health-auction health services/auction/Dockerfile "ACTIVE_PORT=$(port 'auction (active)')"
one health-weir health deploy/weir/Dockerfile "HEALTH_PORT=$(port weir)"
for file in services/*/Dockerfile deploy/weir/Dockerfile; do
  one "unhealthy-$(basename "$(dirname "$file")")" refused '' health "$file" PORT=1 AUTH_PORT=1 MESSAGES_PORT=1 ACTIVE_PORT=1 HEALTH_PORT=1
done

# k6. A broken threshold is a failure; here only what cannot depend on the machine's speed is demanded, by a rate that any machine has.
one k6-baseline "$k6" run --quiet --no-thresholds -e "BASE_URL=$gateway" -e RATE=50 -e WARMUP=1s -e DURATION=3s -e "K6_SUMMARY_OUT=$tmp/baseline.json" load/k6/k6_baseline.js
one k6-baseline-answers python3 -c "
import json, sys
metrics = json.load(open('$tmp/baseline.json'))['metrics']
requests, failed = metrics['http_reqs{scenario:measured}']['values']['count'], metrics['http_req_failed']['values']['rate']
sys.exit(f'{requests} requests, {failed} failed' if requests < 140 or failed else 0)"
one k6-cache-off "$k6" run --quiet -e "BASE_URL=$gateway" -e CACHE=off -e USERS=5 -e DURATION=1s load/k6/cache_test.js
one k6-cache-not-on refused 'NOT VALID: this run is meant to have the cache on' "$k6" run --quiet -e "BASE_URL=$gateway" -e CACHE=on -e USERS=5 -e DURATION=1s load/k6/cache_test.js
one k6-limits-not-on refused 'NOT VALID: nothing was refused' "$k6" run --quiet -e "BASE_URL=$gateway" -e RATE=100 -e DURATION=1s -e CLIENT_BURST=10 load/k6/rate_limit_test.js
export WEIR=$weir USERS=5 DURATION=2s PERF_OUT=$tmp/perf
# caching COMMAND: against a gateway with its cache on.
start cached '' env RATE_LIMIT_ENABLED=false "$weir"
cached=$url
caching() { BASE_URL=$cached "$@"; }
# Of the mix of the baseline the cache responds to most: its GETs repeat.
hit_ratio() {
  "$k6" run --quiet --no-thresholds -e RATE=50 -e WARMUP=1s -e DURATION=3s load/k6/k6_baseline.js || return
  curl -sS "$cached/cachez" | python3 -c "import json, sys; told = json.load(sys.stdin); print(told); sys.exit(0 if told['hit_ratio'] >= 0.6 else 'too few hits')"
}
one perf-all make perf:all
one perf-files test -s "$tmp/perf/comparison.md" -a -s "$tmp/perf/comparison.json" -a -s "$tmp/perf/comparison.csv"
one perf-one make perf:cached "K6_SUMMARY_OUT=$tmp/cached.json"
one perf-not-off refused 'NOT VALID: this run is meant to have the cache off' caching "$k6" run --quiet -e CACHE=off load/k6/cache_test.js
one k6-baseline-hits caching hit_ratio
one perf-report-without-runs refused 'NOT VALID:' make perf:report "PERF_OUT=$tmp/nothing"
unset USERS DURATION
start limited '' "$weir"
one k6-limits "$k6" run --quiet -e "BASE_URL=$url" -e RATE=100 -e DURATION=2s load/k6/rate_limit_test.js
start documented '' "$weir" # with a bucket that is full

# The lines of the documentation, against the gateway as it is without any variable.
step documented python3 scripts/console.py docs/inference-gateway.md --at "http://127.0.0.1:8080=$url"

# wrk.
fiber=$(at gateway-fiber) auth=$(at 'messages-hono (auth)') messages=$(at 'messages-hono (messages)')
one wrk-direct env THREADS=1 CONNECTIONS=10 DURATION=1s "FIBER_URL=$fiber" "WEIR_URL=$reference" "AUTH_URL=$auth" "MESSAGES_URL=$messages" load/wrk/direct.sh
one wrk-direct-with-errors refused 'NOT VALID' env THREADS=1 CONNECTIONS=10 DURATION=1s "FIBER_URL=$auth" "WEIR_URL=$reference" "AUTH_URL=$auth" "MESSAGES_URL=$messages" load/wrk/direct.sh
post() { local said; said=$(wrk -t1 -c10 -d1s -s load/wrk/post.lua "$@") && say "$said" && ! grep -qE 'Non-2xx|Socket errors|^  status ' <<<"$said"; }
not_only_2xx() { BODY='{}' post "$@"; }
one wrk-post post "$gateway/infer/node"
one wrk-post-with-errors refused 'status 400' not_only_2xx "$gateway/infer/node"

# vegeta's targets, by a reader of that format: a limiter with a window that outlasts the test lets 3 of each key's 5 requests pass.
start_redis
start calculator '' "$WEIR_BUILD/services-go/calculator"
start limiter '' "$WEIR_BUILD/services-go/limiter-fiber" -app-endpoint "$url" -redis-endpoint "unix://$redis" -limit 3 -window 600
one vegeta-targets python3 load/vegeta/try.py load/vegeta/limiter.txt --at "http://127.0.0.1:3000=$url" --times 5 --expect 200=60 --expect 429=40

# JMeter: the services themselves, and through Weir.
plan() { # NAME PROPERTY...
  local log=$tmp/$1.jtl; shift
  java -Xmx512m -jar "$jmeter/bin/ApacheJMeter.jar" -n -t load/jmeter/auction.jmx -l "$log" -j "$tmp/jmeter.log" -JimageBytes=200000 -Jcreates=3 -Jbids=10 -Jretrieves=10 "$@"
  cat "$log"
  python3 - "$log" <<'PYTHON'
import collections, csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
count = collections.Counter((row["label"], row["success"]) for row in rows)
want = {("create", "true"): 3, ("bid", "true"): 10, ("retrieve", "true"): 10}
codes = collections.Counter(row["responseCode"] for row in rows if row["label"] == "bid")
large = all(int(row["bytes"]) > 200000 for row in rows if row["label"] == "retrieve")
sys.exit(0 if all(count[key] == value for key, value in want.items()) and codes["201"] and large and not any(row["success"] != "true" for row in rows) else f"{count} {codes}")
PYTHON
}
one jmeter plan direct "-Jusers=$(at 'auction (users)')" "-Jactive=$(at 'auction (active)')" "-Jdescriptions=$(at 'auction (descriptions)')"
one jmeter-through-weir plan weir "-Jgateway=$reference"

# Ctrl-C: nothing is left.
interrupted() {
  [ "${#pids[@]}" -ge 9 ] || { say "only ${#pids[@]} processes: ${pids[*]}"; return 1; }
  kill -INT "$services"
  wait "$services" || { say "exit code $?"; return 1; }
  local pid left=0
  for pid in "${pids[@]}"; do ! kill -0 "$pid" 2>/dev/null || { left=1; say "process $pid is left: $(ps -o args= -p "$pid")"; }; done
  return "$left"
}
one services-stop interrupted

count_line "$passed" "$failed" "$skipped"
[ "$failed" = 0 ] && exit "$code"
