#!/usr/bin/env python3
"""The judge held to what is known.

    scripts/bench judgement [--busy-ns 600]

One campaign of ten rounds, run twice. A Weir that is dearer on purpose must be declared different from Weir in CPU time per request; Weir's A/A control must
not be; and systems that are not tied must come in the same order both times.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from record import environment, save
from rig import need, output

HERE = Path(__file__).resolve().parent


def campaign(folder: Path, busy_ns: int) -> dict:
    # Beside the template: paths in an evaluation count from its own file.
    evaluation = HERE / f"{folder.name}.tmp.yaml"
    evaluation.write_text((HERE / "evaluation.yaml").read_text().replace("@busy@", str(busy_ns)))
    try:
        command = [need("gauge", "scripts/bench builds it"), "run", str(evaluation), "--fresh", "--out", str(folder)]
        # 1: with findings, such as a system that is not ranked.
        if subprocess.run(command).returncode not in (0, 1):
            raise SystemExit("the campaign failed")
    finally:
        evaluation.unlink()
    return json.loads((folder / "results.json").read_text())["judgement"]


def compared(judgement: dict, one: str, other: str, figure: str = "cpu-per-request") -> dict:
    """Two systems in a figure; `ratio` is that of `one` to `other`."""
    for row in judgement["comparisons"]:
        if row["criterion"] == figure and {row["a"], row["b"]} == {one, other}:
            ratio = row["ratio"]["value"]
            return {"ratio": ratio if row["a"] == one else 1 / ratio, "p": row["p"], "declared": row["declared"]}
    raise SystemExit(f"{one} and {other} were not compared in {figure}")


def declared_order(judgement: dict) -> dict[tuple[str, str], bool]:
    """For each pair that is not tied, whether the first is the better one."""
    places = {place["system"]: place for place in judgement["ranking"]}
    return {
        (one, other): places[one]["place"] < places[other]["place"]
        for one in places
        for other in places
        if one < other and other not in places[one]["tied_with"]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--busy-ns", type=int, default=600, help="before each of the two sends of a request")
    arguments = parser.parse_args()
    twice = [campaign(arguments.out / name, arguments.busy_ns) for name in ("first", "second")]
    where = environment(output(["gauge", "--version"]), output(["weir", "--version"]), output(["nginx", "-v"]))
    lines = [
        "# The judge, held to what is known",
        "",
        f"{where['date']}, {where['host']}: {where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {where['commit']}; "
        f"{'; '.join(where['versions'])}. Made by `{where['command']}`: {arguments.busy_ns} ns of work before each send.",
        "",
        "| | first time | second time | must be |",
        "|---|---|---|---|",
    ]
    missed = []

    def row(name: str, seen: list[str], must: str, is_met: bool) -> None:
        lines.append(f"| {name} | {seen[0]} | {seen[1]} | {must}{'' if is_met else ': MISSED'} |")
        if not is_met:
            missed.append(name)

    dearer = [compared(judgement, "weir dearer", "weir") for judgement in twice]
    told = [
        f"{'declared' if seen['declared'] else 'not declared'}, ratio {seen['ratio']:.3f}, p {seen['p']:.3f}"
        for seen in dearer
    ]
    row("CPU per request, dearer Weir against Weir", told, "declared", all(seen["declared"] for seen in dearer))
    controls = [
        next(one for one in judgement["controls"] if one["criterion"] == "cpu-per-request") for judgement in twice
    ]
    told = [
        f"{'declared' if seen['declared'] else 'not declared'}, ratio {seen['ratio']['value']:.3f}, p {seen['p']:.3f}"
        for seen in controls
    ]
    row(
        "CPU per request, Weir against its A/A control",
        told,
        "not declared",
        not any(seen["declared"] for seen in controls),
    )
    orders = [declared_order(judgement) for judgement in twice]
    both = orders[0].keys() & orders[1].keys()
    same = all(orders[0][pair] == orders[1][pair] for pair in both)
    told = [", ".join(f"{place['place']} {place['system']}" for place in judgement["ranking"]) for judgement in twice]
    row(f"order ({len(both)} pairs tied in neither)", told, "the same", same and bool(both))
    save(arguments.out, {"environment": where, "dearer": dearer, "controls": controls}, "\n".join(lines) + "\n")
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
