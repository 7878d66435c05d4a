# shellcheck shell=bash
# Sourced by every suite: lib.sh, without the environment of whoever runs the tests.
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
scrub_environment
logs=$WEIR_BUILD/logs
mkdir -p "$logs"
