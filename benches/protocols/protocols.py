#!/usr/bin/env python3
"""TLS, HTTP/2 and gRPC: CPU per request against nginx, HAProxy and Envoy, and memory of connections and streams.

    scripts/bench protocols [--rounds 16] [--rows handshakes,resumed,...] [--peers nginx,haproxy,envoy]

All gateways run at once and are loaded in turn, in windows of a second, in changing order: each round has one window of each. Figures are medians of the
ratios of a round, with the least and the most. A window with anything but 2xx is void. One core for the gateway, the other for load and upstreams.
"""

import argparse
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
import record
from generator import load
from held import memory_rows
from rig import Missing, Rig, System, cpu_us, say
from systems import FILE, Ports, Systems

INSECURE = {"insecure": True}
H2 = {"http2": {"streams": 10}}
PROTO = Path(__file__).with_name("upstream") / "unary.proto"
# 98 bytes behind the field's tag and length: a message of 100.
CALL = {
    "grpc": {"proto": str(PROTO), "method": "bench.Echo/Unary"},
    "body": {"text": '{"data":"' + "QUJD" * 32 + 'QUI="}'},
}


@dataclass
class Row:
    """What one row requests, and its bars: the most that a ratio of CPU, this gateway's over a peer's, may be."""

    title: str
    port: str
    path: str
    bars: dict[str, float]
    users: int = 64
    workload: dict = field(default_factory=dict)
    operation: dict = field(default_factory=dict)
    # What the CPU time is divided by, beside requests.
    unit: float = 1
    unit_name: str = "request"

    def url(self, ports: Ports) -> str:
        scheme = "https" if self.port == "tls" else "http"
        return f"{scheme}://127.0.0.1:{getattr(ports, self.port)}"

    def plan(self) -> dict:
        return {"closed": {"users": self.users, "duration": "1s"}}


ROWS = {
    "clear": Row("GET, HTTP/1.1 without TLS", "clear", "/", {"nginx": 0.75, "haproxy": 0.65, "envoy": 0.30}),
    "handshakes": Row(
        "full TLS 1.3 handshake, P-256, and a GET",
        "tls",
        "/",
        {"nginx": 1 / 1.2, "haproxy": 1 / 1.2, "envoy": 1.0},
        users=16,
        workload={"tls": INSECURE, "new_connections": True},
        unit_name="handshake",
    ),
    "resumed": Row(
        "resumed TLS 1.3 handshake, and a GET",
        "tls",
        "/",
        {"nginx": 1 / 1.2, "haproxy": 1 / 1.2, "envoy": 1.0},
        users=16,
        workload={"tls": INSECURE | {"resume": True}, "new_connections": True},
        unit_name="handshake",
    ),
    "tls": Row(
        "GET over TLS, HTTP/1.1 both sides",
        "tls",
        "/",
        {"nginx": 0.85, "haproxy": 0.80, "envoy": 0.40},
        workload={"tls": INSECURE},
    ),
    "http2": Row(
        "GET, HTTP/2 over TLS, 64 connections with 10 streams, HTTP/1.1 upstream",
        "tls",
        "/",
        {"nginx": 0.75, "haproxy": 0.80, "envoy": 0.35},
        users=640,
        workload={"tls": INSECURE, "protocol": H2},
    ),
    "http2-both": Row(
        "the same, HTTP/2 upstream",
        "tls",
        "/http2/",
        {"nginx": 0.70, "haproxy": 0.80, "envoy": 0.35},
        users=640,
        workload={"tls": INSECURE, "protocol": H2},
    ),
    "grpc": Row(
        "unary gRPC, 100 bytes each way, without TLS",
        "clear_h2",
        "",
        {"nginx": 0.70, "haproxy": 0.80, "envoy": 0.35},
        users=640,
        workload={"protocol": H2},
        operation=CALL,
    ),
    "bytes": Row(
        "4 MiB over HTTP/1.1",
        "clear",
        "/4m",
        {"nginx": 1.0, "haproxy": 1.0, "envoy": 0.6},
        users=8,
        unit=FILE / 2**20,
        unit_name="MiB",
    ),
    "bytes-tls": Row(
        "4 MiB over TLS",
        "tls",
        "/4m",
        {"nginx": 1.0, "haproxy": 1.0, "envoy": 0.7},
        users=8,
        workload={"tls": INSECURE},
        unit=FILE / 2**20,
        unit_name="MiB",
    ),
}
# What a peer cannot do in the version that is here, by row.
CANNOT = {("http2-both", "nginx"): "nginx before 1.29.4 speaks HTTP/2 to upstreams for gRPC only"}


def window(row: Row, system: System, ports: Ports) -> dict | None:
    """One window: CPU microseconds per unit, or None when it is void."""
    before = cpu_us(system.pids)
    seen = load(0, row.path, row.plan(), {"base": row.url(ports)} | row.workload, **row.operation)
    used = cpu_us(system.pids) - before
    if seen.failures() or seen.requests == 0:
        say(f"  void: {system.name}: {seen.statuses} {seen.errors}")
        return None
    return {"cpu_us": used / seen.requests / row.unit, "rate": seen.rate, "p99_us": seen.p99_us}


def measure(name: str, row: Row, running: dict[str, tuple[System, Ports]], rounds: int) -> dict:
    """One row: rounds with a window of each gateway."""
    able = [peer for peer in running if (name, peer) not in CANNOT]
    found: dict[str, list[dict]] = {peer: [] for peer in able}
    for number in range(rounds + 1):
        at = number % len(able)
        seen = {peer: window(row, *running[peer]) for peer in able[at:] + able[:at]}
        # The first round warms up; a void window makes its round void.
        if number and all(seen.values()):
            for peer in able:
                found[peer].append(seen[peer])
    result: dict = {"row": name, "title": row.title, "unit": row.unit_name, "rounds": found, "against": {}}
    for peer in able:
        if peer == "weir" or not found["weir"]:
            continue
        pairs = list(zip(found["weir"], found[peer], strict=True))
        ratio = record.spread(own["cpu_us"] / other["cpu_us"] for own, other in pairs)
        result["against"][peer] = ratio | {"bar": row.bars.get(peer)}
        say(f"{name}: against {peer} {ratio['ratio']:.3f} [{ratio['ratio_min']:.3f} {ratio['ratio_max']:.3f}]")
    return result


def middle(windows: list[dict], key: str) -> float:
    return statistics.median(one[key] for one in windows)


def summary(results: dict) -> str:
    """The tables as Markdown."""
    about = results["environment"]
    lines = [
        "# TLS, HTTP/2 and gRPC",
        "",
        f"{about['date']}, {about['host']}: {about['cpu']}, {about['cores']} cores, Linux {about['kernel']}; commit {about['commit']}.",
        f"Made by `{about['command']}`. {'; '.join(about['versions'])}.",
        "",
        "CPU time of the gateway; the ratio is Weir's over the peer's, the median of the rounds with the least and the most.",
        "",
        "| row | per | weir, us | peer | its us | ratio | spread | bar | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        for peer, against in row["against"].items():
            own, other = (middle(row["rounds"][name], "cpu_us") for name in ("weir", peer))
            bar, ratio = against["bar"], against["ratio"]
            lines.append(
                f"| {row['title']} | {row['unit']} | {own:.2f} | {peer} | {other:.2f} | {ratio:.3f} "
                f"| {against['ratio_min']:.3f} to {against['ratio_max']:.3f} | <= {bar:.2f} | {'met' if ratio <= bar else 'missed'} |"
            )
    lines += ["", *(f"Left out: {row}, {peer}: {why}." for (row, peer), why in CANNOT.items())]
    if results["memory"]:
        lines += ["", "| memory | count | gateway | KiB each | bar | |", "|---|---|---|---|---|---|"]
    for held in results["memory"]:
        bar = held.get("bar")
        verdict = "" if bar is None else "met" if held["kib"] <= bar else "missed"
        shown = "" if bar is None else f"<= {bar}"
        lines.append(
            f"| {held['title']} | {held['count']} | {held['gateway']} | {held['kib']:.2f} | {shown} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the gateway's binary")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--rows", default=",".join([*ROWS, "memory"]))
    parser.add_argument("--peers", default="nginx,haproxy,envoy")
    parser.add_argument(
        "--connections", type=int, default=9_900, help="of the rows on memory; HAProxy takes two descriptors for each"
    )
    parser.add_argument("--out", type=Path, help="folder for results.json and summary.md")
    arguments = parser.parse_args()
    rows = arguments.rows.split(",")
    rig = Rig(arguments.weir)
    results: dict = {"rows": [], "memory": []}
    try:
        systems = Systems(rig)
        systems.services()
        running = {}
        for name in ["weir", *filter(None, arguments.peers.split(","))]:
            try:
                running[name] = systems.start(name)
            except Missing as missing:
                say(f"{name} skipped: {missing}")
        results["environment"] = record.environment(*(system.version for system, _ in running.values()))
        results["rows"] = [measure(name, row, running, arguments.rounds) for name, row in ROWS.items() if name in rows]
        for system, _ in running.values():
            system.stop()
        if "memory" in rows:
            results["memory"] = memory_rows(systems, list(running), arguments.connections)
    finally:
        rig.close()
    record.save(arguments.out, results, summary(results))


if __name__ == "__main__":
    main()
