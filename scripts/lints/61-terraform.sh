#!/usr/bin/env bash
# The Terraform modules: form and syntax, each argument against the providers' schemas, and the network policy; no provider, no cloud.
source "$(dirname "$0")/../lib.sh"
need_program go "Go 1.26 or newer builds the check of Terraform modules: https://go.dev/doc/install"
cd deploy/terraform/check
go test ./...
go run . modules schema.json ../*/weir ../*/gauge
