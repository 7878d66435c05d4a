# shellcheck shell=bash disable=SC2154
# What traces over OTLP and open consoles cost in CPU time per request, against the same gateway without them; with a collector that is well, killed
# or slow.
need nginx
need_measured
exec python3 benches/telemetry/telemetry.py --weir "$weir" --out "$out" "$@"
