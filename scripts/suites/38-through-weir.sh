#!/usr/bin/env bash
# The contract suite of every service again, through Weir: what a service promises must not change because a gateway is in front of it.
source "$(dirname "$0")/../suite.sh"
suite=through-weir
source "$root/scripts/lib-services.sh"
need_program go "Go 1.26 or newer builds some of the services: https://go.dev/doc/install"
need redis-server
contract=$(need_venv contract services/contract/requirements.txt)/bin/python
inference=$(need_venv inference-python services/inference-python/requirements-dev.txt)/bin/python
need_npm services/inference-node
need_npm services/messages-hono
need_weir
bin=$WEIR_BUILD/services-go
(cd services && go build -o "$bin/" ./calculator ./auction)
# through CASES ARGUMENT...
through() { local cases=$1; shift; (cd services/contract && exec "$contract" -m contract "cases/$cases.yaml" "$@"); }
here=$root/services/contract/weir

start python '' sh -c "cd services/inference-python && exec '$inference' -m app"; python=$url
start node '' node services/inference-node/src/index.js; node=$url
start hono auth env AUTH_PORT=0 MESSAGES_PORT=0 node services/messages-hono/src/index.js; auth=$url
another messages; messages=$url
start calculator '' "$bin/calculator"; calculator=$url
start auction users env USERS_PORT=0 ACTIVE_PORT=0 DESCRIPTIONS_PORT=0 DATA_DIR="$tmp/auction" "$bin/auction"; users=$url
another active; active=$url
another descriptions; descriptions=$url

# The environment-only mode with its cache: in front of the services, and of what it plays itself. The limits would refuse what the cases send at once.
weir_env=(--env RATE_LIMIT_ENABLED=false)
for service in python node; do
  step "infer-$service" through inference --through "weir-$service" --start "$weir" "${weir_env[@]}" --env "PY_SERVICE_URL=$python" --env "NODE_SERVICE_URL=$node"
  step "demo-$service" through inference --through "weir-$service" --start "$weir" "${weir_env[@]}"
done
step inference-gateway through inference-gateway --start "$weir" "${weir_env[@]}" --env "PY_SERVICE_URL=$python" --env "NODE_SERVICE_URL=$node"

# A file.
for service in python node; do
  step "inference-$service" through inference --through gateway --skip faults --start "$weir --config $here/pass-all.yaml" --env "SERVICE_URL=${!service}"
done
step calculator through calculator --through gateway --start "$weir --config $here/pass-all.yaml" --env "SERVICE_URL=$calculator"
step gates through gateway-fiber --through other --var service=weir --start "$weir --config $root/examples/weir/fiber.yaml" --env LISTEN=127.0.0.1:0 --env "AUTH_URL=$auth"
start_reference() {
  start reference '' env REFERENCE_LISTEN=127.0.0.1:0 "PY_SERVICE_URL=$python" "NODE_SERVICE_URL=$node" "AUTH_URL=$auth" "MESSAGES_URL=$messages" \
    "CALCULATOR_URL=$calculator" "USERS_URL=$users" "ACTIVE_URL=$active" "DESCRIPTIONS_URL=$descriptions" "$weir" --config examples/weir/reference.yaml
}
start_reference
step auction through auction --through gateway --base-url "$url"
step messages through messages --through gateway --base-url "$url"
step infer-reference through inference --through weir-python --base-url "$url"

# The limits of the comparison of limiters.
start_redis
limiter() { through limiter --through weir --env "REDIS_URL=redis://127.0.0.1:$redis_port" --env "SERVICE_URL=$calculator" --start "$weir --config $here/limiter.yaml" "$@"; }
step limiter limiter --env LIMIT=3 --env WINDOW=60s
step limiter-window limiter --var mode=short --env LIMIT=3 --env WINDOW=2s
step limiter-off limiter --var mode=off --env LIMIT=0

count_line "$passed" "$failed" "$skipped"
exit "$code"
