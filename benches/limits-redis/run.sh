# shellcheck shell=bash disable=SC2154
# Limits in Redis against the original design, services/limiter-fiber.
need nginx redis-server
need_measured
need_go_service limiter-fiber
exec python3 benches/limits-redis/redis.py --weir "$weir" --out "$out" "$@"
