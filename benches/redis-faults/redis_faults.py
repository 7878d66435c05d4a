#!/usr/bin/env python3
"""A Redis that is killed, stopped (SIGSTOP) and restarted under limits, at half of what the gateway carries.

    scripts/bench redis-faults [--policies local,open,closed] [--rate R]

Each row is one gateway and one Redis of its own under an open loop of 28 s: Redis is killed at 4 s and started again at 8 s, stopped at
12 s and continued at 16 s, killed and started at once at 20 s.

    calm       the same load without any fault: what this machine does by itself
    unlimited  a quota that nobody reaches, so that every request is a question to Redis
        over       20 keys that each send five times their quota; what is admitted is compared with the documented bound

Bars: no status but what the policy says (429 for a key that is over, 503 with `closed` only while Redis is away), no failed request; p99
below 20 ms over the whole (that of the worst second is printed beside it); limits in Redis again within 2 s of its return.
"""

import argparse
import contextlib
import json
import math
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from generator import load
from record import environment, save
from rig import GATEWAY_CORE, Rig, free_port, need, output, say

HERE = Path(__file__).resolve().parent
SECONDS, WINDOW, KEYS, NEVER = 28, 4, 20, 1_000_000_000
P99_MS, RECOVERY_S = 20.0, 2.0


class Redis:
    """A Redis that keeps its port when it is killed and started again. It saves nothing: what it counted is lost with it."""

    def __init__(self, rig: Rig):
        self.rig, self.port = rig, free_port()
        self.start()

    def start(self) -> None:
        command = [
            need("redis-server", "apt-get install redis-server"),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
        ]
        # Not through Rig.spawn, which gives forked workers time: the moment at which it responds again is what counts here.
        self.process = subprocess.Popen(
            ["taskset", "-c", GATEWAY_CORE, *command, "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + 10
        while output(["redis-cli", "-p", str(self.port), "PING"]) != "PONG":
            if time.monotonic() > end:
                raise RuntimeError("redis-server does not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def health(admin: int) -> str:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{admin}/healthz", timeout=2) as answer:
        return json.load(answer)["redis"]["limits"]
    return "no response"


def recovered(admin: int, since: float) -> float:
    """Seconds from `since` until limits are counted in Redis again."""
    while health(admin) != "up":
        if time.monotonic() - since > 10:
            return math.inf
        time.sleep(0.01)
    return time.monotonic() - since


def faults(redis: Redis, admin: int, begun: float) -> list[dict]:
    seen = []

    def at(second: float) -> None:
        time.sleep(max(0.0, begun + second - time.monotonic()))

    def back(name: str) -> None:
        since = time.monotonic()
        seen.append({"fault": name, "noticed": noticed, "recovered_s": recovered(admin, since)})

    at(4)
    redis.kill()
    at(7.9)
    noticed = health(admin)
    redis.start()
    back("killed, started after 4 s")
    at(12)
    redis.process.send_signal(signal.SIGSTOP)
    at(16)
    noticed = health(admin)
    redis.process.send_signal(signal.SIGCONT)
    back("stopped for 4 s")
    at(20)
    redis.kill()
    noticed = health(admin)
    redis.start()
    back("restarted")
    return seen


def asked(port: int, plan: dict) -> dict:
    """All figures of one run with the keys."""
    headers, params = {"X-API-KEY": "key-{key}"}, {"key": {"int": [1, KEYS]}}
    return load(port, "/", plan, headers=headers, params=params).figures


class Row:
    def __init__(self, rig: Rig, policy: str, quota: int):
        self.redis = Redis(rig)
        self.admin, port = free_port(), free_port()
        conf = rig.render(
            HERE / "limits.yaml", port=port, admin=self.admin, redis=self.redis.port, policy=policy, quota=quota
        )
        self.weir = rig.spawn(f"weir-{policy}-{quota}", [rig.weir, "--config", str(conf)], GATEWAY_CORE, port)

    def stop(self) -> None:
        self.weir.stop()
        self.redis.kill()


def capacity(rig: Rig) -> float:
    row = Row(rig, "local", NEVER)
    seen = asked(row.weir.port, {"closed": {"users": 64, "duration": "3s"}})
    row.stop()
    return seen["total"]["rate"]["achieved"]


def measure(rig: Rig, kind: str, policy: str, rate: float) -> dict:
    # Over: each key requests five times its quota.
    quota = NEVER if kind != "over" else max(1, round(rate / KEYS * WINDOW / 5))
    row = Row(rig, policy, quota)
    asked(row.weir.port, {"closed": {"users": 4, "duration": "300ms"}})  # connections and code are warm
    seen: list[dict] = []
    begun, clock = time.monotonic(), time.time()
    thread = threading.Thread(target=lambda: kind == "calm" or seen.extend(faults(row.redis, row.admin, begun)))
    thread.start()
    result = asked(row.weir.port, {"open": {"rate": rate, "duration": f"{SECONDS}s", "connections": 256}})
    ended = time.time()
    thread.join()
    row.stop()
    total = result["total"]
    statuses = {int(status): count for status, count in total["statuses"].items()}
    windows = math.floor(ended / WINDOW) - math.floor(clock / WINDOW) + 1
    # A window in which Redis fails admits the quota once more, by the gateway itself, and so does one in which Redis comes back.
    bound = (windows + 3 + 3) * quota * KEYS
    measured = {
        "kind": kind,
        "policy": policy,
        "rate": rate,
        "quota": quota if kind == "over" else None,
        "requests": total["requests"],
        "statuses": statuses,
        "errors": total["errors"]["total"],
        "p50_ms": total["latency"]["p50_ms"],
        "p99_ms": total["latency"]["p99_ms"],
        "max_ms": total["latency"]["max_ms"],
        "worst_second_p99_ms": max(second["latency"]["p99_ms"] for second in result["seconds"] if second["latency"]),
        "generator_lag_p99_ms": total["generator_lag"]["p99_ms"],
        "faults": seen,
        "windows": windows,
        "admitted": statuses.get(200, 0),
        "bound": bound if kind == "over" else None,
    }
    measured["missed"] = missed(measured)
    say(f"{kind}, {policy}: {measured}")
    return measured


def missed(row: dict) -> list[str]:
    allowed = {200} | ({429} if row["kind"] == "over" else set()) | ({503} if row["policy"] == "closed" else set())
    found = []
    if wrong := set(row["statuses"]) - allowed:
        found.append(f"statuses {sorted(wrong)}")
    if row["errors"] or row["requests"]["dropped"]:
        found.append(f"{row['errors']} errors, {row['requests']['dropped']} dropped")
    if row["p99_ms"] >= P99_MS:
        found.append(f"p99 {row['p99_ms']:.1f} ms")
    if any(fault["recovered_s"] > RECOVERY_S for fault in row["faults"]):
        found.append("recovery")
    # With `open` nothing is counted while Redis is away: the bound is of `local` and `closed`.
    if row["bound"] and row["policy"] != "open" and row["admitted"] > row["bound"]:
        found.append(f"{row['admitted']} admitted, bound {row['bound']}")
    return found


def summary(rows: list[dict], where: dict, carried: float) -> str:
    lines = [
        "# Redis killed, stopped and restarted under limits",
        "",
        f"Made by `{where['command']}` at commit {where['commit']} on {where['host']}, {where['date']}. {'; '.join(where['versions'])}.",
        "",
        f"The gateway carries {carried:,.0f} requests/s when every request calls Redis (64 connections, closed loop; gateway and Redis on one core, "
        f"load and upstream on the other); each row is an open loop at half of that for {SECONDS} s.",
        "Recovered: seconds from the moment at which Redis responds again (killed, stopped, restarted) until limits are counted there.",
        "",
        "| | quota | `on_store_failure` | requests | 200 | 429 | 503 | failed | p50 ms | p99 ms | p99 of the worst second | recovered after s "
        "| admitted of at most | missed |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        counts = [f"{row['statuses'].get(status, 0):,}" for status in (200, 429, 503)]
        times = ", ".join(f"{fault['recovered_s']:.2f}" for fault in row["faults"])
        bound = f"{row['admitted']:,} of {row['bound']:,}" if row["bound"] and row["policy"] != "open" else "-"
        lines.append(
            f"| {row['kind']} | {row['quota'] or 'never reached'} | {row['policy']} | {row['requests']['responses']:,} | {' | '.join(counts)} | {row['errors']} "
            f"| {row['p50_ms']:.2f} | {row['p99_ms']:.2f} | {row['worst_second_p99_ms']:.1f} | {times or '-'} | {bound} | {', '.join(row['missed']) or 'none'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--policies", default="local,open,closed")
    parser.add_argument("--kinds", default="calm,unlimited,over")
    parser.add_argument("--rate", type=float, help="requests per second instead of half of the capacity")
    arguments = parser.parse_args()
    rig = Rig(arguments.weir)
    try:
        rig.upstream()
        carried = capacity(rig)
        say(f"capacity {carried:.0f}/s")
        rate = round(arguments.rate or carried / 2)
        rows = [
            measure(rig, kind, policy, rate)
            for kind in arguments.kinds.split(",")
            for policy in (["local"] if kind == "calm" else arguments.policies.split(","))
        ]
    finally:
        rig.close()
    where = environment(output([arguments.weir, "--version"]), output(["redis-server", "--version"]).split(" sha")[0])
    save(arguments.out, {"environment": where, "capacity": carried, "rows": rows}, summary(rows, where, carried))
    if any(row["missed"] for row in rows):
        sys.exit("bars missed")


if __name__ == "__main__":
    main()
