#!/usr/bin/env bash
# The Terraform modules: form and syntax, each argument against the providers' schemas, and the policy; no provider, no cloud.
source "$(dirname "$0")/../lib.sh"
need_program go "Go 1.26 or newer builds the check of Terraform modules: https://go.dev/doc/install"
need_program python3 "Python 3.11 or newer."
tofu=$(find_tofu)
(
  cd deploy/terraform/check
  go test ./...
  go run . modules schema.json ../*/weir ../*/gauge ../azure/container-apps ../aws/fargate ../gcp/cloud-run ../config
)
# What the modules compute of a configuration, what their variables refuse, and what they plan, in the language itself; no real provider.
if [ -n "$tofu" ]; then
  "$tofu" -chdir=deploy/terraform/config test -no-color
  python3 deploy/terraform/check/variables.py "$tofu"
  provider=$(need_terraform_provider)
  python3 deploy/terraform/check/plan.py "$tofu" "$provider"
else
  say "not run, because neither tofu nor terraform is here: tests of deploy/terraform/config, of variables and of plans (scripts/gauge-machines builds OpenTofu)"
fi
