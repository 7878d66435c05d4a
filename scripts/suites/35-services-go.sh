#!/usr/bin/env bash
# The Go services: their unit and integration tests, then the contract suite against each, and against others through them.
source "$(dirname "$0")/../suite.sh"
need_program go "Go 1.26 or newer builds these services: https://go.dev/doc/install"
need redis-server postgres
contract=$(need_venv contract services/contract/requirements.txt)/bin/python
schemathesis=$(need_venv schemathesis services/auction/requirements.txt)/bin/st
need_npm services/messages-hono
need_npm services/inference-node

bin=$WEIR_BUILD/services-go tmp=$(mktemp -d)
mkdir -p "$bin"
started=()
stop() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
  rm -rf "$tmp"
}
trap stop EXIT

passed=0 failed=0 skipped=0 code=0
# step NAME COMMAND...: runs it, and adds up what it counted: go test's lines and the contract suite's closing line are known.
step() {
  local name=$1 log=$logs/services-go-$1.log p f s bad=0
  shift
  say "-- $name"
  "$@" >"$log" 2>&1 || bad=1
  read -r p f s < <(awk '
    /^ *--- PASS/ {p++} /^ *--- FAIL/ {f++} /^ *--- SKIP/ {s++}
    /^[0-9]+ passed, [0-9]+ failed/ {p += $1; f += $3; s += $5}
    END {print p + 0, f + 0, s + 0}' "$log")
  [ "$bad" = 0 ] || { cat "$log"; code=1; [ "$f" -gt 0 ] || f=1; }
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  say "   $(count_line "$p" "$f" "$s")"
}
go_test() { (cd services && exec go test -count=1 -v ./...); }
# contract CASES ARGUMENT...
contract() { local cases=$1; shift; (cd services/contract && exec "$contract" -m contract "cases/$cases.yaml" "$@"); }

# start NAME WHICH COMMAND...: in the background, on a free port; the address that it prints, followed by WHICH, is then in $url.
start() {
  local name=$1 which=$2 out=$tmp/$1.out
  shift 2
  : >"$out"
  PORT=0 "$@" >"$out" 2>&1 &
  started+=($!)
  for _ in $(seq 300); do
    url=$(sed -nE "s/^listening on (http:[^ ]+)$which\$/\1/p" "$out")
    [ -z "$url" ] || return 0
    kill -0 "$!" 2>/dev/null || break
    sleep 0.1
  done
  die "$name did not start: $(cat "$out")"
}

step tests go_test
(cd services && go build -o "$bin/" ./gateway-fiber ./limiter-fiber ./calculator ./auction)

step contract-calculator contract calculator --start "$bin/calculator"

start calculator '' "$bin/calculator"
calculator=$url
redis-server --port 0 --unixsocket "$tmp/redis.sock" --save '' --appendonly no --dir "$tmp" >"$tmp/redis.out" 2>&1 &
started+=($!)
for _ in $(seq 300); do redis-cli -s "$tmp/redis.sock" ping >/dev/null 2>&1 && break || sleep 0.1; done
limiter="$bin/limiter-fiber -app-endpoint $calculator -redis-endpoint unix://$tmp/redis.sock"
step contract-limiter contract limiter --start "$limiter -limit 3 -window 60"
step contract-limiter-window contract limiter --var mode=short --start "$limiter -limit 3 -window 2"
step contract-limiter-off contract limiter --var mode=off --start "$limiter -limit 0"
step contract-calculator-through-limiter contract calculator --through gateway --start "$limiter -limit 0"

start messages-hono ' \(auth\)' env AUTH_PORT=0 MESSAGES_PORT=0 node services/messages-hono/src/index.js
hono=$url
step contract-gateway contract gateway-fiber --env "AUTH_URL=$hono" --start "$bin/gateway-fiber"
start gateway-fiber '' env "AUTH_URL=$hono" "$bin/gateway-fiber"
step contract-hono-through-gateway contract messages --through gateway --skip messages --base-url "$url"

# Not what depends on the service seeing at once that a client has gone: Fiber sees it when it writes the next piece.
start inference-node '' node services/inference-node/src/index.js
step contract-inference-through-gateway contract inference --through gateway --skip sim --skip faults --env "SERVICE_URL=$url" \
  --start "$bin/gateway-fiber -config $root/services/gateway-fiber/examples/pass-all.json"

step contract-auction contract auction --env "DATA_DIR=$tmp/auction" --start "$bin/auction"
start auction ' \(users\)' env USERS_PORT=0 ACTIVE_PORT=0 DESCRIPTIONS_PORT=0 DATA_DIR="$tmp/auction2" "$bin/auction"
users=$url
active=$(sed -nE 's/^listening on (.*) \(active\)$/\1/p' "$tmp/auction.out") descriptions=$(sed -nE 's/^listening on (.*) \(descriptions\)$/\1/p' "$tmp/auction.out")
start auction-gateway '' env "USERS_URL=$users" "ACTIVE_URL=$active" "DESCRIPTIONS_URL=$descriptions" \
  "$bin/gateway-fiber" -config services/gateway-fiber/examples/auction.json
step contract-auction-through-gateway contract auction --through gateway --base-url "$url"

# The running service against its own description: valid and invalid requests, and all responses.
post() { curl -fsS -X POST -H 'Content-Type: application/json' "$@"; }
post "$users/users/register" -d '{"name":"ada","password":"correct horse"}' >/dev/null
token=$(post "$users/users/login" -d '{"name":"ada","password":"correct horse"}' | sed -E 's/.*"token":"([^"]+)".*/\1/')
post "$descriptions/description" -H "Authorization: Bearer $token" -d '{"title":"A violin","startPrice":100}' >/dev/null
# conforms SERVICE URL PATHS OPERATIONS: each operation is a test; that as many were tested as there are is one of them.
conforms() {
  local said
  said=$(cd "$tmp" && "$schemathesis" --no-color run "$root/services/auction/openapi.yaml" --url "$2" --include-path-regex "$3" -H "Authorization: Bearer $token" \
    --phases examples,coverage,fuzzing --max-examples 30 --generation-deterministic 2>&1) || { say "$said"; return 1; }
  grep -q "^  Tested: $4\$" <<<"$said" || { say "$said" "not all of the $4 operations were tested"; return 1; }
  count_line "$4" 0
}
step auction-users-conforms conforms users "$users" '^/users/' 2
step auction-active-conforms conforms active "$active" '^/active/' 3
step auction-descriptions-conforms conforms descriptions "$descriptions" '^/description' 2

count_line "$passed" "$failed" "$skipped"
exit "$code"
