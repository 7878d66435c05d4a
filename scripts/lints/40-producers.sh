#!/usr/bin/env bash
# The event-ingestion services: gofmt and go vet, ruff for the Python around them. Java is compiled with all warnings on.
source "$(dirname "$0")/../lib.sh"
here=$root/services/producer
need_program go "Go 1.26 or newer builds two of the services."
unformatted=$(cd "$here" && gofmt -l .)
[ -z "$unformatted" ] || die "gofmt would change: $unformatted"
(cd "$here" && go vet ./...)
python=$(need_venv producers-lint "$here/contract/requirements-lint.txt")/bin/python
"$python" -m ruff check "$here" "$root/scripts/producers"
"$python" -m ruff format --check "$here" "$root/scripts/producers"
