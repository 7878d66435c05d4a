#!/usr/bin/env bash
# The Debian package, made of the programs of the tests: what is in it, what lintian and systemd-analyze say of it, that the installed configuration is one
# that Weir starts with, and that the same programs give the same package. It is not installed: that would change the machine.
source "$(dirname "$0")/../suite.sh"
suite=package
source "$root/scripts/lib-services.sh"
if ! command -v dpkg-deb >/dev/null; then
  say "skipped: dpkg-deb is not here, this machine makes no Debian packages"
  count_line 0 0 1
  exit 0
fi
need dpkg-shlibdeps lintian systemd-analyze
need_built weir gauge

package() { CARGO_TARGET_DIR=$tmp/$1 PROFILE=dev DEB_LEVEL=0 scripts/deb >"$tmp/$1.log" 2>&1 && tail -n 1 "$tmp/$1.log"; }
for build in first second; do
  # scripts/deb looks for the programs and writes the package below one folder.
  mkdir -p "$tmp/$build/debug"
  ln -s "$CARGO_TARGET_DIR/debug/weir" "$CARGO_TARGET_DIR/debug/gauge" "$tmp/$build/debug/"
  package "$build" >"$tmp/$build.deb" || { tail -n 20 "$tmp/$build.log" >&2; die "scripts/deb failed"; }
done
first=$(cat "$tmp/first.deb") second=$(cat "$tmp/second.deb")
one reproducible cmp "$first" "$second"

# contents: each file with its mode and owner, without those of completions and manual pages of each verb.
contents() {
  dpkg-deb --contents "$first" | awk '{print $1, $2, $6, $7, $8}' | sed 's/ *$//' | grep -vE '/man1/(weir|gauge)-' | sort -k3
}
same_contents() {
  contents >"$tmp/contents"
  [ -z "${WEIR_UPDATE:-}" ] || cp "$tmp/contents" deploy/systemd/contents.txt
  diff -u deploy/systemd/contents.txt "$tmp/contents"
}
one contents same_contents
# Programs of the tests are compared with nothing that concerns how they are built.
one lintian lintian --allow-root --fail-on error,warning --suppress-tags unstripped-binary-or-object,embedded-library "$first"

tree=$tmp/tree
dpkg-deb --extract "$first" "$tree"
one programs-start sh -c '"$1/usr/bin/weir" --version && "$1/usr/bin/gauge" --version' sh "$tree"
one configuration "$tree/usr/bin/weir" check "$tree/etc/weir/weir.yaml"
# The units, with the program where it is here.
mkdir "$tmp/units"
for unit in "$tree/usr/lib/systemd/system/weir.service" "$tree"/usr/share/doc/weir/examples/*.socket; do
  sed "s#/usr/bin/weir#$tree/usr/bin/weir#" "$unit" >"$tmp/units/$(basename "$unit")"
done
# analyzed VERB...: systemd-analyze says nothing of our units.
analyzed() {
  systemd-analyze --man=no verify "$@" >"$tmp/verify" 2>&1 || { cat "$tmp/verify"; return 1; }
  ! grep -F "$tmp/units" "$tmp/verify"
}
one units-are-valid analyzed "$tmp/units/weir.service" "$tmp/units/weir.socket"
# How much of the system the service can reach, from 0 (nothing) to 10 (all).
one exposure systemd-analyze security --offline=true --threshold=20 "$tmp/units/weir.service"
count_line "$passed" "$failed" "$skipped"
exit "$code"
