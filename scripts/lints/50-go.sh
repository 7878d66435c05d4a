#!/usr/bin/env bash
# Every Go module of the repository: gofmt, go vet, and go.mod and go.sum as `go mod tidy` would write them. A module without
# packages only pins programs that are built from it: to tidy it would fetch all of Kubernetes, and its build refuses a go.sum that lacks something.
source "$(dirname "$0")/../lib.sh"
need_program go "Go 1.26 or newer: https://go.dev/doc/install"
bad=0
unformatted=$(git ls-files -co --exclude-standard -z -- '*.go' | xargs -0r gofmt -l)
[ -z "$unformatted" ] || { printf 'not formatted (gofmt -w FILE):\n%s\n' "$unformatted"; bad=1; }
while read -r module; do
  listed=$(cd "$(dirname "$module")" && go list ./... 2>&1) || { printf '%s\n' "$listed"; bad=1; }
  [[ "$listed" != *"matched no packages"* ]] || continue
  (cd "$(dirname "$module")" && go vet ./... && go mod tidy -diff) || { say "in $(dirname "$module")"; bad=1; }
done < <(git ls-files -co --exclude-standard -- 'go.mod' '*/go.mod')
exit "$bad"
