#!/usr/bin/env python3
"""What `make perf-baseline`, `perf-cached`, `perf-report` and `perf-all` do: the cache comparison of the inference gateway with k6.

    perf.py baseline|cached|report|all --k6 K6 [--weir WEIR] [--out DIR]

A measurement starts a gateway of its own, with the cache off (baseline) or on (cached) and without limits, runs cache_test.js against it, and samples its CPU
time and memory. With BASE_URL in the environment it uses the gateway there instead; its cache must then have been switched by hand, and CPU and memory are not known.
K6_SUMMARY_OUT is where its summary goes (DIR/baseline.json, DIR/cached.json). USERS (40), DURATION (20s) and TARGET (/slow) go to k6.

The report reads both summaries, in the form of handleSummary or of --summary-export, and writes comparison.md, .json and .csv. It refuses two runs that do not
differ in what is compared: the baseline must have no hit at all, the cached run some.
"""

import argparse
import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
LANES = {"baseline": "off", "cached": "on"}


class NotValid(Exception):
    """Why a system or a comparison is worth nothing."""


# --- a gateway of our own


class Gateway:
    """A weir on a free port, with its CPU time and its largest resident memory."""

    def __init__(self, program: str, cache: bool) -> None:
        environment = os.environ | {
            "HOST": "127.0.0.1",
            "PORT": "0",
            "RATE_LIMIT_ENABLED": "false",
            "CACHE_ENABLED": str(cache).lower(),
        }
        self.process = subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, text=True)
        self.url = ""
        for line in self.process.stdout:
            if found := re.match(r"listening on (http://\S+)", line):
                self.url = found[1]
                break
        if not self.url:
            raise NotValid(f"{program} did not start (exit code {self.process.wait()})")
        # What it writes later must not fill the pipe.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.began, self.cpu_at_start = time.monotonic(), self.cpu_seconds()

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def usage(self) -> dict[str, float]:
        """Mean CPU in percent of one core since the start, and the largest resident memory in MiB."""
        seconds = time.monotonic() - self.began
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        largest = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
        return {"cpu_percent": 100 * (self.cpu_seconds() - self.cpu_at_start) / seconds, "memory_mib": largest}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# --- a system


def run_lane(name: str, k6: str, weir: str | None, out: Path) -> None:
    summary = Path(os.environ.get("K6_SUMMARY_OUT") or out / f"{name}.json")
    summary.parent.mkdir(parents=True, exist_ok=True)
    summary.unlink(missing_ok=True)
    url = os.environ.get("BASE_URL")
    if not url and not weir:
        raise NotValid("there is neither BASE_URL nor a gateway to start (--weir)")
    gateway = None if url else Gateway(weir, cache=name == "cached")
    usage: dict[str, float] = {}
    try:
        base = url or gateway.url
        command = [k6, "run", "--quiet", "--no-usage-report", str(HERE / "cache_test.js")]
        print(f"== {name}: cache {LANES[name]}, {base}", flush=True)
        environment = os.environ | {"BASE_URL": base, "K6_SUMMARY_OUT": str(summary), "CACHE": LANES[name]}
        code = subprocess.run(command, env=environment).returncode
        if gateway:
            usage = gateway.usage()
    finally:
        if gateway:
            gateway.stop()
    if summary.exists():
        document = json.loads(summary.read_text())
        summary.write_text(json.dumps(document | {"gateway": usage or None}, indent=1) + "\n")
    if code != 0:
        raise NotValid(f"{name}: k6 ended with {code}" + (" (a threshold was broken)" if code == 99 else ""))


# --- the report

# name, title, unit, whether less is better
FIGURES = [
    ("rps", "requests/s"),
    ("p50_ms", "p50, ms"),
    ("p90_ms", "p90, ms"),
    ("p95_ms", "p95, ms"),
    ("p99_ms", "p99, ms"),
    ("errors_percent", "errors, %"),
    ("cpu_percent", "CPU, % of a core"),
    ("memory_mib", "memory, MiB"),
    ("hit_ratio", "hit ratio"),
]


def values(document: dict, metric: str) -> dict:
    """A metric's figures: below "values" in handleSummary's form, beside the thresholds in that of --summary-export."""
    found = document.get("metrics", {}).get(metric) or {}
    return found.get("values", found)


def share(figures: dict) -> float | None:
    """A rate's share: "rate", or "value" in the older form."""
    return figures.get("rate", figures.get("value"))


def read(path: Path) -> dict[str, float | None]:
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise NotValid(f"{path}: {error.strerror}; make perf-baseline and make perf-cached write the two") from None
    except ValueError as error:
        raise NotValid(f"{path} is not JSON: {error}") from None
    duration, requests = values(document, "http_req_duration"), values(document, "http_reqs")
    if "rate" not in requests or "p(95)" not in duration:
        raise NotValid(f"{path} is no summary of k6: it has no http_reqs or http_req_duration")
    failed = share(values(document, "http_req_failed"))
    usage = document.get("gateway") or {}
    return {
        "rps": requests["rate"],
        "p50_ms": duration.get("med"),
        "p90_ms": duration.get("p(90)"),
        "p95_ms": duration.get("p(95)"),
        "p99_ms": duration.get("p(99)"),
        "errors_percent": None if failed is None else 100 * failed,
        "cpu_percent": usage.get("cpu_percent"),
        "memory_mib": usage.get("memory_mib"),
        "hit_ratio": share(values(document, "cache_hit")),
    }


def compare(baseline: dict, cached: dict) -> dict:
    if baseline["hit_ratio"] is None or cached["hit_ratio"] is None:
        raise NotValid(
            "a summary does not say its hit ratio (metric cache_hit): whether the cache was on cannot be known"
        )
    if baseline["hit_ratio"] > 0:
        raise NotValid(f"the baseline was run with the cache on: hit ratio {baseline['hit_ratio']:.3f}, and must be 0")
    if cached["hit_ratio"] == 0:
        raise NotValid("the cached run was run with the cache off: hit ratio 0")
    delta = {
        name: None
        if None in (baseline[name], cached[name]) or baseline[name] == 0
        else 100 * (cached[name] / baseline[name] - 1)
        for name, _ in FIGURES
    }
    return {
        "generated_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "baseline": baseline,
        "cached": cached,
        "delta_pct": delta,
    }


def shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def report(out: Path) -> None:
    names = [out / f"{lane}.json" for lane in LANES]
    result = compare(*map(read, names))
    (out / "comparison.json").write_text(json.dumps(result, indent=1) + "\n")
    rows = [(title, *(result[part][name] for part in ("baseline", "cached", "delta_pct"))) for name, title in FIGURES]
    with (out / "comparison.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["metric", "baseline", "cached", "delta_pct"])
        for name, _ in FIGURES:
            table.writerow([name, *(shown(result[part][name], ".6g") for part in ("baseline", "cached", "delta_pct"))])
    lines = [
        "# The cache of the gateway: baseline and cached",
        "",
        f"{result['generated_at']}. The baseline had no cache hit, the cached run {100 * result['cached']['hit_ratio']:.1f} %. Empty: not measured, or no ratio.",
        "",
        "| | baseline | cached | change, % |",
        "|---|---|---|---|",
        *(
            f"| {title} | {shown(one, '.4g')} | {shown(other, '.4g')} | {shown(delta, '+.1f')} |"
            for title, one, other, delta in rows
        ),
    ]
    text = "\n".join(lines) + "\n"
    (out / "comparison.md").write_text(text)
    print(text)
    print(f"written: {out}/comparison.md, comparison.json, comparison.csv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*LANES, "report", "all"])
    parser.add_argument("--k6", default="k6")
    parser.add_argument("--weir")
    parser.add_argument("--out", type=Path, default=Path("out/perf"))
    arguments = parser.parse_args()
    if arguments.what == "all" and os.environ.get("K6_SUMMARY_OUT"):
        parser.error("K6_SUMMARY_OUT names one summary, and `all` writes two: use --out (PERF_OUT)")
    if arguments.what == "all" and os.environ.get("BASE_URL"):
        parser.error(
            "with BASE_URL the cache is switched by hand between the two runs: run baseline, cached and report one by one"
        )
    try:
        for name in LANES:
            if arguments.what in (name, "all"):
                run_lane(name, arguments.k6, arguments.weir, arguments.out)
        if arguments.what in ("report", "all"):
            report(arguments.out)
    except NotValid as error:
        print(f"NOT VALID: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
