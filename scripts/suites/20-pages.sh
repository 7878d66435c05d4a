#!/usr/bin/env bash
# Every command and every configuration of README.md and docs/, as typed: scripts/pages.py says how.
source "$(dirname "$0")/../suite.sh"
need_program python3 "Python 3.11 or newer."
# The page of the event services starts one of them.
need curl nginx haproxy openssl postgres wrk
need_program go "Go 1.26 or newer: https://go.dev/doc/install"
need_built weir gauge
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
export PREFIX=$tmp/prefix PROFILE=dev
export PATH=$PREFIX/bin:$CARGO_TARGET_DIR/debug:$PATH
# Keys of providers that configurations name; nothing is sent to them.
export OPENAI_KEY_A=a OPENAI_KEY_B=b ANTHROPIC_KEY=c GEMINI_KEY=d
python3 scripts/pages.py run
