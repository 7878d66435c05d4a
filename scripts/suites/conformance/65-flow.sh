#!/usr/bin/env bash
# Flow control of HTTP/2: clients that read slowly, 1,000 connections with 100 streams each, and a stream that is not read beside 99 that are. The gateway's
# memory stays within what docs/http2.md says, and the fast streams keep their rate.
suite=flow
source "$(dirname "$0")/common.sh"
[ -r /proc/self/status ] || { say "/proc is not here: memory cannot be read"; count_line 0 0 1; exit 0; }
upstream upstream; app=$url
start endless '' "$go_programs/peers" endless
gateway weir <<YAML
$(listeners)
workers: 1
# The streams of 1,000 connections take minutes to open on a small machine, and are not read meanwhile.
server: {body_idle_timeout: 900s}
upstreams:
  app: {targets: ["$app"], timeouts: {idle: 900s, total: 1200s}}
  endless:
    targets: ["$url"]
    protocol: http2
    # A connection for each of the clients', and little of each response on the way.
    http2: {max_connections: 1000, stream_window: 64KiB, connection_window: 64KiB}
    timeouts: {connect: 120s, first_byte: 120s, idle: 900s, total: 1200s}
routes:
  - {match: {host: h1.test, path: /*}, upstream: app}
  - {match: {host: h2.test, path: /*}, upstream: endless}
YAML
# Two descriptors of the gateway for each, and 22 MiB: what is documented at most.
connections=1000
files=$(($(ulimit -n) / 2 - 200))
free=$(($(awk '/MemAvailable/ { print $2 }' /proc/meminfo) / 1024 / 22))
for most in "$files" "$free"; do [ "$connections" -le "$most" ] || connections=$most; done
[ "$connections" = 1000 ] || say "only $connections connections: that is what files and memory of this machine allow"
step flow "$go_programs/peers" flow -url "$plain" -pid "$gateway_pid" -connections "$connections"
grep -E '^ok|^FAIL' "$logs/$suite-flow.log"
count_line "$passed" "$failed" "$skipped"
exit "$code"
