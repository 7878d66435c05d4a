# shellcheck shell=bash disable=SC2154
# The six producers under one load: throughput, latency, CPU, memory, loss.
need postgres jdk mvn
need_program go "Go 1.26 or newer builds two of the services and the load."
exec python3 benches/producers/table.py --out "$out" "${@:-all}"
