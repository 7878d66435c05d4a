# shellcheck shell=bash
# Sourced after suite.sh by suites that start services: they run in the background on free ports, and end with the suite.
tmp=$(mktemp -d)
started=()
stop_services() {
  local pid
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
  rm -rf "$tmp"
}
trap stop_services EXIT

# start NAME WHICH COMMAND...: in the background, on a free port (PORT=0); the address that it prints is then in $url, that which it prints
# followed by " (WHICH)" when WHICH is not empty.
start() {
  local name=$1 which=${2:+ \\($2\\)}
  shift 2
  PORT=0 "$@" >"$tmp/$name.out" 2>&1 &
  started+=($!)
  address "$name" "$which"
}

# another WHICH: the address of the service that was started last, for another of its ports.
another() { address "$last" " \\($1\\)"; }

address() {
  last=$1
  local out=$tmp/$1.out
  for _ in $(seq 600); do
    url=$(sed -nE "s/^listening on (https?:[^ ]+)$2\$/\\1/p" "$out" | head -n 1)
    [ -z "$url" ] || return 0
    kill -0 "$!" 2>/dev/null || break
    sleep 0.1
  done
  die "$1 did not start: $(tail -n 20 "$out")"
}

# start_redis: a Redis of our own, empty; its Unix socket is then in $redis, its port in $redis_port.
start_redis() {
  redis=$tmp/redis.sock
  # A port of the loopback interface that this shell's helper keeps bound, not listening: Redis may share it, no other process gets it.
  python3 -c 'import signal, socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
signal.pause()' >"$tmp/redis.port" &
  started+=($!)
  until [ -s "$tmp/redis.port" ]; do sleep 0.01; done
  redis_port=$(cat "$tmp/redis.port")
  redis-server --bind 127.0.0.1 --port "$redis_port" --unixsocket "$redis" --save '' --appendonly no --dir "$tmp" >"$tmp/redis.out" 2>&1 &
  started+=($!)
  for _ in $(seq 300); do
    if redis-cli -s "$redis" ping >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  die "redis-server did not start: $(cat "$tmp/redis.out")"
}

# step NAME COMMAND...: runs it and adds up what it counted: the lines of go test, TAP's and pytest's closing lines, and "N passed, N failed, N skipped".
# Cases that the contract suite leaves out through a gateway, by their tag, are not counted: they are meant for the service alone.
passed=0 failed=0 skipped=0 code=0
step() {
  # shellcheck disable=SC2154 # of suite.sh, and of the suite itself
  local name=$1 log=$logs/$suite-$1.log p f s bad=0
  shift
  say "-- $name"
  "$@" >"$log" 2>&1 || bad=1
  read -r p f s < <(awk '
    /^ *--- PASS/ {p++} /^ *--- FAIL/ {f++} /^ *--- SKIP/ {s++}
    /^[0-9]+ passed, [0-9]+ failed/ {p += $1; f += $3}
    /^# pass / {p += $3} /^# (fail|cancelled) / {f += $3} /^# skipped / {s += $3}
    /^(=+ )?[0-9]+ (passed|failed|error|skipped).* in [0-9.]+s/ {
      for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i-1); if ($i ~ /^(failed|error)/) f += $(i-1); if ($i ~ /^skipped/) s += $(i-1) }
    }
    END {print p + 0, f + 0, s + 0}' "$log")
  [ "$bad" = 0 ] || { grep -vE '^(passed|skipped) ' "$log" || true; code=1; [ "$f" -gt 0 ] || f=1; }
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  say "   $(count_line "$p" "$f" "$s")"
}

# one NAME COMMAND...: one test, which passes when the command does.
one() {
  # shellcheck disable=SC2154 # of suite.sh, and of the suite itself
  local name=$1 log=$logs/$suite-$1.log
  shift
  if "$@" >"$log" 2>&1; then
    say "-- $name: passed"
    passed=$((passed + 1))
  else
    say "-- $name: FAILED"
    cat "$log"
    failed=$((failed + 1)) code=1
  fi
}

# refused TEXT COMMAND...: succeeds when the command fails and says TEXT.
refused() {
  local text=$1 said
  shift
  if said=$("$@" 2>&1); then say "$said" "it should have failed"; return 1; fi
  grep -qF "$text" <<<"$said" || { say "$said" "it should have said: $text"; return 1; }
}

