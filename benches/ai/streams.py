"""1,000 streams at once, each with a token every 200 ms: first from the model server itself, then through the gateway. Every token has to arrive, the
gaps between tokens have to be those of the model server, and memory must not grow."""

import time
from argparse import Namespace

import stage as on
from generator import Running
from rig import System, rss_kib, say

STREAMS = 1000
GAP_MS = 200
# A stream of half a minute; then its connection has the next one.
TOKENS = 150
MODEL = f"sim-tokens{TOKENS}-first20-gap{GAP_MS}"
# Streams that began at once do so for good; memory is looked at when all are there.
SETTLED_S = 40
LATE_MS, GROWTH, EACH_KIB = 5.0, 1.05, 40.0


def measure(stage: on.Stage, options: Namespace) -> dict:
    direct = stage.simulator()
    weir = stage.weir_with("ai", MODEL)
    # One call, so that what is needed once is there before memory is counted.
    run(weir, {"users": 1, "iterations": 1})
    idle = rss_kib(weir.pids)
    seconds = options.minutes * 60
    return {
        "direct": run(direct, lasting(min(seconds, 120))),
        "weir": run(weir, lasting(seconds)),
        "idle_kib": idle,
    }


def lasting(seconds: float) -> dict:
    return {"users": STREAMS, "duration": f"{seconds:.0f}s"}


def run(system: System, closed: dict) -> dict:
    """Streams for a time: what arrived, when, and the memory of the system meanwhile."""
    began = time.monotonic()
    # Streams that are open at the end are let go, and are no failures.
    load = Running(system.port, plan={"closed": closed}, workload={"llm": on.streamed(MODEL), "timeout": "90s"})
    memory = []
    while load.process.poll() is None:
        memory.append((round(time.monotonic() - began, 1), rss_kib(system.pids)))
        time.sleep(5)
    seen = load.finish()
    figures = seen.figures["total"]["chat"]
    say(f"{system.name}: {figures['complete']} complete, {seen.failures()}")
    return {
        "complete": figures["complete"],
        "cut": figures["cut"],
        "failures": seen.failures(),
        "tokens": figures["output_tokens"],
        "gap_p50_ms": figures["inter_token"]["p50_ms"],
        "gap_p99_ms": figures["inter_token"]["p99_ms"],
        "memory_kib": memory,
    }


def summary(found: dict) -> str:
    direct, weir = found["direct"], found["weir"]
    settled = [kib for at, kib in weir["memory_kib"] if at >= SETTLED_S][:-1] or [weir["memory_kib"][-1][1]]
    each, growth = (max(settled) - found["idle_kib"]) / STREAMS, settled[-1] / settled[0]
    late = weir["gap_p99_ms"] - direct["gap_p99_ms"]
    lost = weir["complete"] * TOKENS - weir["tokens"]
    rows = [
        (
            "streams that ended, none cut",
            f"{weir['complete']}; cut {weir['cut']}, failed {len(weir['failures'])}",
            "0 cut",
            not weir["cut"] and not weir["failures"],
        ),
        ("tokens lost in them", str(lost), "0", lost == 0),
        (
            "gap between tokens, p99, above direct",
            f"{late:.2f} ms ({weir['gap_p99_ms']:.1f} against {direct['gap_p99_ms']:.1f})",
            f"{LATE_MS} ms",
            late <= LATE_MS,
        ),
        (f"memory at the end over that after {SETTLED_S} s", f"{growth:.3f}", str(GROWTH), growth <= GROWTH),
        ("memory of a stream, the most", f"{each:.1f} KiB", f"{EACH_KIB:.0f} KiB", each <= EACH_KIB),
    ]
    lines = [
        f"## {STREAMS:,} streams at once, a token every {GAP_MS} ms, {weir['memory_kib'][-1][0] / 60:.0f} minutes",
        "",
        "| | seen | bar | |",
        "|---|---|---|---|",
        *[f"| {what} | {seen} | {bar} | {'met' if met else 'missed'} |" for what, seen, bar, met in rows],
    ]
    return "\n".join(lines)
