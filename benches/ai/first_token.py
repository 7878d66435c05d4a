"""What the gateway adds to the time to the first token: the same streams from the model server and through the gateway, in turn; differences of the
percentiles of a round. Calls arrive at a fixed rate that leaves all idle most of the time."""

import statistics
from argparse import Namespace

import stage as on
from generator import Running
from rig import System, say

MODEL = "sim-tokens8-first0-gap0"
PLAN = {"open": {"rate": "200/s", "duration": "5s", "connections": 64, "arrivals": "poisson"}}
BARS = {"p50_us": 150, "p99_us": 500}


def measure(stage: on.Stage, options: Namespace) -> dict:
    direct = stage.simulator()
    systems = {"direct": direct, "weir": stage.weir_with("ai", MODEL)}
    rounds = []
    for number in range(options.rounds + 1):
        order = list(systems) if number % 2 else list(systems)[::-1]
        seen = {name: streams(systems[name]) for name in order}
        # The first round warms up.
        if number:
            rounds.append(seen)
            say(f"round {number} of {options.rounds}: {seen}")
    added = {name: statistics.median(one["weir"][name] - one["direct"][name] for one in rounds) for name in BARS}
    return {"rounds": rounds, "added": added}


def streams(system: System) -> dict:
    """Percentiles of the time to the first token, in microseconds."""
    seen = Running(system.port, plan=PLAN, workload={"llm": on.streamed(MODEL)}).finish()
    figures = seen.figures["total"]["chat"]
    if seen.failures() or figures["complete"] != seen.requests:
        raise RuntimeError(f"{system.name}: {seen.failures()}, {figures['complete']} of {seen.requests} complete")
    return {name: figures["ttft"][f"{name[:3]}_ms"] * 1e3 for name in BARS}


def summary(found: dict) -> str:
    lines = [
        "## Time to the first token, 200 streams a second",
        "",
        "| percentile | direct | through Weir | added (median of rounds) | bar | |",
        "|---|---|---|---|---|---|",
    ]
    for name, bar in BARS.items():
        direct, weir = (statistics.median(one[which][name] for one in found["rounds"]) for which in ("direct", "weir"))
        added = found["added"][name]
        verdict = "met" if added <= bar else "missed"
        lines.append(f"| {name[:3]} | {direct:.0f} us | {weir:.0f} us | {added:.0f} us | {bar} us | {verdict} |")
    return "\n".join(lines)
