"""What the gateway adds to the time to the first token: the same streams from the model server, through the gateway as any other requests, and through an
AI route, in turn; differences of the percentiles of a round. Calls arrive at a fixed rate that leaves all idle most of the time: what waking a core costs is
in each figure, and plain proxying shows how much that is."""

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
    systems = {"direct": direct, "plain": stage.weir_with("plain", MODEL), "weir": stage.weir_with("ai", MODEL)}
    rounds = []
    for number in range(options.rounds + 1):
        order = list(systems) if number % 2 else list(systems)[::-1]
        seen = {name: streams(systems[name]) for name in order}
        # The first round warms up.
        if number:
            rounds.append(seen)
            say(f"round {number} of {options.rounds}: {seen}")
    return {"rounds": rounds, "added": {name: added(rounds, "direct", "weir", name) for name in BARS}}


def added(rounds: list[dict], first: str, then: str, name: str) -> float:
    """Median over the rounds of what the second system adds to the first."""
    return statistics.median(one[then][name] - one[first][name] for one in rounds)


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
        "| percentile | direct | plain proxying | AI route | added to direct (median of rounds) | bar | | of it the AI route's, above plain proxying |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rounds = found["rounds"]
    for name, bar in BARS.items():
        seen = [
            f"{statistics.median(one[which][name] for one in rounds):.0f} us" for which in ("direct", "plain", "weir")
        ]
        more = found["added"][name]
        verdict = "met" if more <= bar else "missed"
        own = added(rounds, "plain", "weir", name)
        lines.append(f"| {name[:3]} | {' | '.join(seen)} | {more:.0f} us | {bar} us | {verdict} | {own:.0f} us |")
    return "\n".join(lines)
