#!/usr/bin/env bash
# gauge run as its user runs it: Weir, nginx and the baseline end to end; killed and resumed; and a system on a machine that is
# reached over OpenSSH, which is this one with a server and keys of the test's own.
source "$(dirname "$0")/../suite.sh"
suite="gauge-run"
source "$root/scripts/lib-services.sh"
need nginx sshd ssh ps
need_weir
need_built gauge
# Started by root, OpenSSH wants the folder that its package's service makes; started by anyone else it does not look for it.
[ "$(id -u)" != 0 ] || [ "$(uname)" != Linux ] || mkdir -p /run/sshd
gauge=$CARGO_TARGET_DIR/debug/gauge
export GAUGE_WEIR=$weir XDG_RUNTIME_DIR=$tmp/runtime XDG_DATA_HOME=$tmp/data
mkdir -p "$XDG_RUNTIME_DIR"

# The first evaluation of the documentation, cut to two rounds.
sed -e 's/^repeats: .*/repeats: 2/' -e 's/gateways: .*/gateways: [weir, nginx]/' -e "s#^api: #api: $root/examples/evaluations/#" \
  examples/evaluations/quickstart.yaml >"$tmp/quickstart.yaml"
measured() {
  "$gauge" run "$tmp/quickstart.yaml" --quick --out "$tmp/out" || return 1
  python3 - "$tmp/out" <<'PYTHON'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
results = json.loads((out / "raw/campaign.json").read_text())
runs = [json.loads(path.read_text()) for path in sorted(out.glob("raw/r*.json"))]
states = {system["name"]: system["state"] for system in results["systems"]}
wanted = {"direct": "ready", "weir": "ready", "nginx": "ready", "weir (control)": "ready"}
missing = [name for name in ("report.html", "report.md", "results.csv", "results.json") if not (out / name).stat().st_size]
done = sum(run["state"] == "done" and not run["report"]["total"]["errors"]["total"] for run in runs)
sys.exit(0 if states == wanted and not missing and done == len(runs) == 16 else f"{states} {missing} {done} of {len(runs)}")
PYTHON
}
one quickstart measured
one recomputed "$gauge" recompute "$tmp/out"
one examples cargo test --locked --workspace --test evaluations
one ssh cargo test --locked --workspace --test run ssh:: -- --ignored

count_line "$passed" "$failed" "$skipped"
exit "$code"
