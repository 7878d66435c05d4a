#!/usr/bin/env bash
# Formatting, clippy with warnings as errors, and the dependency policy.
source "$(dirname "$0")/../lib.sh"
cargo fmt --all --check
need g++ # libFuzzer, of the fuzz targets, is C++
cargo clippy --workspace --all-targets --locked -- -D warnings
need_cargo_tool cargo-deny 0.20.2
cargo deny --log-level error check bans licenses sources
