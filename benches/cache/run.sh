# Hits, misses and latency of the cache against nginx's proxy_cache on tmpfs, and Varnish.
need_apt nginx-light wrk varnish
need_weir
exec python3 benches/cache/cache.py --weir "$weir" --out "$out" "$@"
