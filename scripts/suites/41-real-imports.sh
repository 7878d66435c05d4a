#!/usr/bin/env bash
# `weir import` on configurations that others published: 25 files, five of each format, fetched from package registries and pinned by checksum.
# Each is imported, checked, started and called; what the report says of it is compared with expected.json.
source "$(dirname "$0")/../suite.sh"
need_program npm "It comes with Node.js 20 or newer, which runs Kong's converter."
need_program go "Go 1.23 or newer fetches some of the configurations."
need_program python3 "Python 3.11 or newer runs this part of the tests."
here=$root/crates/import/tests/published
converter=$root/crates/gauge/tests/gateways/published
files=$WEIR_CACHE/configurations
need_npm "$converter"
need_weir
python3 "$here/fetch.py" "$files" || die "the configurations could not be fetched"
log=$logs/real-imports.log code=0
python3 "$here/check.py" "$weir" "$files" "$converter" >"$log" 2>&1 || code=$?
cat "$log"
read -r passed failed <<<"$(sed -nE 's/^configurations ([0-9]+) ([0-9]+)$/\1 \2/p' "$log")" || true
if [ "${failed:-0}" = 0 ] && { [ "$code" != 0 ] || [ "${passed:-0}" = 0 ]; }; then failed=1; fi
count_line "${passed:-0}" "$failed"
[ "$failed" = 0 ]
