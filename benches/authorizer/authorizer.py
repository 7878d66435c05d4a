"""Latency that an external authorizer adds. One user at a time, so that nothing waits for anything else; rounds in changing order.

The authorizer is the upstream itself: a call of it is one round trip, from the gateway's core to the upstream's. That round trip is measured by a client
on the gateway's core: one on the upstream's own core would wake nobody on another. The bar: what is added is at most 1.2 times that round trip.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))

import generator
import record
from rig import GATEWAY_CORE, LOAD_CORE, Rig, arguments, free_port, output, say

BAR = 1.2
PLAN = {"closed": {"users": 1, "duration": "2s"}}
# What is measured, with its path; `trip` goes to the upstream itself, from the gateway's core.
WAYS = {"trip": "/", "bare": "/", "forward": "/forward", "ext_authz": "/ext_authz"}


def measure(rig: Rig, rounds: int) -> dict[str, list[float]]:
    """p50 of each way in microseconds, one for each round."""
    rig.upstream()
    conf = rig.render(Path(__file__).with_name("weir.yaml"), port=(port := free_port()))
    rig.spawn("weir", [rig.weir, "--config", str(conf)], GATEWAY_CORE, port)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        ways = list(WAYS)
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            is_direct = way == "trip"
            core = GATEWAY_CORE if is_direct else LOAD_CORE
            load = generator.load(rig.upstream_port if is_direct else port, WAYS[way], PLAN, core=core)
            if failures := load.failures():
                raise RuntimeError(f"{way}: {', '.join(failures)}")
            # The first round warms up.
            if number:
                found[way].append(load.p50_us)
        say(f"round {number} of {rounds}")
    return found


def main() -> None:
    options = arguments(__doc__, 10)
    rig = Rig(options.weir)
    try:
        found = measure(rig, options.rounds)
    finally:
        rig.close()
    results = {"environment": record.environment(output([options.weir, "--version"])), "p50_us": found, "added": {}}
    lines = ["| authorizer | added p50 | round trip | ratio | bar | |", "|---|---|---|---|---|---|"]
    for way in ("forward", "ext_authz"):
        rounds = list(zip(found[way], found["bare"], found["trip"], strict=True))
        ratios = record.spread((own - bare) / trip for own, bare, trip in rounds)
        added = statistics.median(own - bare for own, bare, _ in rounds)
        results["added"][way] = ratios
        verdict = "met" if ratios["ratio"] <= BAR else "missed"
        middle = statistics.median(found["trip"])
        lines.append(f"| {way} | {added:.0f} us | {middle:.0f} us | {ratios['ratio']:.2f} | {BAR} | {verdict} |")
    record.save(options.out, results, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
