#!/usr/bin/env bash
# The Go of the event-ingestion services: gofmt and go vet. Java is compiled with all its warnings on.
source "$(dirname "$0")/../lib.sh"
need_program go "Go 1.26 or newer builds two of the event-ingestion services."
cd services/producer
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || die "gofmt would change: $unformatted"
go vet ./...
