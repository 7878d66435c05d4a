#!/usr/bin/env bash
# What a suite sees of the environment of whoever runs it: nothing that leads to a database, a server, a proxy for what runs here, or another
# locale. The services' own tests show the same of what they start.
set -euo pipefail
cd "$(dirname "$0")/../.."
seen=$(
  export DATABASE_URL=postgres://developer@127.0.0.1:9/work PGHOST=127.0.0.1 PGSERVICE=work REDIS_URL=redis://127.0.0.1:9 REDIS_ADDR=127.0.0.1:9
  export http_proxy=http://127.0.0.1:9 LC_ALL=tr_TR.UTF-8 LANG=tr_TR.UTF-8 RUST_LOG=trace NODE_OPTIONS=--inspect PYTHONPATH=/nowhere CDPATH=/
  export RATE_LIMIT_ENABLED=true CACHE_BACKEND=redis SERVICE_URL=http://127.0.0.1:9 PORT=80 MAKEFLAGS=-j GREP_OPTIONS=-v
  bash -c 'source scripts/suite.sh; env'
)
for name in DATABASE_URL PGHOST PGSERVICE REDIS_URL REDIS_ADDR LANG RUST_LOG NODE_OPTIONS PYTHONPATH CDPATH RATE_LIMIT_ENABLED CACHE_BACKEND SERVICE_URL PORT MAKEFLAGS GREP_OPTIONS; do
  if grep -q "^$name=" <<<"$seen"; then echo "a suite sees $name" >&2; exit 1; fi
done
# A proxy stays, for downloads, but not for this machine.
for line in http_proxy=http://127.0.0.1:9 no_proxy=127.0.0.1,localhost,::1 "PATH=.*" "HOME=.*" "LC_ALL=(C|en_US).UTF-8"; do
  grep -qE "^$line" <<<"$seen" || { echo "a suite does not see $line" >&2; exit 1; }
done
