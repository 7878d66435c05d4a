#!/usr/bin/env bash
# h2spec --strict, all of its cases, against listeners in clear text and with TLS; the routes lead to an HTTP/1.1 and an HTTP/2 upstream.
# One case cannot hold in clear text: 3.5/2 sends "INVALID CONNECTION PREFACE" and expects the end of the connection without a response. A port
# that decides by the preface reads this as a request of HTTP/1 (RFC 9113 section 3.3): a 400 in HTTP/1.1, and then the end, is right there.
suite=h2spec
source "$(dirname "$0")/common.sh"
upstream upstream
need_go_programs "$here/h2spec" github.com/summerwind/h2spec/cmd/h2spec
for protocol in http1 http2; do
  gateway "to-$protocol" <<YAML
$(listeners)
upstreams: {app: {targets: ["$url"], protocol: $protocol}}
routes: [{match: {path: /*}, upstream: app}]
YAML
  # spec PORT KNOWN OPTION...: h2spec's own count is "146 tests, 145 passed, 0 skipped, 1 failed"; the failures in KNOWN count as skipped.
  spec() {
    local known=$2 failures
    "$go_programs/h2spec" --strict --timeout 5 --port "$1" "${@:3}" >"$tmp/spec" 2>&1 || true
    cat "$tmp/spec"
    failures=$(sed '1,/^Failures:/d' "$tmp/spec" | sed -nE 's/^ *× //p')
    [ "$failures" = "$known" ] || say "failures that are not known, or known ones that are gone: $failures"
    awk -v known="$([ -z "$known" ] || grep -c . <<<"$known")" '/^[0-9]+ tests, / {
      printf "%d passed, %d failed, %d skipped\n", $3, $7 - known, $5 + known }' "$tmp/spec"
    grep -qE '^[0-9]+ tests, ' "$tmp/spec" && [ "$failures" = "$known" ]
  }
  step "clear-text-to-$protocol" spec "$(port_of "$plain")" "2: Sends invalid connection preface"
  skipped=$((skipped + 1))
  step "tls-to-$protocol" spec "$(port_of "$secure")" "" --tls --insecure
  # What that case may expect instead: the status line of HTTP/1.1, and the end of the connection.
  invalid_preface() {
    python3 - "$(port_of "$plain")" <<'PYTHON'
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10)
s.sendall(b"INVALID CONNECTION PREFACE\r\n\r\n")
said = b""
while piece := s.recv(4096):
    said += piece
assert said.startswith(b"HTTP/1.1 400 "), said
PYTHON
  }
  one "invalid-preface-to-$protocol" invalid_preface
done
count_line "$passed" "$failed" "$skipped"
exit "$code"
