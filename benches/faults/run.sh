# shellcheck shell=bash disable=SC2154
# What must not cost a request: reloads, take-overs, and upstreams that are killed, stopped and restarted.
need nginx curl
need_measured
exec python3 benches/faults/faults.py --weir "$weir" --out "$out" "$@"
