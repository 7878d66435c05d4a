#!/bin/sh
# The wrk lines of the comparison "gateway against direct", with the same path through Weir. Start the services first: make services.
# `scripts/bench direct` makes a table of the same, pinned, in rounds, with CPU time.
set -e
threads=${THREADS:-6} connections=${CONNECTIONS:-200} duration=${DURATION:-30s}
fiber=${FIBER_URL:-http://127.0.0.1:5000} weir=${WEIR_URL:-http://127.0.0.1:8090}
auth=${AUTH_URL:-http://127.0.0.1:5002} messages=${MESSAGES_URL:-http://127.0.0.1:5001}
bad=0
row() {
  echo "== $1: wrk -t$threads -c$connections -d$duration $2"
  said=$(wrk "-t$threads" "-c$connections" "-d$duration" --latency "$2") || { echo "$said"; exit 1; }
  echo "$said"
  case $said in *Non-2xx* | *"Socket errors"*) bad=1; echo "NOT VALID: not every response was a 2xx" >&2 ;; esac
}
row "auth through Fiber" "$fiber/api/auth/sample"
row "auth through Weir" "$weir/api/auth/sample"
row "auth direct" "$auth/api/auth/sample"
row "Fiber's own response" "$fiber/gates"
row "Weir's own response" "$weir/gates"
row "messages direct" "$messages/api/messages/sample"
exit $bad
