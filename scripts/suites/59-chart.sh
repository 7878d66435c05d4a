#!/usr/bin/env bash
# The Helm chart by Helm's own packages (deploy/helm/tool): lint, what it renders compared with what is committed, what its schema refuses, and
# the configuration that it renders by `weir check`. WEIR_UPDATE=1 writes the committed renderings again.
source "$(dirname "$0")/../suite.sh"
suite=chart
source "$root/scripts/lib-services.sh"
need_program go "Go 1.26 or newer builds the reader of charts."
tool=$WEIR_CACHE/tools/chart-$(cat deploy/helm/tool/main.go deploy/helm/tool/go.sum | checksum /dev/stdin | cut -c1-12)
if [ ! -x "$tool" ]; then
  say "building the reader of charts (once)"
  mkdir -p "$WEIR_CACHE/tools"
  (cd deploy/helm/tool && CGO_ENABLED=0 go build -mod=readonly -trimpath -o "$tool.part" .) || die "deploy/helm/tool does not build"
  mv "$tool.part" "$tool"
fi
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

# valid_configuration VALUES: the configuration of the ConfigMap is one that Weir starts with.
valid_configuration() {
  render "$1" | python3 deploy/helm/normal.py --configuration >"$tmp/weir.yaml" || return 1
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
config.admin_is_set_by_the_chart config.admin=0.0.0.0:1
mode mode=ingress
REFUSED
count_line "$passed" "$failed" "$skipped"
exit "$code"
