# A Redis that is killed, stopped and restarted under limits at half of the gateway's capacity.
need_apt nginx-light redis-server
need_release
exec python3 benches/redis-faults/redis_faults.py --weir "$weir" --out "$out" "$@"
