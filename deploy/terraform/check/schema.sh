#!/usr/bin/env bash
# Writes schema.json anew, from the pinned packages of TypeScript declarations that were generated from the providers' own schemas.
# For a resource that the modules did not use before. About 100 MB of downloads.
source "$(dirname "$0")/../../../scripts/lib.sh"
need_program go "Go 1.26 or newer: https://go.dev/doc/install"
need_program npm "Node.js 20 or newer: https://nodejs.org"
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
folders=()
for package in azurerm@14.23.1 aws@21.22.1 google@16.12.1; do
  archive=$(npm pack --silent --pack-destination "$tmp" "@cdktf/provider-$package")
  mkdir "$tmp/$package"
  tar -xzf "$tmp/$archive" -C "$tmp/$package"
  folders+=("$tmp/$package/package")
done
types=$(cat deploy/terraform/*/*/*.tf | sed -nE 's/^resource "([a-z0-9_]+)".*/\1/p' | sort -u | paste -sd, -)
cd deploy/terraform/check
go run . types "$types" "${folders[@]}" >"$tmp/schema.json"
mv "$tmp/schema.json" schema.json
