# What must not cost a request: reloads, take-overs, and upstreams that are killed, stopped and restarted.
need_apt nginx-light curl
need_release
exec python3 benches/faults/faults.py --weir "$weir" --out "$out" "$@"
