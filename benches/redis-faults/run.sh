# shellcheck shell=bash disable=SC2154
# A Redis that is killed, stopped and restarted under limits at half of the gateway's capacity.
need nginx redis-server
need_measured
exec python3 benches/redis-faults/redis_faults.py --weir "$weir" --out "$out" "$@"
