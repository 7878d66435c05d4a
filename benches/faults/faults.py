#!/usr/bin/env python3
"""What must not cost a request: reloads, take-overs by a new process, and upstreams that are killed, stopped and restarted.

    scripts/bench faults [--reloads 100] [--takeovers 10]

64 connections at full speed the whole time; every response but a 2xx, and every refused, reset or timed-out connection counts as a failure.
"""

import argparse
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from generator import USERS, Running
from record import environment, save
from rig import GATEWAY_CORE, LOAD_CORE, Rig, System, free_port, output, say, wait_for


def spaced(port: int, seconds: float, count: int, action) -> dict:
    """Does something `count` times, evenly, under load."""
    running = Running(port, plan={"closed": USERS | {"duration": f"{seconds}s"}})
    begun = time.monotonic()
    for number in range(count):
        due = begun + (number + 1) * (seconds - 1) / (count + 1)
        time.sleep(max(0.0, due - time.monotonic()))
        action(number)
    seen = running.finish()
    return {"requests": seen.requests, "failures": seen.failures()}


class Faults:
    def __init__(self, weir: str):
        self.rig = Rig(weir)
        self.port = free_port()
        self.upstreams = [self.rig.upstream(), self.rig.upstream()]
        self.write(0)
        self.weir = self.spawn_weir()

    def write(self, generation: int) -> Path:
        ports = {"upstream": self.upstreams[0].port, "second": self.upstreams[1].port}
        self.conf = self.rig.render(
            Path(__file__).resolve().parent / "faults.yaml", port=self.port, generation=generation, **ports
        )
        return self.conf

    def spawn_weir(self) -> System:
        return self.rig.spawn("weir", [self.rig.weir, "--config", str(self.conf)], GATEWAY_CORE, self.port)

    def reload(self, number: int) -> None:
        self.write(number + 1)
        self.weir.process.send_signal(signal.SIGHUP)

    def take_over(self, number: int) -> None:
        old, self.weir = self.weir, self.spawn_weir()
        if old.process.wait(timeout=60) != 0:
            raise RuntimeError(f"take-over {number}: the old process ended with {old.process.returncode}")
        old.process = None

    def fault(self, number: int) -> None:
        """One of the three faults of one of the two upstreams, for two seconds; then both live for two."""
        upstream = self.upstreams[number % 2]
        kind = ("kill", "stop", "restart")[number // 2 % 3]
        pids = upstream.pids
        if kind == "stop":
            for pid in pids:
                subprocess.run(["kill", "-STOP", str(pid)], check=True)
            time.sleep(2)
            for pid in pids:
                subprocess.run(["kill", "-CONT", str(pid)], check=True)
        else:
            conf = upstream.process.args[-3]
            upstream.stop()
            if kind == "kill":
                time.sleep(2)
            command = ["nginx", "-c", conf, "-g", "daemon off;"]
            self.upstreams[number % 2] = self.rig.spawn(upstream.name, command, LOAD_CORE, upstream.port)
        say(f"  {kind} of upstream {number % 2}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the gateway's binary")
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--takeovers", type=int, default=10)
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--out", type=Path, help="folder for results.json and summary.md")
    arguments = parser.parse_args()
    results = {"environment": environment(output([arguments.weir, "--version"]))}
    faults = Faults(arguments.weir)
    try:
        wait_for(faults.port)
        for name, count, seconds, action in (
            ("reloads", arguments.reloads, 30, faults.reload),
            ("take-overs", arguments.takeovers, 40, faults.take_over),
            ("faults of upstreams", arguments.faults, 5 * arguments.faults + 2, faults.fault),
        ):
            seen = spaced(faults.port, seconds, count, action)
            seen["generation"] = re.search(
                r"(?i)x-generation: (\d+)", output(["curl", "-si", f"http://127.0.0.1:{faults.port}/"])
            )[1]
            results[name] = {"count": count} | seen
            say(f"{name}: {results[name]}")
    finally:
        faults.rig.close()
    lines = ["# What must not cost a request", "", f"Made by `{results['environment']['command']}`.", ""]
    lines += ["| under load of 64 connections | times | requests | failed |", "|---|---|---|---|"]
    for name, seen in results.items():
        if name != "environment":
            lines.append(f"| {name} | {seen['count']} | {seen['requests']} | {'; '.join(seen['failures']) or 'none'} |")
    text = "\n".join(lines) + "\n"
    save(arguments.out, results, text)
    sys.exit(any(seen.get("failures") for seen in results.values()))


if __name__ == "__main__":
    main()
