# shellcheck shell=bash disable=SC2154
# An API description with 600 operations to the configurations of all gateways.
need_measured
exec python3 benches/convert/convert.py --out "$out" "$@"
