#!/usr/bin/env bash
# `gauge ui` in a real browser: every page in light and dark, wide and narrow; keyboard, a run of a gateway and one of two services from
# the description to the end, a broken upload.
source "$(dirname "$0")/../suite.sh"
need chromium fonts nginx
tests=crates/gauge/tests/browser
need_npm "$tests"
need_built gauge
GAUGE=$CARGO_TARGET_DIR/debug/gauge
CHROMIUM=$(find_program chromium)
RUN=$root/benches/runs/2026-11-22-vm/congestion/cubic
DESCRIPTION=$root/examples/evaluations/demo.openapi.yaml
SCREENSHOTS=$WEIR_BUILD/screenshots
export GAUGE CHROMIUM RUN DESCRIPTION SCREENSHOTS
log=$logs/gauge-ui.log
passed=0 failed=0
(cd "$tests" && timeout 600 node --test --test-reporter=tap) >"$log" 2>&1 || true
passed=$(sed -nE 's/^# pass ([0-9]+)$/\1/p' "$log"); failed=$(sed -nE 's/^# fail ([0-9]+)$/\1/p' "$log")
if [ -z "$passed" ] || [ "$failed" != 0 ]; then
  grep -E '^not ok|^  error:|^    (error|at|\[Error)|^ +(expected|actual):' "$log" | head -n 40 || true
  [ -n "$passed" ] || { tail -n 20 "$log"; passed=0 failed=1; }
  say "log: $log"
fi
say "screenshots: $SCREENSHOTS/gauge-ui-*.png"
count_line "$passed" "$failed"
[ "$failed" = 0 ]
