#!/usr/bin/env bash
# What Gauge writes for each gateway, given to the gateway itself: its own check, then real requests through it to real upstreams. Kong, which
# has no package here, is held against its own converter. Kong, KrakenD and Tyk are run too where their programs are found.
source "$(dirname "$0")/../suite.sh"
need nginx haproxy jdk mvn
need_program go "Go 1.26 or newer builds the Fiber gateway: https://go.dev/doc/install"
need_program npm "It comes with Node.js 20 or newer, which runs Kong's converter."
here=$root/crates/gauge/tests/gateways
mkdir -p "$WEIR_BUILD/services-go"
programs=$(need_venv gauge-gateways "$here/requirements.txt")/bin
need_weir
(cd services && go build -o "$WEIR_BUILD/services-go/" ./gateway-fiber) || die "gateway-fiber does not build"
export MAVEN_OPTS=${MAVEN_OPTS:--XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx512m}
jar=$WEIR_BUILD/gateway-spring/gateway-spring.jar
mvn -q -B -f services/gateway-spring -Dbuild="$(dirname "$jar")" package >"$logs/gateway-spring.log" 2>&1 || { tail -n 30 "$logs/gateway-spring.log"; die "gateway-spring does not build"; }

export GAUGE_GATEWAYS=weir,nginx,haproxy,envoy,traefik,caddy,fiber,spring
export GAUGE_WEIR=$weir GAUGE_FIBER=$WEIR_BUILD/services-go/gateway-fiber GAUGE_SPRING=$jar
export GAUGE_ENVOY=$programs/envoy GAUGE_TRAEFIK=$programs/traefik GAUGE_CADDY=$programs/caddy
# shellcheck source=scripts/documents.sh
source "$(dirname "$0")/../documents.sh"
export GAUGE_DESCRIPTIONS=$docs
passed=0 failed=0 skipped=0

code=0
cargo test --quiet --locked --workspace --test gateways -- --ignored --nocapture >"$logs/gauge-gateways.log" 2>&1 || code=$?
read -r p f < <(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' "$logs/gauge-gateways.log") || true
absent=$(grep -c 'is not here and was not run' "$logs/gauge-gateways.log" || true)
passed=$((passed + ${p:-0} - absent)) failed=$((failed + ${f:-0})) skipped=$((skipped + absent))
sed -nE 's/^\.*(running )?([a-z]+ ([0-9]+\.[0-9]|is not here).*)/  \2/p' "$logs/gauge-gateways.log" | sort -u
[ "$code" = 0 ] || { [ "${f:-0}" != 0 ] || failed=$((failed + 1)); tail -n 60 "$logs/gauge-gateways.log"; }

check() {
  local name=$1; shift
  if "$@" >"$logs/gauge-$name.log" 2>&1; then passed=$((passed + 1)); say "ok   $name"
  else failed=$((failed + 1)); say "FAIL $name"; tail -n 40 "$logs/gauge-$name.log"; fi
}
need_npm "$here/published"
check kong-converter node "$here/published/kong.mjs" "$root"

count_line "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
