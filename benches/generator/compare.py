"""gauge's generator against wrk, oha, hey and k6, on one nginx.

1. Closed loop, 64 connections: requests per CPU-second of the generator, the two alternating in rounds of one second; the median of the ratios.
2. Open loop at half of what the closed loop reached: the generator's own lag.
3. Open loop at three rates: p50 and p99 beside those of oha (--latency-correction), and of k6 (constant arrival rate) at rates that it reaches, of a
   server whose responses take a time that is known (timed.py). The same of nginx, whose responses take less than the tools' own delays: there these differ,
   and the rows have no bar.
4. A server that stands still for a second in every ten: the p99 that gauge, wrk and hey report. wrk 4.1 adds at its end the requests that it did not
   send meanwhile, as if they had taken as long; hey does not.

The generator runs on one core and nginx on the other. CPU time is that of the whole process, from the kernel (RUSAGE_CHILDREN).
"""

import argparse
import contextlib
import dataclasses
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
import rig
from record import environment, save

CONF = """daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  server {{ listen 127.0.0.1:{port} backlog=4096; default_type application/json; location / {{ return 200 '{{"id":7,"name":"weir","items":[1,2,3]}}'; }} }} }}
"""
K6 = """import http from 'k6/http';
export const options = { discardResponseBodies: true, summaryTrendStats: ['med', 'p(99)', 'count'], scenarios: { load: SCENARIO } };
export default function () { http.get('URL'); }
export function handleSummary(data) { return { 'OUT': JSON.stringify(data) }; }
"""
LOAD_CORE, SERVER_CORE = "1", "0"
# Requests per CPU-second of gauge, in those of the peer.
BARS = {"wrk": 1.0, "oha": 2.0, "hey": 2.0, "k6": 8.0}
LAG_US, STALL_MS = 1000, 800
STALL_EVERY_S, STALL_S, STALLS = 10, 1, 2


def same(ours: float, theirs: float) -> bool:
    """Two percentiles in microseconds agree: within 5 % or 50 us."""
    return abs(ours - theirs) <= max(0.05 * theirs, 50)


def met(is_met: bool) -> str:
    return "met" if is_met else "missed"


def run(command: list[str], cwd: Path) -> tuple[str, float]:
    """Standard output of a command on the generator's core, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        ["taskset", "-c", LOAD_CORE, *command], cwd=cwd, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        raise RuntimeError(f"{command[0]} ended with {result.returncode}: {result.stderr[-500:]}")
    return result.stdout, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


class Bench:
    def __init__(self, folder: Path) -> None:
        self.gauge, self.folder, self.port = rig.need("gauge", "scripts/bench builds it"), folder, rig.free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        (folder / "nginx.conf").write_text(CONF.format(port=self.port))
        self.server = subprocess.Popen(
            ["taskset", "-c", SERVER_CORE, "nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"],
            stderr=subprocess.DEVNULL,
        )
        rig.wait_for(self.port)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Measures the server whose times are known instead."""
        fast, port = self.url, rig.free_port()
        self.url = f"http://127.0.0.1:{port}/"
        program = [sys.executable, str(Path(__file__).with_name("timed.py")), str(port)]
        with subprocess.Popen(["taskset", "-c", SERVER_CORE, *program]) as server:
            try:
                rig.wait_for(port)
                yield
            finally:
                server.terminate()
                self.url = fast

    def stop(self) -> None:
        self.server.terminate()
        self.server.wait()

    def stall(self, seconds: int) -> None:
        """Stops the server for a second in every ten."""
        for _ in range(seconds // STALL_EVERY_S):
            time.sleep(STALL_EVERY_S / 2)
            for number, wait in ((signal.SIGSTOP, STALL_S), (signal.SIGCONT, STALL_EVERY_S / 2 - STALL_S)):
                for pid in rig.tree(self.server.pid):
                    os.kill(pid, number)
                time.sleep(wait)

    def stalled(self, *command: str) -> str:
        """What a generator with 64 connections says of a server that stalls."""
        thread = threading.Thread(target=self.stall, args=(STALLS * STALL_EVERY_S,))
        thread.start()
        out, _ = run([*command, "-c", "64", self.url], self.folder)
        thread.join()
        return out

    def k6(self, scenario: str) -> tuple[dict, float]:
        out = self.folder / "k6.json"
        script = K6.replace("SCENARIO", scenario).replace("URL", self.url).replace("OUT", str(out))
        (self.folder / "k6.js").write_text(script)
        k6 = os.environ.get("K6", "k6")
        _, cpu = run([k6, "run", "--quiet", "--no-usage-report", "k6.js"], self.folder)
        return json.loads(out.read_text())["metrics"], cpu

    def closed(self, tool: str, seconds: int) -> tuple[int, float]:
        """Requests and CPU seconds of a closed loop with 64 connections."""
        if tool == "gauge":
            out, cpu = run(
                [self.gauge, "load", self.url, "-c", "64", "-t", "1", "-d", f"{seconds}s", "-q", "--json", "-"],
                self.folder,
            )
            total = json.loads(out)["total"]
            if total["errors"]["total"]:
                raise RuntimeError(f"errors: {total['errors']}")
            return total["requests"]["responses"], cpu
        if tool == "wrk":
            out, cpu = run(["wrk", "-c", "64", "-t", "1", "-d", f"{seconds}s", self.url], self.folder)
            return int(re.search(r"(\d+) requests in", out)[1]), cpu
        if tool == "hey":
            out, cpu = run(["hey", "-c", "64", "-z", f"{seconds}s", "-cpus", "1", self.url], self.folder)
            return int(re.search(r"\[200\]\s+(\d+) responses", out)[1]), cpu
        if tool == "oha":
            out, cpu = run(
                [
                    os.environ.get("OHA", "oha"),
                    "-c",
                    "64",
                    "-z",
                    f"{seconds}s",
                    "--no-tui",
                    "--output-format",
                    "json",
                    self.url,
                ],
                self.folder,
            )
            return json.loads(out)["statusCodeDistribution"]["200"], cpu
        metrics, cpu = self.k6(f"{{ executor: 'constant-vus', vus: 64, duration: '{seconds}s' }}")
        return metrics["http_reqs"]["values"]["count"], cpu

    def open(self, tool: str, rate: int, seconds: int, extra: tuple[str, ...] = ()) -> dict:
        """p50 and p99 in microseconds at a fixed rate, and what came of the rate."""
        if tool == "gauge":
            command = [
                self.gauge,
                "load",
                self.url,
                "-c",
                "64",
                "-t",
                "1",
                "-r",
                str(rate),
                "-d",
                f"{seconds}s",
                "-q",
                "--json",
                "-",
                *extra,
            ]
            out, cpu = run(command, self.folder)
            total = json.loads(out)["total"]
            lag = total["generator_lag"]
            return {
                "p50": total["latency"]["p50_ms"] * 1e3,
                "p99": total["latency"]["p99_ms"] * 1e3,
                "rate": total["rate"]["achieved"],
                "dropped": total["requests"]["dropped"],
                "lag_p50": lag["p50_ms"] * 1e3,
                "lag_p99": lag["p99_ms"] * 1e3,
                "lag_max": lag["max_ms"] * 1e3,
                "cpu_us": cpu * 1e6 / total["requests"]["responses"],
            }
        if tool == "oha":
            oha = os.environ.get("OHA", "oha")
            out, cpu = run(
                [
                    oha,
                    "-c",
                    "64",
                    "-q",
                    str(rate),
                    "-z",
                    f"{seconds}s",
                    "--latency-correction",
                    "--no-tui",
                    "--output-format",
                    "json",
                    self.url,
                ],
                self.folder,
            )
            result = json.loads(out)
            percentiles, count = result["latencyPercentiles"], result["statusCodeDistribution"]["200"]
            return {
                "p50": percentiles["p50"] * 1e6,
                "p99": percentiles["p99"] * 1e6,
                "rate": count / seconds,
                "cpu_us": cpu * 1e6 / count,
            }
        scenario = f"{{ executor: 'constant-arrival-rate', rate: {rate}, timeUnit: '1s', duration: '{seconds}s', preAllocatedVUs: 64, maxVUs: 64 }}"
        metrics, cpu = self.k6(scenario)
        values, count = metrics["http_req_duration"]["values"], metrics["http_reqs"]["values"]["count"]
        return {
            "p50": values["med"] * 1e3,
            "p99": values["p(99)"] * 1e3,
            "rate": count / seconds,
            "cpu_us": cpu * 1e6 / count,
        }


def have(tool: str) -> bool:
    return bool(shutil.which(os.environ.get(tool.upper(), tool)))


def versions(peers: list[str]) -> list[str]:
    """What each program says of itself."""
    said = {"gauge": ["--version"], "wrk": ["-v"], "oha": ["--version"], "k6": ["version"]}
    lines = [
        rig.output([os.environ.get(tool.upper(), tool), *said[tool]]) for tool in ["gauge", *peers] if tool in said
    ]
    return [line.splitlines()[0] for line in [*lines, rig.output(["nginx", "-v"])] if line]


@dataclasses.dataclass
class Comparison:
    """What the parts have in common."""

    bench: Bench
    peers: list[str]
    rounds: int
    seconds: int
    # Requests a second of a closed loop.
    capacity: int
    say: Callable[[str], None]


def in_turns(rounds: int, peer: str) -> Iterator[list[str]]:
    """The order within each round."""
    return (["gauge", peer] if turn % 2 else [peer, "gauge"] for turn in range(rounds))


def closed(of: Comparison) -> dict:
    of.say(
        "| peer | gauge, requests per CPU-second | peer | median of ratios | least | most | bar | |\n|---|---|---|---|---|---|---|---|"
    )
    raw = {}
    for peer in of.peers:
        # Starting k6 and hey costs CPU time of its own: a longer run makes it small.
        rounds, seconds = (of.rounds, of.seconds) if peer in ("wrk", "oha") else (max(of.rounds // 4, 3), 4)
        pairs = raw[peer] = []
        for order in in_turns(rounds, peer):
            results = {tool: of.bench.closed(tool, seconds) for tool in order}
            pairs.append({tool: count / cpu for tool, (count, cpu) in results.items()})
        ratios = [pair["gauge"] / pair[peer] for pair in pairs]
        ours, theirs = (statistics.median(pair[tool] for pair in pairs) for tool in ("gauge", peer))
        middle, bar = statistics.median(ratios), BARS[peer]
        of.say(
            f"| {peer} | {ours:.0f} | {theirs:.0f} | {middle:.2f} | {min(ratios):.2f} | {max(ratios):.2f} | >= {bar} | {met(middle >= bar)} |"
        )
    return raw


def lag(of: Comparison) -> dict:
    of.say(
        "| at half of that | lag p50, us | lag p99, us | most, us | p99, us | own CPU, us/request | lag p99 < 1 ms |\n|---|---|---|---|---|---|---|"
    )
    raw = {}
    for label, extra in (
        ("sleeping", ()),
        ("watching the clock for 100 us", ("--busy-poll", "100us")),
        ("always watching", ("--busy-poll", "1s")),
    ):
        result = raw[label] = of.bench.open("gauge", of.capacity // 2, 5, extra)
        of.say(
            f"| {label} | {result['lag_p50']:.1f} | {result['lag_p99']:.1f} | {result['lag_max']:.0f} | {result['p99']:.0f} | {result['cpu_us']:.1f} "
            f"| {met(result['lag_p99'] < LAG_US)} |"
        )
    return raw


def latency(of: Comparison) -> list:
    with of.bench.timed():
        raw = agreement(of, "5 to 25 ms", {"oha": [200, 500, 1000], "k6": [200, 500, 1000]}, has_bar=True)
    of.say("")
    return raw + agreement(of, "nginx", {"oha": [of.capacity // 20], "k6": [1000]}, has_bar=False)


def agreement(of: Comparison, server: str, rates: dict[str, list[int]], has_bar: bool) -> list:
    """What gauge and each peer measure of one server, in turns."""
    of.say(
        f"| {server}: rate | peer | p50, us: gauge | peer | p99, us: gauge | peer | reached | within 5 % or 50 us |\n|---|---|---|---|---|---|---|---|"
    )
    raw = []
    for peer, rate in [(tool, rate) for tool in rates if tool in of.peers for rate in rates[tool]]:
        rows = {"gauge": [], peer: []}
        for order in in_turns(of.rounds // 2, peer):
            for tool in order:
                rows[tool].append(of.bench.open(tool, rate, 3))
        raw.append({"server": server, "rate": rate, **rows})
        ours, theirs = (
            {key: statistics.median(seen[key] for seen in rows[tool]) for key in ("rate", "p50", "p99")}
            for tool in ("gauge", peer)
        )
        agree = all(same(ours[key], theirs[key]) for key in ("p50", "p99"))
        of.say(
            f"| {rate} | {peer} | {ours['p50']:.0f} | {theirs['p50']:.0f} | {ours['p99']:.0f} | {theirs['p99']:.0f} "
            f"| {ours['rate']:.0f}, {theirs['rate']:.0f} | {met(agree) if has_bar else 'no bar'} |"
        )
    return raw


def stall(of: Comparison) -> dict:
    of.say("| a server that stands still for 1 s in every 10 | p99, ms | >= 800 ms |\n|---|---|---|")
    stalled, lasting, rate = of.bench.stalled, f"{STALLS * STALL_EVERY_S}s", str(of.capacity // 20)
    told = stalled(of.bench.gauge, "load", "-t", "1", "-r", rate, "-d", lasting, "-q", "--json", "-")
    raw = {"gauge": json.loads(told)["total"]["latency"]["p99_ms"]}
    of.say(f"| gauge, open loop | {raw['gauge']:.1f} | {met(raw['gauge'] >= STALL_MS)} |")
    if "wrk" in of.peers:
        told = stalled("wrk", "--latency", "-t", "1", "-d", lasting)
        raw["wrk"] = rig.percentile(told, "99%") / 1e3
    if "hey" in of.peers:
        told = stalled("hey", "-z", lasting, "-cpus", "1")
        raw["hey"] = float(re.search(r"99%+ in ([\d.]+) secs", told)[1]) * 1e3
    labels = {"wrk": "wrk, which adds what it did not send", "hey": "hey"}
    for peer in [peer for peer in labels if peer in raw]:
        of.say(f"| {labels[peer]} | {raw[peer]:.1f} | {'shown' if raw[peer] >= STALL_MS else 'not shown'} |")
    return raw


PARTS = {"closed": closed, "lag": lag, "latency": latency, "stall": stall}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--peers", default="wrk,oha,hey,k6")
    parser.add_argument("--part", choices=PARTS, action="append")
    options = parser.parse_args()
    peers = [peer for peer in options.peers.split(",") if have(peer)]
    lines, raw = ["# The load generator, against others", ""], {}

    def say(line: str) -> None:
        rig.say(line)
        lines.append(line)

    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        bench = Bench(Path(name))
        try:
            capacity = bench.closed("gauge", 1)[0]
            where = environment(*versions(peers))
            say(
                f"{where['date']}, {where['host']}: {where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {where['commit']}; "
                f"{'; '.join(where['versions'])}. Made by `{where['command']}`. Closed loop, 64 connections: {capacity}/s.\n"
            )
            of = Comparison(bench, peers, options.rounds, options.seconds, capacity, say)
            for part in options.part or PARTS:
                raw[part] = PARTS[part](of)
                say("")
        finally:
            bench.stop()
    save(options.out, {"environment": where, **raw}, "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
