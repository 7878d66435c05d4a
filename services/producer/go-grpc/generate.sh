#!/bin/sh
# Regenerates eventpb from the contract's proto file, or with a directory as argument writes it there, to be compared.
# protoc comes from the Python package grpcio-tools (GRPC_TOOLS_PYTHON names the interpreter), the plugins from go.mod.
set -eu
cd "$(dirname "$0")"
out=${1:-eventpb}
python=${GRPC_TOOLS_PYTHON:-python3}
plugins=$(mktemp -d)
trap 'rm -rf "$plugins"' EXIT
go build -o "$plugins/" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
"$python" -m grpc_tools.protoc -I../proto \
  --plugin="$plugins/protoc-gen-go" --go_out="$out" --go_opt=paths=source_relative \
  --plugin="$plugins/protoc-gen-go-grpc" --go-grpc_out="$out" --go-grpc_opt=paths=source_relative \
  event_service.proto
