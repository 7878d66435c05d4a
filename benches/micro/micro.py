#!/usr/bin/env python3
"""What single steps cost, by the benches of their crates, with the bars of these.

    scripts/bench micro

Times are medians of divan's samples in one thread, on one core.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from record import environment, save
from rig import ROOT

BENCHES = {"auth": "credentials", "openapi": "body"}
UNITS = {"ns": 1e-3, "µs": 1, "ms": 1e3, "s": 1e6}
TIME = r"([\d.]+) (ns|µs|ms|s)"
# `├─ name   fastest │ slowest │ median │ mean │ samples │ iters`
ROW = re.compile(rf"^([│ ]*)[├╰]─ (\S+) +(?:{TIME} +│ {TIME} +│ {TIME} +│)?")
# Step: what it is, and its bar in microseconds.
STEPS = {
    "again": ("token that was verified before", 1),
    "load_100_000_keys": ("file of 100,000 API keys, read", 1e6),
    "key_of_100_000": ("API key looked up in it", None),
    "json_of_1_kib": ("request with 1 KiB of JSON held to its description", 5),
    "parameters": ("parameters of a request held to their description", 1),
}
SIGNATURE_BAR = 1.2


def medians(text: str) -> dict[str, float]:
    """Microseconds by name; names of arguments behind that of their bench."""
    found, group = {}, ""
    for line in text.splitlines():
        row = ROW.match(line)
        if not row:
            continue
        if row[7] is None:
            group = row[2]
            continue
        name = f"{group} {row[2]}" if row[1] else row[2]
        found[name] = float(row[7]) * UNITS[row[8]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for results.json and summary.md")
    arguments = parser.parse_args()
    found: dict[str, float] = {}
    for package, bench in BENCHES.items():
        command = ["taskset", "-c", "0", "cargo", "bench", "--locked", "-p", package, "--bench", bench]
        # Compiled on all cores, measured on one.
        subprocess.run([*command[3:], "--no-run"], cwd=ROOT, check=True)
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        print(done.stdout)
        found |= medians(done.stdout)
    where = environment() | {"profile": "bench"}
    lines = [
        "# Single steps\n",
        f"{where['date']}, {where['cpu']}, Linux {where['kernel']}; commit {where['commit']}. Made by `{where['command']}`.\n",
        "| step | median, us | bar | |",
        "|---|---|---|---|",
    ]
    for name, (title, bar) in STEPS.items():
        value = found[name]
        verdict = "" if bar is None else "met" if value <= bar else "missed"
        lines.append(f"| {title} | {value:,.3f} | {'' if bar is None else f'<= {bar:,.0f}'} | {verdict} |")
    lines += [
        "",
        "| token, verified for the first time | us | its signature alone, us | ratio | bar | |",
        "|---|---|---|---|---|---|",
    ]
    for algorithm in sorted(name.split()[1] for name in found if name.startswith("verified ")):
        whole, alone = found[f"verified {algorithm}"], found[f"signature_alone {algorithm}"]
        verdict = "met" if whole / alone <= SIGNATURE_BAR else "missed"
        lines.append(
            f"| {algorithm} | {whole:.2f} | {alone:.2f} | {whole / alone:.3f} | <= {SIGNATURE_BAR} | {verdict} |"
        )
    save(arguments.out, {"environment": where, "median_us": found}, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
