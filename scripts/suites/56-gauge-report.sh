#!/usr/bin/env bash
# The report of a made-up campaign in a real browser: it loads nothing, logs no error, shows its charts, in light and dark; and it is valid HTML.
source "$(dirname "$0")/../suite.sh"
need chromium tidy fonts
chromium=$(find_program chromium)
shots=$WEIR_BUILD/screenshots; mkdir -p "$shots"
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
check() { # NAME COMMAND...
  local name=$1; shift
  if "$@" >"$tmp/said" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); say "FAILED $name"; head -n 20 "$tmp/said"; fi
}

need_built gauge
cargo build --quiet --locked --workspace --example made_up_campaign || die "the made-up campaign does not build"
"$CARGO_TARGET_DIR/debug/examples/made_up_campaign" "$tmp/campaign"
"$CARGO_TARGET_DIR/debug/gauge" recompute "$tmp/campaign"
page=file://$tmp/campaign/report.html

# browse LOG FLAG...: what the page says on its console goes to the log.
browse() {
  local log=$1; shift
  timeout 120 "$chromium" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$tmp/profile" \
    --host-resolver-rules='MAP * ~NOTFOUND' --enable-logging=stderr --log-level=0 "$@" "$page" 2>"$log"
}
browse "$tmp/dom.log" --dump-dom >"$tmp/dom.html" || die "the browser does not start: $(tail -n 5 "$tmp/dom.log")"
count() { grep -oE "$1" "$tmp/dom.html" | wc -l; }
at_least() { [ "$(count "$1")" -ge "$2" ] || { say "$(count "$1") of $1, not $2"; return 1; }; }
none() { [ "$(count "$1")" = 0 ] || { grep -oE "$1.{0,80}" "$tmp/dom.html" | head; return 1; }; }
check 'the script ran: the button has its name' at_least '<button type="button" id="theme">(Light|Dark)</button>' 1
check 'charts' at_least '<svg ' 10
check 'every chart says what it is' at_least '<svg viewBox="[^"]*" role="img" aria-label="[^"]' "$(count '<svg ')"
check 'marks in the charts' at_least 'class="mark"' 200
check 'score cards' at_least '<li class="card ' 5
check 'no address in an attribute' none '(src|href|action|srcset)="(https?:)?//'
check 'nothing is loaded by style' none '(url\(|@import)'
check 'no figure that is none' none '(NaN|undefined|[^a-z]inf[^a-z])'
not_in_log() { ! grep -E 'CONSOLE|Refused to|net::ERR' "$tmp/dom.log"; }
check 'the console is silent' not_in_log

# A browser that is requested dark pages shows one, and both can be looked at.
shot() { # NAME FLAG...
  local name=$1; shift
  browse "$tmp/$name.log" --window-size=1280,9000 --screenshot="$shots/gauge-report-$name.png" "$@" && [ "$(stat -c %s "$shots/gauge-report-$name.png")" -gt 100000 ]
}
check 'light' shot light
check 'dark' shot dark --blink-settings=preferredColorScheme=0
check 'narrow' shot narrow --window-size=420,9000
differ() { ! cmp -s "$shots/gauge-report-light.png" "$shots/gauge-report-dark.png"; }
check 'light and dark differ' differ
valid() {
  # Its exit code says less than its words do.
  tidy -errors -quiet --drop-empty-elements no --mute-id yes "$tmp/campaign/report.html" >"$tmp/tidy" 2>&1 || true
  ! grep -E 'Error|Warning' "$tmp/tidy"
}
check 'valid HTML' valid
say "screenshots: $shots/gauge-report-*.png"
count_line "$passed" "$failed"
[ "$failed" = 0 ]
