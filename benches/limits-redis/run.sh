# Limits in Redis against the original design, services/limiter-fiber.
need_apt nginx-light redis-server
need_release
need_go_service limiter-fiber
exec python3 benches/limits-redis/redis.py --weir "$weir" --out "$out" "$@"
