"""What traces over OTLP and open consoles cost, against the same gateway without them.

All gateways run at once, pinned to one core, and are loaded in turn, in windows of a second, in changing order: each round has one window of each.
The figures are the medians of the ratios of a round. The collector and the viewers of the console run on the other core. A round with anything but 2xx
is void: a collector that is slow or away must not cost a request.
"""

import contextlib
import http.client
import http.server
import json
import multiprocessing
import os
import re
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))

import record
from rig import GATEWAY_CORE, LOAD_CORE, Rig, System, arguments, free_port, output, say
from table import window

TEMPLATE = Path(__file__).with_name("weir.yaml")
VIEWERS = 5


@dataclass
class Case:
    """A gateway beside the bare one. `sample` of its requests are traced; `None`: it has no traces."""

    name: str
    sample: str | None
    collector: str = "well"
    viewers: int = 0
    bar: float | None = None


CASES = [
    Case("traces-10", "10%", bar=1.03),
    Case("traces-100", "100%", bar=1.12),
    Case("traces-10-collector-away", "10%", "away"),
    Case("traces-10-collector-slow", "10%", "slow"),
    Case("traces-100-collector-slow", "100%", "slow"),
    Case("console", None, viewers=VIEWERS, bar=1.01),
]


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes whatever is sent to it; under /slow it never responds."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/slow"):
            time.sleep(3600)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def collect(port: int) -> None:
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Collector).serve_forever()


def view(port: int) -> None:
    """What browsers with the page Overview do: two requests a second each."""
    os.sched_setaffinity(0, {int(LOAD_CORE)})

    def browser() -> None:
        rows = 0
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            while True:
                for path in (f"/console/api/live?from={rows}", "/console/api/overview"):
                    connection.request("GET", path)
                    response = connection.getresponse()
                    body = response.read()
                    if response.status != 200:
                        sys.exit(f"the console responds with {response.status}: {body[:200]}")
                    if "live" in path:
                        rows = json.loads(body)["next"]
                time.sleep(1)

    browsers = [threading.Thread(target=browser) for _ in range(VIEWERS)]
    for one in browsers:
        one.start()
    for one in browsers:
        one.join()


def start(rig: Rig, name: str, case: Case | None, collector: int) -> tuple[System, int]:
    """Starts a gateway; its admin port with it."""
    traces = ""
    if case and case.sample:
        port = free_port() if case.collector == "away" else collector
        path = "slow" if case.collector == "slow" else "v1/traces"
        traces = f'telemetry: {{traces: {{endpoint: "http://127.0.0.1:{port}/{path}", sample: {case.sample}}}}}'
    port, admin = free_port(), free_port()
    conf = rig.render(TEMPLATE, port=port, admin=admin, telemetry=traces)
    version = output([rig.weir, "--version"])
    return rig.spawn(name, [rig.weir, "--config", str(conf)], GATEWAY_CORE, port, version), admin


def metrics(admin: int) -> dict[str, float]:
    """Spans that arrived and that were lost, by the gateway's own count."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", admin, timeout=5)) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    lines = re.findall(r"^(telemetry_(?:spans|dropped)_total)(\{[^}]*\})? (\S+)$", text, re.M)
    return {name + labels: float(value) for name, labels, value in lines if "metrics" not in labels}


def measure(bare: System, systems: list[System], rounds: int) -> dict[str, list[tuple[dict, dict]]]:
    """Windows of each gateway, with that of the bare one in the same round."""
    found: dict[str, list[tuple[dict, dict]]] = {system.name: [] for system in systems}
    every = [bare, *systems]
    for number in range(rounds + 1):
        at = number % len(every)
        seen = {system.name: window(system, "/", {}, None) for system in every[at:] + every[:at]}
        # The first round warms up.
        for system in systems:
            if number and seen[bare.name] and seen[system.name]:
                found[system.name].append((seen[bare.name], seen[system.name]))
        say(f"round {number} of {rounds}")
    return found


def main() -> None:
    options = arguments(__doc__, 24)
    rig = Rig(options.weir)
    helpers: list[multiprocessing.Process] = []
    admins: dict[str, int] = {}
    try:
        rig.upstream()
        collector = free_port()
        helpers.append(multiprocessing.Process(target=collect, args=(collector,), daemon=True))
        helpers[0].start()
        bare, _ = start(rig, "bare", None, collector)
        systems = []
        for case in CASES:
            system, admins[case.name] = start(rig, case.name, case, collector)
            systems.append(system)
            if case.viewers:
                helpers.append(multiprocessing.Process(target=view, args=(admins[case.name],), daemon=True))
                helpers[-1].start()
        found = measure(bare, systems, options.rounds)
        if not all(helper.is_alive() for helper in helpers):
            raise RuntimeError("the collector, or the viewers of the console, ended early")
        spans = {name: metrics(admin) for name, admin in admins.items()}
    finally:
        for helper in helpers:
            helper.kill()
        rig.close()
    results = {"environment": record.environment(bare.version), "cases": {}}
    lines = [
        "| case | CPU against bare (least, most) | bar | | rounds | spans sent | lost |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        rounds = found[case.name]
        if not rounds:
            raise RuntimeError(f"{case.name}: no round was valid")
        cpu = record.spread(other["cpu_us"] / one["cpu_us"] for one, other in rounds)
        lost = sum(count for name, count in spans[case.name].items() if "dropped" in name)
        sent = sum(count for name, count in spans[case.name].items() if "spans" in name)
        results["cases"][case.name] = {"cpu": cpu, "bar": case.bar, "spans": spans[case.name], "rounds": rounds}
        verdict = "" if case.bar is None else "met" if cpu["ratio"] <= case.bar else "missed"
        lines.append(
            f"| {case.name} | {cpu['ratio']:.3f} ({cpu['ratio_min']:.3f}, {cpu['ratio_max']:.3f}) | {case.bar or 'none'} | {verdict} "
            f"| {len(rounds)} of {options.rounds} | {sent:.0f} | {lost:.0f} |"
        )
    record.save(options.out, results, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
