# shellcheck shell=bash disable=SC2154
# The table of the gateway's bars against nginx, HAProxy, Fiber and Envoy. A row whose peer is missing is skipped and says so.
need nginx haproxy strace binutils
need_measured
if command -v go >/dev/null; then need_go_service gateway-fiber; fi
peers=$(need_venv bench-gateway benches/gateway/requirements.txt)
PATH=$PATH:$("$peers/bin/python" -c 'import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / "_bin")')
export PATH
exec python3 benches/gateway/table.py --weir "$weir" --out "$out" "$@"
