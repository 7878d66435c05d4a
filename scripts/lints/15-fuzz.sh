#!/usr/bin/env bash
# Fuzz targets compile with what they test: they are workspaces of their own, which nothing else builds between two runs of `make fuzz`.
source "$(dirname "$0")/../lib.sh"
need g++ # libFuzzer is C++
for manifest in crates/*/fuzz/Cargo.toml; do
  RUSTFLAGS="${RUSTFLAGS:-} --cfg fuzzing" cargo check --quiet --locked --bins --manifest-path "$manifest"
done
