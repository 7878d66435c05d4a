#!/usr/bin/env bash
# Of `make conformance` the suite that takes seconds.
exec "$(dirname "$0")/conformance/10-h2spec.sh"
