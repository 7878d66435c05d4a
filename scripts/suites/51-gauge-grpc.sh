#!/usr/bin/env bash
# `gauge load --grpc` against grpc-go: its service for interoperability tests, described by its reflection.
source "$(dirname "$0")/../suite.sh"
need_go_programs crates/gauge/tests/grpc/interop weir.dev/gauge/interop
export GAUGE_GRPC_SERVER=$go_programs/interop
log=$logs/gauge-grpc-raw.log
code=0
cargo test --locked --workspace --test grpc real -- --ignored 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
read -r p f s < <(awk '/^test result:/ {p+=$4; f+=$6; s+=$8} END {print p+0, f+0, s+0}' "$log")
count_line "$p" "$f" "$s"
exit "$code"
