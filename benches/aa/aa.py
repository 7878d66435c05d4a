#!/usr/bin/env python3
"""A/A campaigns: how often equal systems are declared different.

    scripts/bench aa [--campaigns 20]

Each campaign is examples/evaluations/quickstart.yaml with `control: all`: every gateway beside itself. A campaign has a false positive when a difference
between a gateway and its control is declared. The machine is left as it is: a noisy one may leave campaigns without a decision.

Each campaign's outcome is kept in campaigns/NN.json as soon as it has ended; the same command continues after the last one, up to the number that is given
with --campaigns. results.json and summary.md are made of all of them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from record import environment, save
from rig import need, output

EVALUATIONS = Path(__file__).resolve().parents[2] / "examples/evaluations"
# One of twenty may have one by chance: differences are declared at a false-discovery rate of 5 %.
BAR = 1


def campaign(evaluation: Path, folder: Path) -> dict:
    command = [need("gauge", "scripts/bench builds it"), "run", str(evaluation), "--fresh", "--out", str(folder)]
    began = time.monotonic()
    if subprocess.run(command).returncode not in (0, 1):
        raise SystemExit("the campaign failed; the same command continues with it")
    seconds = round(time.monotonic() - began)
    judgement = json.loads((folder / "results.json").read_text())["judgement"]
    false = [one for one in judgement["controls"] if one["declared"]]
    return {
        "seconds": seconds,
        "headline": [
            "NO DECISION" if not judgement["decision"]["decided"] else "decided",
            *[f"{place['place']}. {place['system']}" for place in judgement["ranking"]],
        ],
        "why": judgement["decision"]["why"],
        "decided": judgement["decision"]["decided"],
        "rounds": judgement["decision"]["rounds"],
        "ranked": len(judgement["ranking"]),
        "unranked": judgement["unranked"],
        "compared": sum(one["p"] is not None for one in judgement["controls"]),
        "false_positives": false,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--campaigns", type=int, default=20)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    where = environment(output([need("gauge", "scripts/bench builds it"), "--version"]))
    text = (EVALUATIONS / "quickstart.yaml").read_text()
    text = text.replace("api: ", f"api: {EVALUATIONS}/").replace("\nbackend:", "\ncontrol: all\n\nbackend:", 1)
    kept = arguments.out / "campaigns"
    kept.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        evaluation = Path(folder, "aa.yaml")
        evaluation.write_text(text)
        for number in range(1, arguments.campaigns + 1):
            file = kept / f"{number:02}.json"
            if file.exists():
                continue
            one = {"environment": where, **campaign(evaluation, Path(folder, f"{number:02}"))}
            # Whole or not at all, whenever this is stopped.
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps(one, indent=1) + "\n")
            partial.rename(file)
            print(f"{number} of {arguments.campaigns}: {' '.join(one['headline'])}", flush=True)
    seen = [json.loads(file.read_text()) for file in sorted(kept.glob("*.json"))]
    wrong = sum(bool(one["false_positives"]) for one in seen)
    undecided = sum(not one["decided"] for one in seen)
    only = sum(one["ranked"] == 1 and bool(one["unranked"]) for one in seen)
    lines = [
        "| campaigns | with a false positive | bar | without a decision | with one gateway left | longest, s | A/A comparisons | |",
        "|---|---|---|---|---|---|---|---|",
        f"| {len(seen)} | {wrong} | {BAR} of 20 | {undecided} | {only} | {max(one['seconds'] for one in seen)} | {sum(one['compared'] for one in seen)} | "
        f"{'met' if wrong <= max(BAR, BAR * len(seen) / 20) and only == 0 else 'missed'} |",
    ]
    save(arguments.out, {"campaigns": seen}, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
