# shellcheck shell=bash disable=SC2154
# TLS, HTTP/2 and gRPC against nginx, HAProxy and Envoy; memory of idle connections and of open streams.
need nginx haproxy openssl
need_measured
need_program go "Go 1.26 or newer builds the upstream: https://go.dev/doc/install"
mkdir -p "$WEIR_BUILD/bench-protocols"
(cd benches/protocols/upstream && go build -o "$WEIR_BUILD/bench-protocols/bench-upstream" .)
peers=$(need_venv bench-gateway benches/gateway/requirements.txt)
PATH=$PATH:$WEIR_BUILD/bench-protocols:$("$peers/bin/python" -c 'import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / "_bin")')
export PATH
exec python3 benches/protocols/protocols.py --weir "$weir" --out "$out" "$@"
