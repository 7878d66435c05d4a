#!/usr/bin/env python3
"""The table of the gateway's bars: CPU per request against the peers, latency, system calls, memory.

    scripts/bench gateway [--rounds 16] [--rows get,gates,...] [--baseline BINARY]

Two systems alternate in windows of one second; the figure is the median of the ratios, with its spread. A window with anything but 2xx is void.
Run it on an idle machine: the load generator and the upstream have one core, the gateway the other.
"""

import argparse
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from generator import USERS, Running, load
from record import environment, save, spread
from rig import KEY, Missing, Rig, cpu_us, need, output, rss_kib, say

# POST with 1 KiB of JSON; the response has 1 KiB too.
KIB = {
    "method": "POST",
    "headers": {"Content-Type": "application/json"},
    "body": {"text": '{"text":"' + "x" * (1024 - 11) + '"}'},
}

GATED = {"headers": {"X-API-Key": KEY}}

# name, path, operation, peers with their bars
CPU_ROWS = {
    "get": (
        "proxied GET, 64 connections",
        "/",
        {},
        # HAProxy in TCP mode passes bytes and reads no HTTP.
        {"nginx": 0.95, "haproxy": 0.75, "haproxy-tcp": 1.0, "fiber": 0.75, "envoy": 0.35},
    ),
    "post": ("POST, 1 KiB JSON each way", "/kib", KIB, {"nginx": 1.0}),
    "64k": ("64 KiB reply", "/64k", {}, {"nginx": 1.0}),
    "gates": ("local response", "/gates", {}, {"nginx": 0.95}),
    "refused": ("429 by a rate limit", "/refused", {}, {"nginx": 1.0}),
    "limited": ("proxied GET, one limit, against none", "/", {}, {"weir-limited": 1.05}),
    "gated": ("proxied GET, key, two limits and log, against none", "/", GATED, {"weir-gated": 1.12}),
    "aa": ("A/A: nginx against itself", "/", {}, {}),
}

# More connections than a worker can serve at once: what counts is that the throughput stays.
CROWD = {"closed": {"users": 1024, "duration": "1s"}}
CROWD_BAR = 0.9

REFUSED = CPU_ROWS["refused"][1]

# Rows of `--baseline`: this build against an earlier one, whose binary is given.
BASELINE_ROWS = {
    "get": ("proxied GET", "/", 1.02),
    "hit": ("cache hit", "/hit", 1.02),
    "refused": ("429 by a rate limit", REFUSED, 1.02),
}


def steal() -> int:
    return int(Path("/proc/stat").read_text().splitlines()[0].split()[8])


def window(system, path, operation, plan):
    """One window: CPU microseconds per request, or None when it is void."""
    before, stolen = cpu_us(system.pids), steal()
    seen = load(system.port, path, plan, **operation)
    used = cpu_us(system.pids) - before
    # nginx's slowest rate lets one through each minute.
    refused = not seen.errors and seen.statuses.get(429, 0) >= seen.requests - 1
    as_expected = refused if path == REFUSED else not seen.failures()
    if not as_expected or seen.requests == 0:
        say(f"  void: {system.name}: {seen.statuses} {seen.errors}")
        return None
    return {"cpu_us": used / seen.requests, "rate": seen.rate, "steal_ticks": steal() - stolen}


def compare(first, second, path, operation, rounds, plan=None):
    """Alternating windows of two systems."""
    for system in (first, second):
        load(system.port, path, plan, **operation)
    samples = []
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        pair = {which: window((first, second)[which], path, operation, plan) for which in order}
        if all(pair.values()):
            samples.append((pair[0], pair[1]))

    def middle(which, key):
        return statistics.median(pair[which][key] for pair in samples)

    return {
        "first": first.name,
        "second": second.name,
        "cpu_us": [middle(0, "cpu_us"), middle(1, "cpu_us")],
        "rate": [middle(0, "rate"), middle(1, "rate")],
        **spread(one["cpu_us"] / other["cpu_us"] for one, other in samples),
        "samples": [{"first": one, "second": other} for one, other in samples],
    }


def against(rig, row, one, other, bar, path, operation, rounds, plan=None):
    """One row: starts both systems, compares them, stops them."""
    try:
        first, second = rig.start(one), rig.start(other)
    except Missing as missing:
        say(f"{row}: {other} skipped: {missing}")
        return {"row": row, "second": other, "skipped": str(missing)}
    result = compare(first, second, path, operation, rounds, plan)
    first.stop()
    second.stop()
    result |= {"row": row, "bar": bar, "versions": [first.version, second.version]}
    say(
        f"{row}: {one} {result['cpu_us'][0]:.2f} us, {other} {result['cpu_us'][1]:.2f} us, ratio {result['ratio']:.3f} "
        f"[{result['ratio_min']:.3f} {result['ratio_max']:.3f}] bar {bar}"
    )
    return result


def cpu_rows(rig, names, rounds):
    """Every row at full speed."""
    rows = []
    for name in names:
        title, path, operation, peers = CPU_ROWS[name]
        if name == "aa":
            rows.append(against(rig, title, "nginx", "nginx-control", None, path, operation, rounds))
        if name in ("limited", "gated"):
            rows += [against(rig, title, one, "weir", bar, path, operation, rounds) for one, bar in peers.items()]
            continue
        rows += [against(rig, title, "weir", peer, bar, path, operation, rounds) for peer, bar in peers.items()]
    return rows


def baseline_rows(rig, rounds):
    """This build against the baseline's, with the baseline against itself first: what the machine alone makes of equal programs."""
    rows = [
        against(rig, "A/A: proxied GET, the baseline against itself", "baseline", "baseline", None, "/", {}, rounds)
    ]
    for title, path, bar in BASELINE_ROWS.values():
        rows.append(against(rig, f"{title}, against the baseline", "weir", "baseline", bar, path, {}, rounds))
    return rows


def crowd_row(rig, rounds):
    """Throughput at 1,024 connections on one worker, in the same rounds as nginx's."""
    row = against(rig, "proxied GET, 1,024 connections", "weir", "nginx", None, "/", {}, rounds, CROWD)
    if "skipped" not in row:
        rates = spread(pair["first"]["rate"] / pair["second"]["rate"] for pair in row["samples"])
        row["throughput"] = rates | {"bar": CROWD_BAR}
        say(f"throughput at 1,024 connections: {rates['ratio']:.3f} of nginx's, bar {CROWD_BAR}")
    return [row]


def fixed_rate_rows(rig, full_speed, rounds):
    """The proxied GET again, with every system at one rate: half of what the slowest reached at full speed."""
    proxied = [row for row in full_speed if row["row"] == CPU_ROWS["get"][0] and "skipped" not in row]
    slowest = min((min(row["rate"]) for row in proxied), default=20_000)
    plan = {"open": {"rate": slowest // 2, "duration": "1s", "connections": 64}}
    title = f"proxied GET, {slowest // 2:.0f} a second"
    peers = CPU_ROWS["get"][3]
    return [against(rig, title, "weir", peer, None, "/", {}, rounds, plan) for peer in peers]


def latency(rig, rounds=12):
    """Added latency at one connection: gateway minus direct, weir against nginx, round by round."""
    alone = {"closed": {"users": 1, "duration": "1s"}}
    systems = {name: rig.start(name) for name in ("weir", "nginx")}
    ports = {"direct": rig.upstream_port} | {name: system.port for name, system in systems.items()}
    for port in ports.values():
        load(port, plan=alone)
    added = []
    names = list(ports)
    for number in range(rounds):
        order = names[number % 3 :] + names[: number % 3]
        seen = {name: load(ports[name], plan=alone) for name in order}
        added.append(
            {
                name: {
                    "p50_us": seen[name].p50_us - seen["direct"].p50_us,
                    "p99_us": seen[name].p99_us - seen["direct"].p99_us,
                }
                for name in ("weir", "nginx")
            }
        )
    for system in systems.values():
        system.stop()

    def middle(name, key):
        return statistics.median(round_[name][key] for round_ in added)

    return {name: {key: middle(name, key) for key in ("p50_us", "p99_us")} for name in ("weir", "nginx")} | {
        "rounds": added
    }


def syscalls(rig):
    """System calls per proxied request at 64 connections, counted by strace over two seconds."""
    strace = need("strace", "apt-get install strace")
    weir = rig.start("weir")
    running = Running(weir.port, plan={"closed": USERS | {"duration": "6s"}})
    time.sleep(1.5)
    counts_file = rig.dir / "strace"
    trace = subprocess.Popen(
        [strace, "-c", "-f", "-o", str(counts_file), "-p", str(weir.pids[0])], stderr=subprocess.DEVNULL
    )
    time.sleep(2)
    trace.send_signal(signal.SIGINT)
    trace.wait()
    running.finish()
    weir.stop()
    counts = {}
    for line in counts_file.read_text().splitlines():
        found = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
        if found and found[2] != "total":
            counts[found[2]] = int(found[1])
    # Two of the four I/O calls of a request are writes.
    requests = (
        counts.get("sendto", 0) + counts.get("write", 0) + counts.get("writev", 0) + counts.get("sendmsg", 0)
    ) / 2
    per_request = sum(counts.values()) / requests
    return {
        "counts": counts,
        "requests": requests,
        "per_request": per_request,
        "futex_per_request": counts.get("futex", 0) / requests,
    }


def memory(rig, connections=10_000):
    """Resident memory idle, and per idle keep-alive connection that was served one request."""
    weir = rig.start("weir")
    idle = rss_kib(weir.pids)
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    held = []
    for number in range(connections):
        # Loopback has many addresses: no shortage of ports.
        one = socket.create_connection(("127.0.0.1", weir.port), source_address=(f"127.0.{number // 5000 + 1}.1", 0))
        one.sendall(request)
        held.append(one)
        answer = b""
        while b"12345}" not in answer:
            answer += one.recv(4096)
    time.sleep(1)
    full = rss_kib(weir.pids)
    for one in held:
        one.close()
    weir.stop()
    return {
        "idle_kib": idle,
        "full_kib": full,
        "connections": connections,
        "kib_per_connection": (full - idle) / connections,
    }


def summary(results):
    """The table as Markdown."""
    lines = ["# Gateway: the table of bars", ""]
    environment_ = results["environment"]
    lines += [
        f"{environment_['date']}, {environment_['host']}: {environment_['cpu']}, {environment_['cores']} cores, Linux {environment_['kernel']}; commit {environment_['commit']}.",
        "",
        f"Made by `{environment_['command']}`.",
        "",
        "| figure | weir | peer | ratio (median) | spread | requests/s | rounds | bar | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results.get("cpu", []):
        if "skipped" in row:
            lines.append(f"| {row['row']} against {row['second']} | | | | | | | | skipped: {row['skipped']} |")
            continue
        bar = row["bar"]
        verdict = "" if bar is None else ("met" if row["ratio"] <= bar else "missed")
        lines.append(
            f"| CPU us, {row['row']}, {row['first']} against {row['second']} | {row['cpu_us'][0]:.2f} | {row['cpu_us'][1]:.2f} | {row['ratio']:.3f} "
            f"| {row['ratio_min']:.3f} to {row['ratio_max']:.3f} | {row['rate'][0]:.0f}, {row['rate'][1]:.0f} | {row['rounds']} | {'' if bar is None else f'<= {bar}'} | {verdict} |"
        )
        if rates := row.get("throughput"):
            met = "met" if rates["ratio"] >= rates["bar"] else "missed"
            lines.append(
                f"| requests/s, {row['row']}, {row['first']} against {row['second']} | {row['rate'][0]:.0f} | {row['rate'][1]:.0f} | {rates['ratio']:.3f} "
                f"| {rates['ratio_min']:.3f} to {rates['ratio_max']:.3f} | | {row['rounds']} | >= {rates['bar']} | {met} |"
            )
    if added := results.get("latency"):
        for key in ("p50_us", "p99_us"):
            met = "met" if added["weir"][key] <= added["nginx"][key] else "missed"
            lines.append(
                f"| added latency {key[:3]}, 1 connection, us | {added['weir'][key]:.0f} | {added['nginx'][key]:.0f} | | | | {len(added['rounds'])} | <= nginx | {met} |"
            )
    if calls := results.get("syscalls"):
        lines.append(
            f"| system calls per proxied request | {calls['per_request']:.2f} | | | | | | <= 5.0 | {'met' if calls['per_request'] <= 5 else 'missed'} |"
        )
        lines.append(f"| futex calls per request | {calls['futex_per_request']:.4f} | | | | | | 0 | |")
    if held := results.get("memory"):
        lines.append(
            f"| resident memory idle, MiB | {held['idle_kib'] / 1024:.1f} | | | | | | <= 8 | {'met' if held['idle_kib'] <= 8192 else 'missed'} |"
        )
        per = held["kib_per_connection"]
        lines.append(
            f"| KiB per idle connection ({held['connections']}) | {per:.2f} | | | | | | <= 6 | {'met' if per <= 6 else 'missed'} |"
        )
    if size := results.get("binary_bytes"):
        lines.append(
            f"| stripped release binary, MiB | {size / 2**20:.1f} | | | | | | <= 15 | {'met' if size <= 15 * 2**20 else 'missed'} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the gateway's binary")
    parser.add_argument("--baseline", help="an earlier build of the gateway: adds rows that compare the two")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--rows", default=",".join(CPU_ROWS) + ",crowd,fixed,latency,syscalls,memory,size")
    parser.add_argument("--out", type=Path, help="folder for results.json and summary.md")
    arguments = parser.parse_args()
    rows = arguments.rows.split(",")
    rig = Rig(arguments.weir, arguments.baseline)
    results = {"environment": environment(output([arguments.weir, "--version"]), output(["nginx", "-v"]))}
    try:
        rig.upstream()
        results["cpu"] = cpu_rows(rig, [row for row in CPU_ROWS if row in rows], arguments.rounds)
        if "crowd" in rows:
            results["cpu"] += crowd_row(rig, arguments.rounds)
        if arguments.baseline:
            results["cpu"] += baseline_rows(rig, arguments.rounds)
        if "fixed" in rows:
            results["cpu"] += fixed_rate_rows(rig, results["cpu"], arguments.rounds)
        for name, measure in (("latency", latency), ("syscalls", syscalls), ("memory", memory)):
            if name in rows:
                results[name] = measure(rig)
                say(f"{name}: { {key: value for key, value in results[name].items() if key != 'rounds'} }")
        if "size" in rows:
            stripped = rig.dir / "stripped"
            subprocess.run(["strip", "-o", str(stripped), arguments.weir], check=True)
            results["binary_bytes"] = stripped.stat().st_size
    finally:
        rig.close()
    save(arguments.out, results, summary(results))


if __name__ == "__main__":
    main()
