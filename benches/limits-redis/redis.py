#!/usr/bin/env python3
"""Limits in Redis against the original design (services/limiter-fiber): requests per CPU-second of gateway and Redis together.

    scripts/bench limits-redis [--rounds 5] [--seconds 15]

Two workloads. "over": 3 requests in 5 s for each of 20 keys, offered as fast as it goes, so that nearly all are refused; exactly
20 x 3 for each window that begins may pass. "allowed": the same keys with a quota that nobody reaches, without leases, so that every request
is counted in Redis. The systems take turns, each with a Redis of its own that begins empty. Gateway and Redis have one core, load and application the
other.
"""

import argparse
import os
import re
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gateway"))
from generator import load
from record import environment, save, spread
from rig import GATEWAY_CORE, ROOT, Rig, cpu_us, free_port, need, output, say

BARS = {"over": 4.0, "allowed": 2.0}
NEVER = 1_000_000_000


def redis_cli(port, *words):
    return output(["redis-cli", "-p", str(port), *words])


def commands(port):
    """Commands that Redis executed, those inside of scripts and transactions included."""
    stats = redis_cli(port, "INFO", "commandstats")
    names = re.findall(r"cmdstat_([^:]+):calls=(\d+)", stats)
    return {name: int(calls) for name, calls in names if name not in ("info", "client|setname", "ping")}


def start_limiter(rig, name, redis, app, quota):
    port = free_port()
    if name == "weir":
        for key, value in {
            "PORT": port,
            "APP_ENDPOINT": f"127.0.0.1:{app}",
            "REDIS_ENDPOINT": f"127.0.0.1:{redis}",
            "REDIS_TIMEOUT": "1s",
            "LIMIT": quota,
        }.items():
            os.environ[key] = str(value)
        command = [rig.weir, "--config", str(ROOT / "examples/weir/rate-limiter.yaml")]
    else:
        program = need("limiter-fiber", "built from services/limiter-fiber by scripts/bench")
        command = [program, "-port", str(port), "-app-endpoint", f"127.0.0.1:{app}"]
        command += ["-redis-endpoint", f"127.0.0.1:{redis}", "-window", "5", "-limit", str(quota)]
    return rig.spawn(f"{name}-{port}", command, GATEWAY_CORE, port)


def ask(port, seconds, prefix):
    """Requests of twenty API keys in turn."""
    plan = {"closed": {"users": 64, "duration": f"{seconds}s"}}
    headers, params = {"X-API-KEY": f"{prefix}{{key}}"}, {"key": {"int": [1, 20], "order": "sequence"}}
    seen = load(port, "/api/add?lhs=1&rhs=2", plan, headers=headers, params=params)
    if seen.errors:
        raise RuntimeError(f"{prefix}: {seen.errors}")
    return seen


def window(rig, name, workload, seconds, app, number):
    """One window of one system on a fresh Redis."""
    redis = rig.redis()
    limiter = start_limiter(rig, name, redis.port, app, 3 if workload == "over" else NEVER)
    ask(limiter.port, 1, f"warm-{number}-")
    before = commands(redis.port)
    used = -cpu_us(limiter.pids), -cpu_us(redis.pids)
    seen = ask(limiter.port, seconds, f"key-{number}-")
    used = used[0] + cpu_us(limiter.pids), used[1] + cpu_us(redis.pids)
    after = commands(redis.port)
    asked = {verb: count - before.get(verb, 0) for verb, count in after.items() if count > before.get(verb, 0)}
    limiter.stop()
    redis.stop()
    requests, statuses = seen.requests, seen.statuses
    wrong = set(statuses) - ({200, 429} if workload == "over" else {200})
    if wrong:
        raise RuntimeError(f"{name}: {statuses}")
    return {
        "requests": requests,
        "rate": seen.rate,
        "statuses": statuses,
        "gateway_us": used[0] / requests,
        "redis_us": used[1] / requests,
        "per_cpu_second": requests / (sum(used) / 1e6),
        "commands_per_request": sum(asked.values()) / requests,
        "commands": asked,
    }


def compare(rig, workload, rounds, seconds, app):
    samples = []
    for number in range(rounds):
        order = ("weir", "limiter-fiber") if number % 2 == 0 else ("limiter-fiber", "weir")
        pair = {name: window(rig, name, workload, seconds, app, number) for name in order}
        samples.append(pair)
        ours, theirs = pair["weir"], pair["limiter-fiber"]
        say(
            f"{workload}: weir {ours['gateway_us']:.1f}+{ours['redis_us']:.1f} us, {ours['commands_per_request']:.4f} commands, "
            f"200: {ours['statuses'].get(200, 0)}; limiter-fiber {theirs['gateway_us']:.1f}+{theirs['redis_us']:.1f} us, "
            f"200: {theirs['statuses'].get(200, 0)}; ratio {ours['per_cpu_second'] / theirs['per_cpu_second']:.2f}"
        )

    def middle(name, key):
        return statistics.median(pair[name][key] for pair in samples)

    keys = ("rate", "gateway_us", "redis_us", "per_cpu_second", "commands_per_request")
    return {
        "workload": workload,
        "bar": BARS[workload],
        **spread(pair["weir"]["per_cpu_second"] / pair["limiter-fiber"]["per_cpu_second"] for pair in samples),
        "weir": {key: middle("weir", key) for key in keys},
        "limiter-fiber": {key: middle("limiter-fiber", key) for key in keys},
        "samples": samples,
    }


def summary(results, where, arguments):
    lines = [
        "# Limits in Redis against the original design",
        "",
        f"Made by `{where['command']}` at commit {where['commit']} on {where['host']}, {where['date']}: {arguments.rounds} rounds of {arguments.seconds:g} s, 64 connections, 20 keys. "
        f"Gateway and Redis on one core, load (gauge) and application on the other.",
        "",
        f"{'; '.join(where['versions'])}; limiter-fiber of this commit.",
        "",
        "| workload | requests per CPU-second, weir | limiter-fiber | ratio (spread) | bar | CPU us per request, gateway + Redis: weir | limiter-fiber "
        "| Redis commands per request: weir | limiter-fiber |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results:
        ours, theirs = row["weir"], row["limiter-fiber"]
        lines.append(
            f"| {row['workload']} | {ours['per_cpu_second']:,.0f} | {theirs['per_cpu_second']:,.0f} "
            f"| {row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f}) | >= {row['bar']:g} "
            f"| {ours['gateway_us']:.1f} + {ours['redis_us']:.1f} | {theirs['gateway_us']:.1f} + {theirs['redis_us']:.1f} "
            f"| {ours['commands_per_request']:.4f} | {theirs['commands_per_request']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rows", default="over,allowed")
    arguments = parser.parse_args()
    rig = Rig(arguments.weir)
    try:
        rig.upstream()
        names = arguments.rows.split(",")
        results = [compare(rig, name, arguments.rounds, arguments.seconds, rig.upstream_port) for name in names]
    finally:
        rig.close()
    where = environment(output([arguments.weir, "--version"]), output(["redis-server", "--version"]).split(" sha")[0])
    save(arguments.out, {"environment": where, "rows": results}, summary(results, where, arguments))
    missed = [row["workload"] for row in results if row["ratio"] < row["bar"]]
    missed += [
        row["workload"] for row in results if row["workload"] == "over" and row["weir"]["commands_per_request"] > 0.02
    ]
    if missed:
        sys.exit(f"bars missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
