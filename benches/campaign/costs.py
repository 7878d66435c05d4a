"""What a campaign of gauge costs: CPU time of sampling, pages and lists of a history with a thousand campaigns, size and time of a report.

The history is SQLite, with the first round of benches/runs/2026-11-22-vm/congestion/cubic stored a thousand times under other dates: six thousand trials.
The report is the one with the most trials under benches/runs, or that of --report. The system that is sampled is `gauge demo` under 16 users.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
import rig
from record import environment, save

FIXTURE = rig.ROOT / "benches/runs/2026-11-22-vm/congestion/cubic/raw"
DAY_MS = 86_400_000
TICKS = os.sysconf("SC_CLK_TCK")
# Longest page or list, share of a core, size and time of a report.
PAGE_MS, CORE, REPORT_BYTES, REPORT_S = 200, 0.01, 5_000_000, 2.0


def later(folder: Path, number: int) -> Path:
    """The first round of the fixture, as many hours later."""
    raw = folder / f"{number}" / "raw"
    raw.mkdir(parents=True)
    shift = number * DAY_MS // 24
    for file in [FIXTURE / "campaign.json", *sorted(FIXTURE.glob("r01-*.json"))]:
        document = json.loads(file.read_text())
        for key in ("started_unix_ms", "ended_unix_ms"):
            if document.get(key) is not None:
                document[key] += shift
        if "rounds" in document:
            document["rounds"] = 1
        (raw / file.name).write_text(json.dumps(document))
    return raw.parent


def timed(times: int, action: Callable[[], object]) -> dict:
    """Milliseconds of an action that is done several times."""
    seen = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        seen.append((time.perf_counter() - began) * 1000)
    return {"median_ms": statistics.median(seen), "max_ms": max(seen), "times": times}


class Store:
    """A history with a thousand campaigns, and `gauge ui` on it."""

    def __init__(self, folder: Path, campaigns: int) -> None:
        self.file = folder / "history.db"
        self.gauge = rig.need("gauge", "scripts/bench builds it")
        for first in range(0, campaigns, 100):
            part = Path(tempfile.mkdtemp(dir=folder))
            folders = [str(later(part, number)) for number in range(first, min(first + 100, campaigns))]
            self.run("import", *folders)
            shutil.rmtree(part)

    def run(self, *words: str) -> str:
        return rig.output([self.gauge, *words, "--store", str(self.file)])

    def lists(self) -> dict:
        ids = re.findall(r"\b[0-9a-f]{12}\b", self.run("list", "--limit", "1000"))
        commands = {
            "list": [],
            "list --api weir --limit 1000": [],
            "summary": [],
            "summary --comparison": [],
            "trend weir p99": [],
            f"show {ids[0]}": [],
            f"compare {ids[-1]} {ids[0]}": [],
        }
        # `compare` ends with 1 where something is worse.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
        for words in commands:
            command = [self.gauge, *words.split(), "--store", str(self.file)]
            commands[words] = timed(10, lambda command=command: subprocess.run(command, **quiet))
        return {re.sub(r"[0-9a-f]{12}", "ID", words): seen for words, seen in commands.items()}, (ids[-1], ids[0])

    def pages(self, first: str, last: str) -> dict:
        ui = subprocess.Popen(
            [
                self.gauge,
                "ui",
                "--listen",
                "127.0.0.1:0",
                "--store",
                str(self.file),
                "--folder",
                str(self.file.parent / "ui"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            url = re.search(r"http://\S+?/", ui.stdout.readline())[0]
            paths = [
                "",
                "runs",
                "runs?page=20",
                f"runs/{last}",
                f"compare?a={first}&b={last}",
                "trends?system=weir&metric=p99_ms",
            ]
            seen = {}
            for path in paths:
                sizes = []

                def fetch(path: str = path, sizes: list = sizes) -> None:
                    with urllib.request.urlopen(url + path, timeout=30) as response:
                        sizes.append(len(response.read()))

                name = "/" + path.replace(first, "ID").replace(last, "ID")
                seen[name] = timed(20, fetch) | {"bytes": sizes[-1]}
            return seen
        finally:
            ui.terminate()
            ui.wait(10)


def sampling(folder: Path) -> dict:
    """CPU time of the process of `gauge run`, which samples, while another one makes load."""
    evaluation = folder / "sampling.yaml"
    evaluation.write_text(f"""name: sampling
api: {rig.ROOT}/examples/evaluations/demo.openapi.yaml
systems:
  - name: demo
    command: ["{{gauge}}", demo, --listen, "{{address}}:{{http}}"]
    ports: {{http: "http://127.0.0.1:8090"}}
    ready: "http://{{address}}:{{http}}/healthz"
repeats: 1
workloads:
  - {{name: read, operations: [{{id: getItem, params: {{id: 7}}}}], load: {{closed: {{users: 16, duration: 40s}}}}}}
""")
    events = folder / "events.jsonl"
    command = [
        "gauge",
        "run",
        str(evaluation),
        "--out",
        str(folder / "out"),
        "--store",
        "none",
        "--events",
        str(events),
    ]
    said = folder / "said"
    with said.open("w") as out:
        run = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    def cpu() -> float:
        fields = Path(f"/proc/{run.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def moments() -> int:
        return events.read_text().count('"moment"') if events.exists() else 0

    deadline = time.monotonic() + 60
    while moments() < 5:
        if time.monotonic() > deadline or run.poll() is not None:
            raise RuntimeError(f"gauge run began no trial: {said.read_text()}")
        time.sleep(0.1)
    began, before = time.monotonic(), cpu()
    time.sleep(30)
    seconds, used = time.monotonic() - began, cpu() - before
    if run.wait(120):
        raise RuntimeError(f"gauge run ended with {run.returncode}: {said.read_text()}")
    return {"seconds": seconds, "cpu_s": used, "share": used / seconds}


def report(file: Path) -> dict:
    """Size of a report, and how long Chromium takes from its start to the whole document and to that of an empty page."""
    chromium = shutil.which("chromium") or rig.need("chromium-browser", "apt install chromium")

    def load(url: str) -> None:
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", url]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    load("about:blank")
    seen = {
        "bytes": file.stat().st_size,
        "file": str(file.relative_to(rig.ROOT)) if file.is_relative_to(rig.ROOT) else file.name,
    }
    return seen | {"opened": timed(5, lambda: load(file.as_uri())), "empty": timed(5, lambda: load("about:blank"))}


def most_trials() -> Path:
    """The largest report."""
    return max((rig.ROOT / "benches/runs").glob("**/report.html"), key=lambda file: file.stat().st_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--campaigns", type=int, default=1000)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    where = environment(rig.output(["gauge", "--version"]))
    lines = ["# What a campaign costs", ""]
    lines.append(
        f"{where['date']}, {where['host']}: {where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {where['commit']}; "
        f"{'; '.join(where['versions'])}. Made by `{where['command']}`."
    )

    def verdict(value: float, bar: float) -> str:
        return "met" if value < bar else "missed"

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sampled = sampling(folder)
        store = Store(folder, options.campaigns)
        lists, ids = store.lists()
        pages = store.pages(*ids)
        size = store.file.stat().st_size
    opened = report(options.report or most_trials())
    lines += [
        "",
        f"Sampling: {sampled['cpu_s']:.2f} s of CPU time in {sampled['seconds']:.0f} s, {sampled['share'] * 100:.2f} % of a core (bar 1 %, {verdict(sampled['share'], CORE)}).",
        "",
        f"A history of {options.campaigns} campaigns of six trials each (SQLite, {size / 1e6:.0f} MB); the bar is {PAGE_MS} ms for the longest time.",
        "",
        "| page or command | n | median ms | max ms | |",
        "|---|---|---|---|---|",
    ]
    for what, seen in [*pages.items(), *((f"gauge {words}", seen) for words, seen in lists.items())]:
        lines.append(
            f"| `{what}` | {seen['times']} | {seen['median_ms']:.0f} | {seen['max_ms']:.0f} | {verdict(seen['max_ms'], PAGE_MS)} |"
        )
    seconds = opened["opened"]["max_ms"] / 1000
    lines += [
        "",
        f"The report {opened['file']}: {opened['bytes'] / 1e6:.2f} MB (bar 5 MB, {verdict(opened['bytes'], REPORT_BYTES)}). Chromium was started, had read it and ended after "
        f"{opened['opened']['median_ms'] / 1000:.2f} s, at most {seconds:.2f} s (bar 2 s, {verdict(seconds, REPORT_S)}); with an empty page after {opened['empty']['median_ms'] / 1000:.2f} s.",
    ]
    results = {"environment": where, "sampling": sampled, "pages": pages, "lists": lists, "report": opened}
    save(options.out, results, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
