#!/usr/bin/env bash
# Floods and stalls of HTTP/2 and TLS against a gateway with one worker, beside ordinary load: see attacks.py for what is held to.
suite=attacks
source "$(dirname "$0")/common.sh"
need h2load
[ -r /proc/self/status ] || { say "/proc is not here: memory and CPU cannot be read"; count_line 0 0 1; exit 0; }
python=$(need_venv conformance "$here/requirements.txt")/bin/python
upstream upstream
# started_gateway NAME LINES: a gateway with these lines in its configuration.
started_gateway() {
  gateway "$1" <<YAML
$(listeners)
workers: 1
$2
upstreams: {app: {targets: ["$url"]}}
routes: [{match: {path: /*}, upstream: app}]
YAML
}
started_gateway bounded 'server: {http2: {abuse_per_client: 6000/h}}'
bounded=$plain bounded_pid=$gateway_pid
started_gateway weir ''
step attacks "$python" "$here/attacks/attacks.py" "$plain" "$secure" "$gateway_pid" "$bounded" "$bounded_pid"
grep -E '^ok|^FAIL' "$logs/$suite-attacks.log"
count_line "$passed" "$failed" "$skipped"
exit "$code"
