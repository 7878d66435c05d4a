#!/usr/bin/env bash
# Rules and dashboards against a real Prometheus: alerts fire and are silent as deploy/prometheus/rules_test.yaml says, and every
# expression returns data of a real gateway.
source "$(dirname "$0")/../suite.sh"
suite=prometheus
source "$root/scripts/lib-services.sh"
need prometheus redis-server curl openssl
need_weir
one check-rules promtool check rules deploy/prometheus/rules.yaml
one test-rules promtool test rules deploy/prometheus/rules_test.yaml
one dashboards-are-current deploy/grafana/render.py --check
# Each alert has a test in which it fires, and a paragraph in the documentation.
while read -r alert; do
  one "$alert" grep -q "alertname: $alert\$" deploy/prometheus/rules_test.yaml
  one "$alert-runbook" grep -qx "### $alert" docs/observe.md
done < <(sed -nE 's/^ +- alert: //p' deploy/prometheus/rules.yaml)
start_redis
step expressions python3 deploy/prometheus/observe.py "$weir" "$redis_port" "$tmp"
count_line "$passed" "$failed" "$skipped"
exit "$code"
