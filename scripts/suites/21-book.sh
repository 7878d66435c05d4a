#!/usr/bin/env bash
# The site of the docs: mdBook makes it without a warning, and every link, anchor and image of it leads somewhere.
source "$(dirname "$0")/../suite.sh"
need_program python3 "Python 3.11 or newer."
need_cargo_tool mdbook 0.5.4 --no-default-features --features search
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
mdbook build docs --dest-dir "$tmp/site" 2>"$tmp/log" || { cat "$tmp/log" >&2; die "mdBook failed"; }
if grep -E 'WARN|ERROR' "$tmp/log" >&2; then die "mdBook warns"; fi
python3 scripts/book.py "$tmp/site"
