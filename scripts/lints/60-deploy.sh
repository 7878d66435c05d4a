#!/usr/bin/env bash
# Dockerfiles by hadolint, the compose file by the library that Docker Compose reads it with, and both by deploy/check.
source "$(dirname "$0")/../lib.sh"
need_program go "Go 1.26 or newer builds the reader of compose files: https://go.dev/doc/install"
need_program python3 "Python 3.11 or newer."
hadolint=$(need_venv hadolint deploy/check/requirements.txt)/bin/hadolint
# renovate: datasource=go depName=github.com/compose-spec/compose-go/v2
compose_version=v2.16.2
compose=$WEIR_CACHE/tools/compose-go-$compose_version
if [ ! -x "$compose" ]; then
  (cd / && GOBIN=$WEIR_CACHE/tools/compose-go go install "github.com/compose-spec/compose-go/v2/cmd@$compose_version")
  mv "$WEIR_CACHE/tools/compose-go/cmd" "$compose"
fi
bad=0
git ls-files -co --exclude-standard -z -- '*Dockerfile' | xargs -0 "$hadolint" --no-color --failure-threshold info || bad=1
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
model=$tmp/model.json
COMPOSE_PROFILES='*' "$compose" --format json compose.yaml >"$model" || die "compose.yaml cannot be loaded"
python3 deploy/check/check.py "$model" || bad=1

# The build commands, each in a copy of what its build would be sent. Of Rust only that the workspace is whole: the suites build it.
for service in auction calculator gateway-fiber limiter-fiber; do
  python3 deploy/check/check.py --copy "services/$service/Dockerfile" services "$tmp/$service"
  (cd "$tmp/$service" && CGO_ENABLED=0 go build -trimpath -ldflags=-s -o "$tmp/program" "./$service") || { say "services/$service does not build in its context"; bad=1; }
done
python3 deploy/check/check.py --copy deploy/weir/Dockerfile . "$tmp/weir"
(cd "$tmp/weir" && cargo metadata --quiet --locked --format-version 1 >/dev/null) || { say "the workspace is not whole in the context of deploy/weir/Dockerfile"; bad=1; }
exit "$bad"
