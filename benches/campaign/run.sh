# shellcheck shell=bash disable=SC2154
# What a campaign of gauge costs: its sampling, a history with a thousand campaigns, a report of many trials.
need chromium
need_measured
exec python3 benches/campaign/costs.py --out "$out" "$@"
