#!/usr/bin/env bash
# Weir's console in a real browser: every page in light and dark, wide and narrow; keyboard, actions, login, other sites.
source "$(dirname "$0")/../suite.sh"
need chromium fonts openssl tidy
tests=crates/weir/tests/browser
need_npm "$tests"
need_weir
WEIR=$weir
CHROMIUM=$(find_program chromium)
SCREENSHOTS=$WEIR_BUILD/screenshots
export WEIR CHROMIUM SCREENSHOTS
log=$logs/console.log
passed=0 failed=0
(cd "$tests" && timeout 300 node --test --test-reporter=tap) >"$log" 2>&1 || true
passed=$(sed -nE 's/^# pass ([0-9]+)$/\1/p' "$log"); failed=$(sed -nE 's/^# fail ([0-9]+)$/\1/p' "$log")
if [ -z "$passed" ] || [ "$failed" != 0 ]; then
  grep -E '^not ok|^  error:|^    (error|at|\[Error)|^ +(expected|actual):' "$log" | head -n 40 || true
  [ -n "$passed" ] || { tail -n 20 "$log"; passed=0 failed=1; }
  say "log: $log"
fi
if tidy -errors -quiet --mute-id yes --drop-empty-elements no crates/weir/src/admin/console/web/index.html 2>&1 | grep -E 'Error|Warning'; then
  failed=$((failed + 1))
else
  passed=$((passed + 1))
fi
say "screenshots: $SCREENSHOTS/console-*.png"
count_line "$passed" "$failed"
[ "$failed" = 0 ]
