# Sourced by every suite and lint: what is needed is found, installed where that is allowed, or asked for.
# Installing is allowed for root and for CI=true; anyone else gets a message that names the command.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export WEIR_CACHE=${WEIR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$WEIR_CACHE/target}
mkdir -p "$WEIR_CACHE"
cd "$root"

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
may_install() { [ "$(id -u)" = 0 ] || [ "${CI:-}" = true ]; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# need_program NAME HINT: NAME must be on PATH.
need_program() { command -v "$1" >/dev/null || die "'$1' is not installed. $2"; }

# need_apt PACKAGE...: Debian packages, from the release that this machine runs.
need_apt() {
  local missing=() p
  for p in "$@"; do dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p"); done
  [ ${#missing[@]} = 0 ] && return 0
  may_install || die "missing packages: ${missing[*]}. Install them with: sudo apt-get install ${missing[*]}"
  command -v apt-get >/dev/null || die "missing: ${missing[*]}, and this machine has no apt-get. Install them by hand."
  say "installing ${missing[*]}"
  (
    flock 9
    # A lock held by the machine's own updates is waited for; services are not started, tests start their own.
    local apt=(as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o DPkg::Lock::Timeout=300)
    if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >"$WEIR_CACHE/apt.log" 2>&1; then
      "${apt[@]}" update >>"$WEIR_CACHE/apt.log" 2>&1 || true
      "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$WEIR_CACHE/apt.log" 2>&1 ||
        { tail -n 20 "$WEIR_CACHE/apt.log" >&2; die "apt-get could not install: ${missing[*]} (log: $WEIR_CACHE/apt.log)"; }
    fi
  ) 9>"$WEIR_CACHE/apt.lock"
}

# need_venv NAME REQUIREMENTS: a Python environment in the cache with exactly the pinned packages of the file; prints its path.
need_venv() {
  local venv=$WEIR_CACHE/venv-$1 stamp want
  need_program python3 "Python 3.11 or newer runs this part of the tests."
  want=$(sha256sum "$2" | cut -c1-64)-$(python3 -c 'import sys; print(sys.version_info[:2])')
  stamp=$venv/.weir-stamp
  if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv" >&2 || die "python3 cannot make a virtual environment. On Debian: apt-get install python3-venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r "$2" >&2 || die "pip could not install $2"
    printf '%s' "$want" >"$stamp"
  fi
  printf '%s\n' "$venv"
}

# need_npm DIR: node_modules of DIR from its lock file.
need_npm() {
  need_program node "Node.js 20 or newer runs this part of the tests."
  local want; want=$(sha256sum "$1/package-lock.json" | cut -c1-64)
  [ "$(cat "$1/node_modules/.weir-stamp" 2>/dev/null)" = "$want" ] && return 0
  (cd "$1" && npm ci --silent --no-audit --no-fund >&2) || die "npm ci failed in $1"
  printf '%s' "$want" >"$1/node_modules/.weir-stamp"
}

# need_cargo_tool NAME VERSION: a cargo subcommand or program from crates.io, built once into the cache.
need_cargo_tool() {
  local dir=$WEIR_CACHE/tools
  export PATH=$dir/bin:$PATH
  [ -e "$dir/.$1-$2" ] && return 0
  say "building $1 $2 (once)"
  CARGO_TARGET_DIR=$WEIR_CACHE/target-tools cargo install --quiet --locked --root "$dir" --version "$2" "$1" || die "cargo install $1 $2 failed"
  touch "$dir/.$1-$2"
}

# need_weir: the gateway as the suite 10-rust builds it; the path is then in $weir. Built only when a source is newer: for one crate cargo
# would choose other features of what it depends on, and build that again.
need_weir() {
  weir=$CARGO_TARGET_DIR/debug/weir
  if [ -x "$weir" ] && [ -z "$(sed -E 's/^[^:]*: //; s/([^\\]) /\1\n/g' "$weir.d" | xargs -r -d '\n' sh -c 'find "$@" Cargo.lock -newer "$0" 2>&1' "$weir")" ] &&
    grep -q " $root/crates/weir/src/main.rs" "$weir.d"; then return 0; fi
  say "building weir"
  cargo build --quiet --locked -p weir || die "the gateway does not build"
}

# count_line PASSED FAILED [SKIPPED]: the closing line of a suite; scripts/test adds them up.
count_line() { printf '%d passed, %d failed, %d skipped\n' "$1" "$2" "${3:-0}"; }
