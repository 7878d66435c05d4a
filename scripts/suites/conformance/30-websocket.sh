#!/usr/bin/env bash
# Autobahn's WebSocket cases, by the client kosoku, against a server directly, through Weir over HTTP/1.1, through Weir over HTTP/2 (RFC 8441), and
# through two gateways that speak HTTP/2 between them, from clients of both protocols: the same verdict in every case. A case that differs is run again alone.
suite=websocket
source "$(dirname "$0")/common.sh"
python=$(need_venv conformance "$here/requirements.txt")/bin/python
start echo '' "$python" "$here/websocket/echo.py"; echo=$url
gateway weir <<YAML
$(listeners)
upstreams: {app: {targets: ["$echo"]}}
routes: [{match: {path: /*}, upgrade: [websocket], upstream: app}]
YAML
first=$plain
gateway front <<YAML
$(listeners)
upstreams: {app: {targets: ["$first"], protocol: http2}}
routes: [{match: {path: /*}, upgrade: [websocket], upstream: app}]
YAML
front=$plain
start bridge '' "$python" "$here/websocket/bridge.py" "$(port_of "$first")"; bridge=$url
start bridge-front '' "$python" "$here/websocket/bridge.py" "$(port_of "$front")"
step cases "$python" "$here/websocket/compare.py" "ws://${echo#http://}" "http1=ws://${first#http://}" "http2=ws://${bridge#http://}" \
  "http1-http2=ws://${front#http://}" "http2-http2=ws://${url#http://}"
head -n 5 "$logs/$suite-cases.log"
count_line "$passed" "$failed" "$skipped"
exit "$code"
