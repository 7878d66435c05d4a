#!/usr/bin/env bash
# The Terraform modules: form and syntax, each argument against the providers' schemas, and the policy; no provider, no cloud.
source "$(dirname "$0")/../lib.sh"
need_program go "Go 1.26 or newer builds the check of Terraform modules: https://go.dev/doc/install"
tofu=$(find_tofu)
(
  cd deploy/terraform/check
  go test ./...
  go run . modules schema.json ../*/weir ../*/gauge ../azure/container-apps ../aws/fargate ../gcp/cloud-run ../config
)
# What the modules compute of a configuration, in the language itself: it needs no provider.
if [ -n "$tofu" ]; then
  tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
  cp deploy/terraform/config/* "$tmp"
  (cd "$tmp" && "$tofu" init -no-color >/dev/null && "$tofu" test -no-color)
else
  say "deploy/terraform/config: not tested, because neither tofu nor terraform is here (scripts/gauge-machines builds one)"
fi
