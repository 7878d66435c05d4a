#!/usr/bin/env bash
# The Helm chart by Helm's own packages (deploy/helm/tool): lint, what it renders compared with what is committed, what its schema refuses, and
# the configuration that it renders by `weir check`. WEIR_UPDATE=1 writes the committed renderings again.
source "$(dirname "$0")/../suite.sh"
suite=chart
source "$root/scripts/lib-services.sh"
tool=$(need_chart_tool)
need openssl
need_weir
chart=deploy/helm/weir tests=deploy/helm/tests

render() { "$tool" template "$chart" "$1"; }

# same_as_committed VALUES RENDERED: dashboards are compared by their own suite, and are left out.
same_as_committed() {
  render "$1" | python3 deploy/helm/normal.py >"$tmp/rendered.yaml" || return 1
  [ -z "${WEIR_UPDATE:-}" ] || cp "$tmp/rendered.yaml" "$2"
  diff -u "$2" "$tmp/rendered.yaml"
}

# valid_configuration VALUES: the configuration of the ConfigMap is one that Weir starts with, with listeners and routes that objects may say.
valid_configuration() {
  render "$1" | python3 deploy/helm/normal.py --configuration >"$tmp/weir.yaml" || return 1
  ! grep -q '^mode: gateway$' "$1" || printf '%s\n' 'listen: 127.0.0.1:20000' 'routes: [{match: {path: /*}, respond: {status: 404}}]' >>"$tmp/weir.yaml"
  sed -i "s#/etc/weir-tls#$tmp/tls#" "$tmp/weir.yaml"
  GATEWAY_TOKEN=secret "$weir" check "$tmp/weir.yaml"
}

mkdir "$tmp/tls"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=shop -addext subjectAltName=DNS:shop.example.com \
  -keyout "$tmp/tls/tls.key" -out "$tmp/tls/tls.crt" 2>/dev/null

for values in "$tests"/*.values.yaml; do
  name=$(basename "$values" .values.yaml)
  one "$name-lint" "$tool" lint "$chart" "$values"
  one "$name-rendered" same_as_committed "$values" "$tests/$name.rendered.yaml"
  one "$name-configuration" valid_configuration "$values"
done
# What clouds need of the chart: the same, and the policy of deploy/helm/clouds.py. on_cloud CLOUD KEY=VALUE...: with these values too.
on_cloud() {
  local cloud=$1
  shift
  "$tool" template "$chart" "$chart/values-$cloud.yaml" "$@" >"$tmp/cloud.yaml" && python3 deploy/helm/clouds.py "$cloud" <"$tmp/cloud.yaml"
}
for cloud in aks eks gke; do
  values=$chart/values-$cloud.yaml
  one "$cloud-lint" "$tool" lint "$chart" "$values"
  one "$cloud-rendered" same_as_committed "$values" "$tests/$cloud.rendered.yaml"
  one "$cloud-configuration" valid_configuration "$values"
  one "$cloud-policy" on_cloud "$cloud"
done
# The policy sees what is wrong.
while read -r cloud says given; do
  # shellcheck disable=SC2086 # words of an option
  one "$cloud-finds-$says" refused "$(tr _ ' ' <<<"$says")" on_cloud "$cloud" $given
done <<'FOUND'
eks knows_the_annotation service.annotations.service\.beta\.kubernetes\.io/aws-load-balancer-shceme=internal
aks knows_the_annotation service.annotations.service\.beta\.kubernetes\.io/aws-load-balancer-scheme=internal
eks a_listener_does_not_read_them config.listen[1]=0.0.0.0:8081
eks no_listener_at_the_port config.listen[1].bind=0.0.0.0:8082
eks no_listener_takes_PROXY_headers config.trusted_proxies=null
aks does_not_see_who_the_client_is service.externalTrafficPolicy=Cluster
gke has_no_load_balancer service.type=ClusterIP
gke may_need_24_s preStopSleep=5
aks may_run_on_nodes affinity=null
gke several_zones topologySpreadConstraints=null
gke more_than_one_pod_may_be_away pdb.enabled=false
aks fewer_than_3_pods hpa.minReplicas=2
aks a_limit_of_CPU resources.limits.cpu=1
eks standard_output config.access_log=null
aks the_service_account_has_no_annotation serviceAccount.annotations.azure\.workload\.identity/clientid=x
FOUND
# same_rules: the roles of the chart allow what deploy/kubernetes/rbac.yaml does.
same_rules() {
  render "$tests/gateway.values.yaml" | python3 deploy/helm/normal.py --rules | sed 's/shop-weir/weir/' >"$tmp/chart.rules"
  python3 deploy/helm/normal.py --rules <deploy/kubernetes/rbac.yaml | diff -u - "$tmp/chart.rules"
}
one same-rules-as-rbac same_rules
# rendered VALUES WORDS KEY=VALUE...: what is rendered has these words in one line, with the values of the file and these.
rendered() {
  local values=$1 words=$2
  shift 2
  "$tool" template "$chart" "$values" "$@" >"$tmp/out.yaml" || return 1
  grep -qF -- "$words" "$tmp/out.yaml" || { say "nothing rendered has: $words"; return 1; }
}
while read -r grace given; do
  # shellcheck disable=SC2086 # words of an option
  one "grace-$grace" rendered "$tests/defaults.values.yaml" "terminationGracePeriodSeconds: $grace" $given
done <<'GRACE'
45 config.server.drain=30s
75 config.server.drain=1m
17 config.server.drain=1500ms
7215 config.server.drain=2h
60 config.server.drain=30s config.server.drain_delay=15s
40 preStopSleep=0
36 terminationGracePeriodSeconds=36
90 config.server.drain=none terminationGracePeriodSeconds=90
GRACE
# With nobody named, no rule of the NetworkPolicy lets anybody but the node reach the admin listener.
admin_is_closed() {
  "$tool" template "$chart" "$tests/$1.values.yaml" networkPolicy.enabled=true | sed -n '/^kind: NetworkPolicy$/,/^---$/p' >"$tmp/policy"
  grep -q "$2" "$tmp/policy" && ! grep -q 9901 "$tmp/policy"
}
one admin-is-closed admin_is_closed defaults 8080
one admin-is-closed-gateway admin_is_closed gateway 'port: 20000, endPort: 65535'
# The files that are rendered are those of deploy/.
one rules-are-current diff deploy/prometheus/rules.yaml "$chart/files/rules.yaml"
for dashboard in deploy/grafana/weir-*.json; do
  one "$(basename "$dashboard" .json)-is-current" diff -q "$dashboard" "$chart/files/$(basename "$dashboard")"
done
while read -r says given; do
  # shellcheck disable=SC2086 # words of an option
  one "refuses-$says" refused "$(tr _ ' ' <<<"$says")" "$tool" template "$chart" "$tests/defaults.values.yaml" $given
done <<'REFUSED'
replicas replicas=0
targetPort service.ports[0].targetPort=80
digest image.digest=sha256:abc
replica replica=3
loadBalancerSourceRanges service.loadBalancerSourceRanges[0]=203.0.113.7
serviceAccount serviceAccount.name=default
config.admin_is_set_by_the_chart config.admin=0.0.0.0:1
mode mode=ingress
terminationGracePeriodSeconds_has_to_be_above_35 terminationGracePeriodSeconds=35
set_terminationGracePeriodSeconds config.server.drain=none
gateway.settings.listen_is_what mode=gateway gateway.settings.listen=0.0.0.0:1
gateway.settings.admin_is_set_by_the_chart mode=gateway gateway.settings.admin=0.0.0.0:1
admin.port_has_to_be_below mode=gateway admin.port=20000
redis.url_has_no_effect mode=gateway redis.url=redis://a:1
serviceType gateway.serviceType=ExternalName
controller gateway.controller=weir
REFUSED
count_line "$passed" "$failed" "$skipped"
exit "$code"
