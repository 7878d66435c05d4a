#!/usr/bin/env bash
# Three replicas behind an L4 load balancer are restarted one after the other under load: no request fails, and with SIGKILL some do.
source "$(dirname "$0")/../suite.sh"
suite=rolling
source "$root/scripts/lib-services.sh"
need haproxy
need_program python3 "Python 3.11 or newer runs this part of the tests."
need_weir
mkdir "$tmp/term" "$tmp/kill"
one restart-without-loss python3 deploy/check/rolling.py "$weir" "$tmp/term"
one kill-loses-requests python3 deploy/check/rolling.py "$weir" "$tmp/kill" --kill
count_line "$passed" "$failed" "$skipped"
exit "$code"
