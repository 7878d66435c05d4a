#!/usr/bin/env bash
# Of `make conformance` the translation suite, with an eighth of its cases.
exec "$(dirname "$0")/conformance/70-translation.sh" --cases 500
