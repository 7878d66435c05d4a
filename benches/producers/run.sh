# The six producers under one load: throughput, latency, CPU, memory, loss.
need_apt postgresql-15 openjdk-17-jdk-headless maven
need_program go "Go 1.26 or newer builds two of the services and the load."
exec python3 benches/producers/table.py --out "$out" "${@:-all}"
