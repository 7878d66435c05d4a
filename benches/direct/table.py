#!/usr/bin/env python3
"""Gateways against direct: a Hono service by itself, behind Fiber and behind Weir, and what each gateway responds by itself.

    scripts/bench direct [--rounds 8] [--seconds 2] [--threads 1] [--connections 200]

wrk and Hono have one core in every measurement, the gateway the other. Every round measures every system once, in rotating order; ratios are taken round by
round and their median is quoted with its spread. A window with anything but 200 is void.

wrk reports latency after a correction for coordinated omission (stats_correct in its main.c), which adds samples that no request had. So rate x mean
comes out above the number of connections, which Little's law forbids of real latencies. The true mean of a closed loop is connections / rate; the
table has both, and says by how much wrk's is too high.
"""

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
import rig as shared
from record import environment, save
from rig import ROOT, Rig, System, cpu_us, free_port, need, output, say

GATEWAY_CORE, SERVICE_CORE = "1", "0"


@dataclass
class Lane:
    title: str
    system: System
    path: str
    gateway: System | None  # whose CPU time is counted
    beside: str | None = None  # a Python program that has the gateway's core meanwhile


@dataclass
class Window:
    requests: int
    rate: float
    mean_ms: float  # connections / rate
    wrk_mean_ms: float  # as wrk prints it
    p50_ms: float
    p99_ms: float
    per_cpu_second: float | None
    cpu_share: float | None
    in_flight: float


# Half of the gateway's core, for nothing: what the service loses to the mere fact that the machine's other core works too.
HALF_BUSY = """
import time
while True:
    end = time.perf_counter() + 5e-4
    while time.perf_counter() < end: pass
    time.sleep(5e-4)
"""


@contextlib.contextmanager
def running(program: str | None):
    if program is None:
        yield
        return
    process = subprocess.Popen(["taskset", "-c", GATEWAY_CORE, sys.executable, "-c", program])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def milliseconds(number: str, unit: str) -> float:
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}[unit]


def wrk(lane: Lane, threads: int, connections: int, seconds: float) -> str:
    command = ["taskset", "-c", SERVICE_CORE, need("wrk", "apt-get install wrk")]
    command += [f"-t{threads}", f"-c{connections}", f"-d{seconds:g}s", "--latency"]
    return output([*command, f"http://127.0.0.1:{lane.system.port}{lane.path}"])


def window(lane: Lane, threads: int, connections: int, seconds: float) -> Window | None:
    """One window, or None when it is void."""
    pids = lane.gateway.pids if lane.gateway else []
    before = cpu_us(pids)
    with running(lane.beside):
        text = wrk(lane, threads, connections, seconds)
    used = (cpu_us(pids) - before) / 1e6
    count = re.search(r"(\d+) requests in ([\d.]+)(m?s)", text)
    bad = re.findall(r"Non-2xx or 3xx responses: \d+|Socket errors: [^\n]*", text)
    if not count or bad or count[1] == "0":
        say(f"  void: {lane.title}: {'; '.join(bad) or text}")
        return None
    requests, taken = int(count[1]), milliseconds(count[2], count[3]) / 1e3
    mean = re.search(r"Latency\s+([\d.]+)(us|ms|s|m)\s", text)
    quantiles = {
        name: milliseconds(*re.search(rf"{name}%\s+([\d.]+)(us|ms|s|m)", text).groups()) for name in ("50", "99")
    }
    wrk_mean_ms = milliseconds(*mean.groups())
    in_flight = requests / taken * wrk_mean_ms / 1e3
    return Window(
        requests,
        requests / taken,
        1e3 * connections * taken / requests,
        wrk_mean_ms,
        quantiles["50"],
        quantiles["99"],
        requests / used if lane.gateway else None,
        used / taken if lane.gateway else None,
        in_flight,
    )


# HAProxy without HTTP: what the way over the other core costs by itself. No gateway can keep more.
RELAY = """
global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen relay
  bind 127.0.0.1:{port}
  server hono 127.0.0.1:{upstream}
"""


def start(rig: Rig, weir: str) -> list[Lane]:
    auth, messages = free_port(), free_port()
    os.environ |= {"AUTH_PORT": str(auth), "MESSAGES_PORT": str(messages), "AUTH_URL": f"http://127.0.0.1:{auth}"}
    service = ROOT / "services/messages-hono/src/index.js"
    shared.LOAD_CORE, shared.GATEWAY_CORE = SERVICE_CORE, GATEWAY_CORE
    node = output(["node", "--version"])
    hono = rig.spawn("hono", [need("node", "Node.js 20"), str(service)], SERVICE_CORE, auth, f"Hono on Node {node}")
    fiber_port = free_port()
    fiber_program = need("gateway-fiber", "scripts/bench builds it")
    fiber_command = [fiber_program, "-port", str(fiber_port)]
    fiber = rig.spawn("fiber", fiber_command, GATEWAY_CORE, fiber_port, "Fiber 2.52.12")
    weir_port = free_port()
    os.environ["LISTEN"] = f"127.0.0.1:{weir_port}"
    weir_command = [weir, "--config", str(ROOT / "examples/weir/fiber.yaml")]
    gateway = rig.spawn("weir", weir_command, GATEWAY_CORE, weir_port, output([weir, "--version"]))
    relay_port = free_port()
    relay_file = rig.dir / "relay.cfg"
    relay_file.write_text(RELAY.format(port=relay_port, upstream=auth))
    relay_command = [need("haproxy", "apt-get install haproxy"), "-f", str(relay_file)]
    relay = rig.spawn("relay", relay_command, GATEWAY_CORE, relay_port, output(["haproxy", "-v"]).splitlines()[0])
    said = System("messages", messages, None, hono.version)
    return [
        Lane("auth through Fiber", fiber, "/api/auth/sample", fiber),
        Lane("auth through Weir", gateway, "/api/auth/sample", gateway),
        Lane("auth through a TCP relay", relay, "/api/auth/sample", relay),
        Lane("auth direct", hono, "/api/auth/sample", None),
        Lane("auth direct, other core half busy", hono, "/api/auth/sample", None, HALF_BUSY),
        Lane("/gates of Fiber", fiber, "/gates", fiber),
        Lane("/gates of Weir", gateway, "/gates", gateway),
        Lane("messages direct", said, "/api/messages/sample", None),
    ]


# title, system, system, figure, bar
RATIOS = [
    (
        "requests per CPU-second, proxied: Weir / Fiber",
        "auth through Weir",
        "auth through Fiber",
        "per_cpu_second",
        1.35,
    ),
    ("requests per CPU-second, /gates: Weir / Fiber", "/gates of Weir", "/gates of Fiber", "per_cpu_second", 1.1),
    ("throughput kept: through Weir / direct", "auth through Weir", "auth direct", "rate", 0.85),
    ("throughput kept: through Fiber / direct", "auth through Fiber", "auth direct", "rate", None),
    ("throughput kept: through a TCP relay / direct", "auth through a TCP relay", "auth direct", "rate", None),
    (
        "throughput kept: direct with the other core half busy / direct",
        "auth direct, other core half busy",
        "auth direct",
        "rate",
        None,
    ),
    (
        "throughput: Weir / direct with the other core half busy",
        "auth through Weir",
        "auth direct, other core half busy",
        "rate",
        None,
    ),
    ("throughput: Weir / TCP relay", "auth through Weir", "auth through a TCP relay", "rate", None),
]


def ratio(rounds: list[dict[str, Window | None]], one: str, other: str, figure: str) -> dict | None:
    values = [
        getattr(round_[one], figure) / getattr(round_[other], figure)
        for round_ in rounds
        if round_[one] and round_[other]
    ]
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def steady(rounds: list[dict[str, Window | None]]) -> int:
    """In how many rounds the direct system was within 10 % of its median: in the others the machine was another."""
    median = middle(rounds, "auth direct", "rate")
    return sum(bool(one["auth direct"]) and abs(one["auth direct"].rate / median - 1) <= 0.1 for one in rounds)


def middle(rounds: list[dict[str, Window | None]], lane: str, figure: str) -> float | None:
    values = [getattr(round_[lane], figure) for round_ in rounds if round_[lane]]
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def summary(results: dict) -> str:
    about = results["environment"]
    lines = [
        "# Gateways against direct",
        "",
        f"{about['date']}, {about['host']}: {about['cpu']}, {about['cores']} cores, Linux {about['kernel']}; commit {about['commit']}.",
        f"{', '.join(about['versions'])}. wrk with {about['threads']} threads and {about['connections']} connections, {about['rounds']} rounds of {about['seconds']:g} s a system; "
        "wrk and Hono on one core, the gateway on the other. Medians of the rounds. "
        f"In {about['steady_rounds']} of them the direct system was within 10 % of its median.",
        "",
        "| system | requests/s | mean ms (connections / rate) | mean ms of wrk | p50 ms of wrk | p99 ms of wrk | rate x mean of wrk | gateway's CPU | requests per CPU-second |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results["lanes"]:
        share = "" if row["cpu_share"] is None else f"{100 * row['cpu_share']:.0f} %"
        lines.append(
            f"| {row['lane']} | {shown(row['rate'], 0)} | {shown(row['mean_ms'], 2)} | {shown(row['wrk_mean_ms'], 2)} | {shown(row['p50_ms'], 2)} | {shown(row['p99_ms'], 2)} "
            f"| {shown(row['in_flight'], 0)} | {share} | {shown(row['per_cpu_second'], 0)} |"
        )
    above = [row["lane"] for row in results["lanes"] if row["in_flight"] > 1.1 * about["connections"]]
    if above:
        lines += [
            "",
            f"wrk's latencies are after its correction for coordinated omission. Of {', '.join(above)} they are not those of requests that were made: rate x mean exceeds "
            f"the {about['connections']} connections, which Little's law forbids.",
        ]
    lines += ["", "| ratio, round by round | median | spread | rounds | bar | |", "|---|---|---|---|---|---|"]
    for row in results["ratios"]:
        verdict = "" if row["bar"] is None else ("met" if row["median"] >= row["bar"] else "missed")
        bar = "" if row["bar"] is None else f">= {row['bar']}"
        lines.append(
            f"| {row['title']} | {row['median']:.3f} | {row['min']:.3f} to {row['max']:.3f} | {row['rounds']} | {bar} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the gateway's binary")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of wrk, on one core (1)")
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--out", type=Path, help="folder for results.json and summary.md")
    arguments = parser.parse_args()
    rig = Rig(arguments.weir)
    try:
        lanes = start(rig, arguments.weir)
        for lane in lanes:
            wrk(lane, arguments.threads, arguments.connections, 1)
        rounds = []
        for number in range(arguments.rounds):
            turn = number % len(lanes)
            order = lanes[turn:] + lanes[:turn]
            seen = {
                lane.title: window(lane, arguments.threads, arguments.connections, arguments.seconds) for lane in order
            }
            rounds.append(seen)
            say(", ".join(f"{title} {one.rate:,.0f}/s" if one else f"{title} void" for title, one in seen.items()))
        figures = list(Window.__dataclass_fields__)
        ratios = []
        for title, one, other, figure, bar in RATIOS:
            found = ratio(rounds, one, other, figure)
            if found is None:
                say(f"{title}: no round was valid")
                return 1
            ratios.append({"title": title, "bar": bar, **found})
        calm = steady(rounds)
        results = {
            "environment": environment(*(lane.system.version for lane in lanes))
            | {key: getattr(arguments, key) for key in ("threads", "connections", "rounds", "seconds")}
            | {"steady_rounds": calm},
            "lanes": [
                {"lane": lane.title, **{figure: middle(rounds, lane.title, figure) for figure in figures}}
                for lane in lanes
            ],
            "ratios": ratios,
            "rounds": [{title: vars(one) if one else None for title, one in seen.items()} for seen in rounds],
        }
    finally:
        rig.close()
    save(arguments.out, results, summary(results))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (shared.Missing, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
