#!/usr/bin/env python3
"""How long a description with 600 operations takes to become the configurations of all gateways: `gauge convert API --to all`, bar 2 s.

scripts/bench convert [--resources 200] [--rounds 7]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from record import environment, save
from rig import need, output

BAR_S = 2.0


def description(resources: int) -> dict:
    """Three operations for each resource, spread over four base paths."""
    answer = {"responses": {"200": {"description": "as requested"}}}
    identity = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    paths = {}
    for number in range(resources):
        path = f"/{('shop', 'stock', 'users', 'reports')[number % 4]}/resource{number}"
        paths[path] = {"get": {"operationId": f"list{number}", **answer}}
        paths[f"{path}/{{id}}"] = {
            "parameters": [identity],
            "get": {"operationId": f"get{number}", **answer},
            "put": {"operationId": f"put{number}", **answer},
        }
    about = {"title": "many", "version": "1"}
    return {"openapi": "3.1.0", "info": about, "servers": [{"url": "http://127.0.0.1:8090"}], "paths": paths}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resources", type=int, default=200, help="of three operations each")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    gauge, seconds = need("gauge", "scripts/bench builds it"), []
    with tempfile.TemporaryDirectory() as folder:
        api = Path(folder) / "api.json"
        api.write_text(json.dumps(description(arguments.resources)))
        for number in range(arguments.rounds):
            made = Path(folder) / str(number)
            begun = time.perf_counter()
            subprocess.run(
                [gauge, "convert", str(api), "--to", "all", "-o", str(made)], check=True, capture_output=True
            )
            seconds.append(time.perf_counter() - begun)
        gateways = sorted(path.name for path in made.iterdir() if path.is_dir())
    where, middle = environment(output([gauge, "--version"])), statistics.median(seconds)
    verdict = "met" if middle < BAR_S else "missed"
    lines = [
        "# A description with many operations to all configurations",
        "",
        f"{where['date']}, {where['host']}: {where['cpu']}, {where['cores']} cores; commit {where['commit']}. Made by `{where['command']}`.",
        "",
        f"{3 * arguments.resources} operations to {', '.join(gateways)}: median {middle:.2f} s, {min(seconds):.2f} to {max(seconds):.2f} "
        f"in {len(seconds)} runs; bar < {BAR_S:g} s: {verdict}.",
    ]
    save(arguments.out, {"environment": where, "seconds": seconds, "gateways": gateways}, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
