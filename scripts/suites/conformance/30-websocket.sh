#!/usr/bin/env bash
# Autobahn's WebSocket cases, by the client kosoku, against a server directly, through Weir over HTTP/1.1, and through Weir over HTTP/2 (RFC 8441):
# the same verdict in every case. A case that differs is run again alone.
suite=websocket
source "$(dirname "$0")/common.sh"
python=$(need_venv conformance "$here/requirements.txt")/bin/python
start echo '' "$python" "$here/websocket/echo.py"; echo=$url
gateway weir <<YAML
$(listeners)
upstreams: {app: {targets: ["$echo"]}}
routes: [{match: {path: /*}, upgrade: [websocket], upstream: app}]
YAML
start bridge '' "$python" "$here/websocket/bridge.py" "$(port_of "$plain")"
step cases "$python" "$here/websocket/compare.py" "ws://${echo#http://}" "http1=ws://${plain#http://}" "http2=ws://${url#http://}"
head -n 3 "$logs/$suite-cases.log"
count_line "$passed" "$failed" "$skipped"
exit "$code"
