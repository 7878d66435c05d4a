# shellcheck shell=bash disable=SC2154
# A service through gateways against the service itself: Hono by itself, behind Fiber and behind Weir.
need wrk haproxy
need_measured
need_go_service gateway-fiber
need_npm services/messages-hono
exec python3 benches/direct/table.py --weir "$weir" --out "$out" "$@"
