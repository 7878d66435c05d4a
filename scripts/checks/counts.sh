#!/usr/bin/env bash
# A suite that fails, crashes, is killed, counts a failure or counts nothing makes `make test` fail, whatever else it says; so does a command of
# a document that exits with another code than 0.
set -euo pipefail
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/scripts" "$tmp/scripts/suites"
cp scripts/lib.sh scripts/suite.sh scripts/test "$tmp/scripts/"
try() { # EXPECTED-CODE NAME LINES-OF-A-SUITE
  rm -f "$tmp"/scripts/suites/*
  printf '#!/usr/bin/env bash\n%s\n' "$3" >"$tmp/scripts/suites/10-it.sh"
  printf '#!/usr/bin/env bash\necho 2 passed, 0 failed, 0 skipped\n' >"$tmp/scripts/suites/20-good.sh"
  chmod +x "$tmp"/scripts/suites/*
  local code=0
  (cd "$tmp" && WEIR_BUILD=$tmp/build WEIR_CACHE=$tmp/cache scripts/test) >"$tmp/said" 2>&1 || code=$?
  if [ "$code" != "$1" ]; then echo "a suite that $2: make test exits with $code" >&2; cat "$tmp/said" >&2; exit 1; fi
  if [ "$code" != 0 ] && ! tail -n 1 "$tmp/said" | grep -qE '[1-9][0-9]* failed'; then
    echo "a suite that $2: no failure is counted" >&2; cat "$tmp/said" >&2; exit 1
  fi
}
try 0 'passes' 'echo 3 passed, 0 failed, 1 skipped'
try 1 'exits with 1' 'echo 3 passed, 0 failed, 0 skipped; exit 1'
try 1 'counts a failure and exits with 0' 'echo 3 passed, 1 failed, 0 skipped'
try 1 'counts nothing' 'echo hello'
try 1 'is killed' 'echo 3 passed, 0 failed, 0 skipped; kill -9 $$'
try 1 'stops in the middle' 'set -e; echo begin; false; echo 3 passed, 0 failed, 0 skipped'

# shellcheck disable=SC2016 # the fence of a block, not a command
console() { # EXPECTED-CODE COMMAND OUTPUT
  local code=0
  printf '```console\n$ %s\n%s\n```\n' "$2" "$3" >"$tmp/page.md"
  python3 scripts/console.py "$tmp/page.md" >"$tmp/said" 2>&1 || code=$?
  if [ "$code" != "$1" ]; then echo "console.py exits with $code for: $2" >&2; cat "$tmp/said" >&2; exit 1; fi
}
console 0 'echo hello' 'hello'
console 1 'echo hello' 'good-bye'
console 1 'echo hello; exit 3' 'hello'
console 1 'false' ''
: >"$tmp/page.md"
! python3 scripts/console.py "$tmp/page.md" >/dev/null || { echo 'console.py passes without a command' >&2; exit 1; }
