# shellcheck shell=bash disable=SC2154
# What an external authorizer adds to the latency of a request, beside one round trip to the upstream.
need nginx
need_measured
exec python3 benches/authorizer/authorizer.py --weir "$weir" --out "$out" "$@"
