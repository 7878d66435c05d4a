#!/usr/bin/env bash
# Makes a JMETER_HOME from JMeter's artefacts on Maven Central (pom.xml), for machines without its archive; prints its path.
#   JMETER_HOME=$(load/jmeter/jmeter-home.sh DIR); java -jar "$JMETER_HOME/bin/ApacheJMeter.jar" -n -t load/jmeter/auction.jmx -l results.jtl
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
home=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/jmeter}
want=$(cat "$here/pom.xml" "$0" | cksum)
if [ "$(cat "$home/.weir-stamp" 2>/dev/null)" != "$want" ]; then
  command -v mvn >/dev/null || { echo "error: 'mvn' is not installed. On Debian and Ubuntu: apt-get install maven" >&2; exit 1; }
  rm -rf "$home"
  mkdir -p "$home/bin" "$home/lib/ext" "$home/lib/junit"
  maven() { mvn --quiet --batch-mode --file "$here/pom.xml" "$@" >&2; }
  maven dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$home/lib"
  version=$(sed -nE 's|.*<jmeter.version>(.*)</jmeter.version>.*|\1|p' "$here/pom.xml")
  # The archive's layout: the launcher without its version in bin/, JMeter's own parts in lib/ext/, its properties in bin/.
  mv "$home/lib/ApacheJMeter-$version.jar" "$home/bin/ApacheJMeter.jar"
  for part in "$home"/lib/ApacheJMeter_*-"$version".jar; do
    name=$(basename "$part" "-$version.jar")
    mv "$part" "$home/lib/ext/$name.jar"
  done
  python3 - "$home/lib/ext/ApacheJMeter_config.jar" "$home" <<'PYTHON'
import pathlib, sys, zipfile
source, home = zipfile.ZipFile(sys.argv[1]), pathlib.Path(sys.argv[2])
for name in source.namelist():
    if name.startswith("bin/") and not name.endswith("/"):
        target = home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read(name))
PYTHON
  printf '%s' "$want" >"$home/.weir-stamp"
fi
printf '%s\n' "$home"
