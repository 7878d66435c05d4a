# shellcheck shell=bash
# Sourced by every script, suite and lint: it finds what is needed, installs it where that is allowed, or says how to install it.
# Installing is allowed for root and for CI=true. Works with bash 3.2, which macOS has.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Downloads, which all clones share; and what is built from this clone, which is its own.
export WEIR_CACHE=${WEIR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export WEIR_BUILD=${WEIR_BUILD:-$root/target/other}
mkdir -p "$WEIR_CACHE" "$WEIR_BUILD"
# One set of flags for all that is built with Go, that of the images: what two scripts build is compiled once.
export GOFLAGS=${GOFLAGS--trimpath} CGO_ENABLED=${CGO_ENABLED-0}
# Debian and Ubuntu keep servers where an ordinary user's PATH does not look.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
cd "$root"

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
may_install() { [ "$(id -u)" = 0 ] || [ "${CI:-}" = true ]; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# need_program NAME HINT: NAME must be on PATH.
need_program() { command -v "$1" >/dev/null || die "'$1' is not installed. $2"; }

# packages_for NAME: the packages of Debian and Ubuntu that have what `need` calls NAME; the first that can be installed is taken.
packages_for() {
  case $1 in
    chromium) echo chromium chromium-browser ;;
    dpkg-shlibdeps) echo dpkg-dev ;;
    fonts) echo fonts-dejavu-core ;;
    g++ | haproxy | hey | lintian | maven | prometheus | strace | tidy | valgrind | varnish | wrk | curl | openssl | binutils) echo "$1" ;;
    java) echo default-jre-headless openjdk-21-jre-headless openjdk-17-jre-headless ;;
    jdk) echo default-jdk-headless openjdk-21-jdk-headless openjdk-17-jdk-headless ;;
    mvn) echo maven ;;
    nghttp | h2load) echo nghttp2-client ;;
    nghttpd) echo nghttp2-server ;;
    nginx) echo nginx-light nginx-core nginx ;;
    postgres) echo postgresql ;;
    ps) echo procps ;;
    redis-server) echo redis-server ;;
    shellcheck) echo shellcheck ;;
    ssh) echo openssh-client ;;
    sshd) echo openssh-server ;;
    systemd-analyze) echo systemd ;;
    testssl) echo testssl.sh ;;
    *) die "packages_for knows no '$1'" ;;
  esac
}

# find_program NAME: the path of what `need` calls NAME; fails when it is missing or too old.
find_program() {
  local path
  case $1 in
    chromium)
      for path in chromium chromium-browser google-chrome-stable google-chrome "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        command -v "$path" && return 0
      done
      return 1
      ;;
    fonts) fc-list 2>/dev/null | grep -m 1 . || ls /System/Library/Fonts 2>/dev/null ;;
    # /usr/bin/java is there on every macOS, and does nothing where Java is not installed.
    java) java -version >/dev/null 2>&1 && command -v java ;;
    jdk) javac -version 2>&1 | grep -qE '^javac (1[7-9]|[2-9][0-9])' && command -v javac ;;
    binutils) command -v objdump ;;
    openssl | curl | wrk | hey | mvn | tidy | strace | valgrind | haproxy | nginx | redis-server | shellcheck | ps | ssh | sshd | g++ | nghttp | h2load | nghttpd | testssl | lintian | dpkg-shlibdeps | systemd-analyze) command -v "$1" ;;
    prometheus) command -v promtool && command -v prometheus ;;
    varnish) command -v varnishd ;;
    postgres) find_postgres ;;
    *) return 1 ;;
  esac
}

# find_postgres: the folder of the newest PostgreSQL server's programs that is version 15 or newer.
find_postgres() {
  local dir version best=0 found=
  for dir in /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin "$(dirname "$(command -v pg_ctl || true)")"; do
    version=$("$dir/postgres" --version 2>/dev/null | sed -nE 's/^postgres \(PostgreSQL\) ([0-9]+).*/\1/p') || true
    if [ "${version:-0}" -ge 15 ] && [ "$version" -gt "$best" ]; then best=$version found=$dir; fi
  done
  [ -n "$found" ] && printf '%s\n' "$found"
}

# need NAME...: programs that must be here, by any package or none; what is missing is installed where that is allowed.
need() {
  local name missing=()
  for name in "$@"; do find_program "$name" >/dev/null || missing+=("$name"); done
  [ ${#missing[@]} = 0 ] && return 0
  if ! may_install; then
    local packages=()
    for name in "${missing[@]}"; do packages+=("$(packages_for "$name" | cut -d' ' -f1)"); done
    die "missing: ${missing[*]}. On Debian and Ubuntu: sudo apt-get install ${packages[*]}"
  fi
  command -v apt-get >/dev/null || die "missing: ${missing[*]}, and this machine has no apt-get. Install them by hand."
  for name in "${missing[@]}"; do
    say "installing $name"
    install_one "$name" || { tail -n 20 "$WEIR_CACHE/apt.log" >&2; die "apt-get could not install $name (log: $WEIR_CACHE/apt.log)"; }
    find_program "$name" >/dev/null || die "$name is still missing, or too old, after the installation of: $(packages_for "$name")"
  done
}

# install_one NAME: by the first of its packages that works, before and after an update of the lists.
install_one() {
  # A lock held by the machine's own updates is waited for; services are not started, tests start their own.
  local package apt=(as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o DPkg::Lock::Timeout=300)
  : >"$WEIR_CACHE/apt.log"
  for package in $(packages_for "$1"); do
    "${apt[@]}" install -y --no-install-recommends "$package" >>"$WEIR_CACHE/apt.log" 2>&1 && return 0
  done
  "${apt[@]}" update >>"$WEIR_CACHE/apt.log" 2>&1 || true
  for package in $(packages_for "$1"); do
    "${apt[@]}" install -y --no-install-recommends "$package" >>"$WEIR_CACHE/apt.log" 2>&1 && return 0
  done
  return 1
}

# checksum FILE: its SHA-256.
checksum() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -c1-64; }

# scrub_environment: unsets every variable that is not for finding programs or for downloads. A test must not find the database, the
# server, the locale or the settings of whoever runs it.
scrub_environment() {
  local name
  for name in $(compgen -e); do
    case $name in
      STRICT | SUITE_PROFILE | WEIR_UPDATE | PAGES_LONG | PATH | HOME | USER | LOGNAME | SHELL | TERM | PWD | OLDPWD | SHLVL | _ | TMPDIR | CI | GITHUB_ACTIONS | RUNNER_* | XDG_CACHE_HOME) ;;
      RUST_LOG) unset "$name" ;;
      WEIR_CACHE | WEIR_BUILD | CARGO | CARGO_* | RUST* | GO* | CGO_* | CC | CXX | CFLAGS | LDFLAGS | SDKROOT | PKG_CONFIG* | NIX_*) ;;
      NPM_* | npm_* | NODE_EXTRA_CA_CERTS | PIP_* | UV_* | PYENV_* | JAVA_HOME | MAVEN_* | GAUGE_* | PROPTEST_*) ;;
      SSL_CERT_* | CURL_CA_BUNDLE | REQUESTS_CA_BUNDLE | *_proxy | *_PROXY) ;;
      *) unset "$name" ;;
    esac
  done
  # A proxy is for downloads: what tests start is on this machine.
  export no_proxy=127.0.0.1,localhost,::1 NO_PROXY=127.0.0.1,localhost,::1
  case $(uname) in Darwin) export LC_ALL=en_US.UTF-8 ;; *) export LC_ALL=C.UTF-8 ;; esac
}

# need_venv NAME REQUIREMENTS: a Python environment in the cache with exactly the pinned packages of the file; prints its path. Clones
# that pin other packages have another.
need_venv() {
  local venv stamp want
  need_program python3 "Python 3.11 or newer runs this part of the tests."
  want=$(checksum "$2")-$(python3 -c 'import sys; print(*sys.version_info[:2], sep=".")')
  venv=$WEIR_CACHE/venv-$1-$(cut -c1-12 <<<"$want")
  stamp=$venv/.weir-stamp
  if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv" >&2 || die "python3 cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r "$2" >&2 || die "pip could not install $2"
    printf '%s' "$want" >"$stamp"
  fi
  printf '%s\n' "$venv"
}

# need_npm DIR: node_modules of DIR from its lock file.
need_npm() {
  need_program node "Node.js 20 or newer runs this part of the tests."
  local want; want=$(checksum "$1/package-lock.json")
  [ "$(cat "$1/node_modules/.weir-stamp" 2>/dev/null)" = "$want" ] && return 0
  (cd "$1" && npm ci --silent --no-audit --no-fund >&2) || die "npm ci failed in $1"
  printf '%s' "$want" >"$1/node_modules/.weir-stamp"
}

# need_cargo_tool NAME VERSION [OPTION...]: a cargo subcommand or program from crates.io, built once into the cache, with options of cargo install.
need_cargo_tool() {
  local dir=$WEIR_CACHE/tools
  export PATH=$dir/bin:$PATH
  [ -e "$dir/.$1-$2" ] && return 0
  say "building $1 $2 (once)"
  # Without optimisation: a tool runs for seconds, and is built on every machine that lints for the first time.
  CARGO_TARGET_DIR=$WEIR_CACHE/target-tools CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked --root "$dir" --version "$2" "${@:3}" "$1" ||
    die "cargo install $1 $2 failed"
  touch "$dir/.$1-$2"
  rm -rf "$WEIR_CACHE/target-tools"
}

# need_chart_tool: prints the path of the reader of Helm charts, deploy/helm/tool, built once into the cache.
need_chart_tool() {
  local tool
  need_program go "Go 1.26 or newer builds the reader of charts."
  tool=$WEIR_CACHE/tools/chart-$(cat deploy/helm/tool/main.go deploy/helm/tool/go.sum | checksum /dev/stdin | cut -c1-12)
  if [ ! -x "$tool" ]; then
    say "building the reader of charts (once)" >&2
    mkdir -p "$WEIR_CACHE/tools"
    (cd deploy/helm/tool && CGO_ENABLED=0 go build -mod=readonly -trimpath -o "$tool.part" .) >&2 || die "deploy/helm/tool does not build"
    mv "$tool.part" "$tool"
  fi
  printf '%s\n' "$tool"
}

# need_terraform_provider: prints the path of the provider without a cloud, deploy/terraform/provider, built once into the cache.
need_terraform_provider() {
  local tool
  need_program go "Go 1.26 or newer builds the provider of the modules' plans."
  tool=$WEIR_CACHE/tools/terraform-provider-$(cat deploy/terraform/provider/main.go deploy/terraform/provider/go.sum | checksum /dev/stdin | cut -c1-12)
  if [ ! -x "$tool" ]; then
    say "building the provider of the modules' plans (once)" >&2
    mkdir -p "$WEIR_CACHE/tools"
    (cd deploy/terraform/provider && CGO_ENABLED=0 go build -mod=readonly -trimpath -o "$tool.part" .) >&2 || die "deploy/terraform/provider does not build"
    mv "$tool.part" "$tool"
  fi
  printf '%s\n' "$tool"
}

# tofu_folder: where OpenTofu is once `scripts/gauge-machines` has built it.
tofu_folder() { printf '%s\n' "$WEIR_CACHE/tools/tofu-$(cat deploy/terraform/tofu/go.mod deploy/terraform/tofu/go.sum | checksum /dev/stdin | cut -c1-12)"; }

# find_tofu: prints the path of OpenTofu or Terraform, or nothing where there is none.
find_tofu() { PATH=$(tofu_folder):$PATH command -v tofu || command -v terraform || true; }

# need_go_programs DIR PACKAGE...: programs of other modules, as the module in DIR pins them, or the programs of that module itself; built once
# for each state of the module into the cache. Their folder is then in $go_programs.
need_go_programs() {
  local dir=$1 package missing=()
  shift
  need_program go "Go 1.26 or newer builds this part of the tests: https://go.dev/doc/install"
  go_programs=$WEIR_CACHE/tools/$(basename "$dir")-$(find "$dir" -maxdepth 1 -type f | sort | xargs cat | checksum /dev/stdin | cut -c1-12)
  mkdir -p "$go_programs"
  for package in "$@"; do [ -x "$go_programs/$(basename "$package")" ] || missing+=("$package"); done
  [ ${#missing[@]} = 0 ] && return 0
  say "building ${missing[*]} (once)"
  for package in "${missing[@]}"; do
    (cd "$dir" && go build -mod=readonly -o "$go_programs/$(basename "$package").part" "$package") || die "$package does not build in $dir"
    mv "$go_programs/$(basename "$package").part" "$go_programs/$(basename "$package")"
  done
}

# need_built NAME...: programs of the workspace, in $CARGO_TARGET_DIR/debug, as `cargo test --workspace` builds them. For one package, or
# without a target that uses dev-dependencies (the example), cargo would choose other features of what all depend on, and build that again.
need_built() {
  local name flags=()
  for name in "$@"; do flags+=(--bin "$name"); done
  cargo build --quiet --locked --workspace "${flags[@]}" --example describe || die "these do not build: $*"
}

# need_weir: the gateway; its path is then in $weir. SUITE_PROFILE=dist takes the build that is shipped, for suites whose figures depend on it.
need_weir() {
  if [ "${SUITE_PROFILE:-dev}" = dev ]; then
    need_built weir
    weir=$CARGO_TARGET_DIR/debug/weir
  else
    # Together with gauge, as `scripts/bench` builds it, so that neither undoes the other's work.
    cargo build --quiet --locked --profile "$SUITE_PROFILE" -p weir -p gauge || die "weir does not build with the profile $SUITE_PROFILE"
    weir=$CARGO_TARGET_DIR/$SUITE_PROFILE/weir
  fi
}

# count_line PASSED FAILED [SKIPPED]: the closing line of a suite; scripts/test adds them up.
count_line() { printf '%d passed, %d failed, %d skipped\n' "$1" "$2" "${3:-0}"; }
