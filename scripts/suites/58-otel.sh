#!/usr/bin/env bash
# Traces and metrics over OTLP to a real OpenTelemetry Collector: what it writes is what docs/telemetry.md says; it is killed and started again.
source "$(dirname "$0")/../suite.sh"
suite=otel
source "$root/scripts/lib-services.sh"
need_go_programs "$root/deploy/telemetry/collector" weir.dev/collector
need_weir
# shellcheck disable=SC2154 # of need_go_programs and need_weir
step collector python3 deploy/telemetry/observe.py "$weir" "$go_programs/collector" "$tmp"
count_line "$passed" "$failed" "$skipped"
exit "$code"
