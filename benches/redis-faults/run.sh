# A Redis that is killed, stopped and restarted under limits at half of the gateway's capacity.
need_apt nginx-light redis-server
need_weir
cargo build --release --locked -p gauge
exec python3 benches/redis-faults/redis_faults.py --weir "$weir" --gauge "$CARGO_TARGET_DIR/release/gauge" --out "$out" "$@"
