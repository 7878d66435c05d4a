#!/usr/bin/env bash
# gRPC's interoperability cases (doc/interop-test-descriptions.md) with grpc-go's client and server: directly and through Weir, in clear text and
# with TLS on both sides. A case passes through Weir if it has the same verdict as without, and that is a pass.
suite=grpc
source "$(dirname "$0")/common.sh"
need_go_programs "$here/grpc" google.golang.org/grpc/interop/client google.golang.org/grpc/interop/server
cases="empty_unary large_unary client_streaming server_streaming ping_pong empty_stream cancel_after_begin cancel_after_first_response
  timeout_on_sleeping_server custom_metadata status_code_and_message special_status_message unimplemented_method unimplemented_service
  rpc_soak channel_soak"

# server NAME OPTION...: the port that it chose is then in $port.
server() {
  local name=$1
  shift
  : >"$tmp/$name.out"
  GRPC_GO_LOG_SEVERITY_LEVEL=info "$go_programs/server" -port 0 "$@" >"$tmp/$name.out" 2>&1 &
  started+=($!)
  for _ in $(seq 300); do
    port=$(sed -nE 's/.*interop server listening on .*:([0-9]+)$/\1/p' "$tmp/$name.out")
    [ -z "$port" ] || return 0
    sleep 0.1
  done
  die "$name did not start: $(cat "$tmp/$name.out")"
}
server clear; clear=$port
server tls -use_tls -tls_cert_file "$tmp/localhost.pem" -tls_key_file "$tmp/localhost.key"; tls=$port
gateway clear-text <<YAML
$(listeners)
upstreams: {app: {targets: ["http://127.0.0.1:$clear"], protocol: http2}}
routes: [{match: {path: /*}, upstream: app}]
YAML
through_clear=$(port_of "$plain")
gateway with-tls <<YAML
$(listeners)
upstreams: {app: {targets: ["https://127.0.0.1:$tls"], protocol: http2, tls: {roots: $tmp/ca.pem}}}
routes: [{match: {path: /*}, upstream: app}]
YAML
through_tls=$(port_of "$secure")
with_tls=(-use_tls -use_test_ca -ca_file "$tmp/ca.pem")

# run CASE PORT OPTION...: an address, because a resolver that is slow once fails a case that is only about the server.
run() { timeout 60 "$go_programs/client" -server_host 127.0.0.1 -server_host_override localhost -server_port "$2" -test_case "$1" "${@:3}"; }
# same_verdict CASE DIRECT THROUGH OPTION...
same_verdict() {
  run "$1" "$2" "${@:4}" || { say "$1 fails without the gateway: nothing is said about the gateway"; return 1; }
  run "$1" "$3" "${@:4}"
}
for case in $cases; do
  one "$case" same_verdict "$case" "$clear" "$through_clear"
  one "$case-tls" same_verdict "$case" "$tls" "$through_tls" "${with_tls[@]}"
done
count_line "$passed" "$failed" "$skipped"
exit "$code"
