#!/usr/bin/env python3
"""The cache's bars: CPU per hit against nginx's proxy_cache on tmpfs and Varnish, of a miss against a plain proxied request, latency of a hit
from memory and from Redis, and the comparison of the inference gateway with its cache off and on.

    scripts/bench cache [--rounds 16] [--rows 200,16k,miss,latency,redis,comparison] [--peers nginx-cache,varnish]

Two systems alternate in windows of one second; the figure is the median of the ratios. That hits are hits is proved: the upstream counts its
requests, and a window of hits in which it gets one ends the bench; misses are counted by the gateway. Gateway, peer and Redis have one core,
load and upstream the other. The comparison is that of `make perf-all`: 40 users for 20 s on /slow, each system with its proof.
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
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gateway"))
from generator import USERS, load
from record import environment, save, spread
from rig import GATEWAY_CORE, LOAD_CORE, ROOT, Missing, Rig, cpu_us, free_port, need, output, say
from table import compare

HERE = Path(__file__).resolve().parent / "systems"
BODY_200 = '{"text":"' + "x" * (200 - 11) + '"}'
BARS = {"200": {"nginx-cache": 0.60, "varnish": 0.40}, "16k": {"nginx-cache": 0.80, "varnish": 0.60}}
MISS_BAR, LATENCY_BAR, REDIS_BAR_US, P95_BAR_MS = 1.25, 1.05, 150, 10
ALONE = {"closed": {"users": 1, "duration": "1s"}}


def fetch(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as reply:
        return reply.headers, reply.read()


class CacheRig(Rig):
    """Starts caches."""

    def __init__(self, weir):
        super().__init__(weir)
        self.shm = Path(tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm"))
        self.shm.chmod(0o777)
        self.questions = 0

    def close(self):
        super().close()
        shutil.rmtree(self.shm, ignore_errors=True)

    def upstream(self):
        (self.dir / "16k").write_bytes(os.urandom(16384))
        (self.dir / "16k").chmod(0o644)
        self.upstream_port = port = free_port()
        conf = self.render(HERE / "upstream.conf", port=port, body200=BODY_200)
        return self.spawn(
            "upstream",
            [need("nginx", "apt-get install nginx-light"), "-c", str(conf), "-g", "daemon off;"],
            LOAD_CORE,
            port,
        )

    def asked(self):
        """Requests that the upstream has responded to so far, this question not among them."""
        _, text = fetch(self.upstream_port, "/status")
        self.questions += 1
        return int(re.search(rb"\n *\d+ \d+ (\d+)", text)[1]) - self.questions

    def start(self, name, redis=0):
        port = free_port()
        if name.startswith("weir"):
            template = "weir-redis.yaml" if redis else "weir.yaml"
            admin = free_port()
            conf = self.render(HERE / template, port=port, admin=admin, redis=redis)
            command, version = [self.weir, "--config", str(conf)], output([self.weir, "--version"])
        elif name == "nginx-cache":
            conf = self.render(HERE / "nginx.conf", port=port, body200=BODY_200, shm=self.shm / str(port))
            command = [need("nginx", "apt-get install nginx-light"), "-c", str(conf), "-g", "daemon off;"]
            version = output(["nginx", "-v"])
        elif name == "varnish":
            program = need("varnishd", "apt-get install varnish")
            vcl = self.render(HERE / "varnish.vcl", port=port)
            work = self.dir / f"varnish-{port}"
            command = [program, "-F", "-f", str(vcl), "-a", f"127.0.0.1:{port}", "-s", "malloc,256m", "-n", str(work)]
            command += ["-p", "thread_pools=1", "-p", "thread_pool_min=100"]
            version = output([program, "-V"]).splitlines()[0]
        else:
            raise Missing(f"no system is named {name}")
        system = self.spawn(name, command, GATEWAY_CORE, port, version)
        if name.startswith("weir"):
            system.admin = admin
        return system


def cachez(system):
    return json.loads(fetch(system.admin, "/cachez")[1])


def stored(system):
    """Responses that were stored so far."""
    text = fetch(system.admin, "/metrics")[1].decode()
    return sum(float(count) for count in re.findall(r"^cache_stored_total\S* (\S+)$", text, re.MULTILINE))


def prove_hits(system, path):
    """The second response must come from the cache."""
    for _ in range(2):
        fields, body = fetch(system.port, path)
    is_hit = len(fields["X-Varnish"].split()) == 2 if system.name == "varnish" else fields["X-Cache"] == "HIT"
    if not is_hit or not body:
        raise RuntimeError(f"{system.name} does not serve {path} from its cache: {fields}")


def hit_row(rig, name, peer, bar, rounds):
    try:
        first, second = rig.start("weir"), rig.start(peer)
    except Missing as missing:
        say(f"{name} against {peer} skipped: {missing}")
        return {"row": f"hit, {name}", "second": peer, "skipped": str(missing)}
    for system in (first, second):
        prove_hits(system, f"/{name}")
    before = rig.asked()
    result = compare(first, second, f"/{name}", {}, rounds)
    if rig.asked() != before:
        raise RuntimeError(f"the upstream got {rig.asked() - before} requests while {name} was to be hit")
    versions = [first.version, second.version]
    first.stop()
    second.stop()
    return report(result | {"row": f"hit, {name}", "bar": bar, "versions": versions})


def miss_row(rig, rounds):
    """A path that is new every time, on a route with a cache and on one without."""
    miss, plain = rig.start("weir"), rig.start("weir-plain")
    samples = []
    for number in range(rounds + 1):
        pair = {}
        order = ((miss, "/miss/"), (plain, "/plain/"))
        for system, prefix in order if number % 2 else order[::-1]:
            before = cpu_us(system.pids)
            seen = load(system.port, f"{prefix}{number}/{{n}}", params={"n": {"counter": 1}})
            if seen.failures():
                raise RuntimeError(f"{system.name}: {seen.failures()}")
            pair[prefix] = (cpu_us(system.pids) - before) / seen.requests
        if number:
            samples.append(pair)
    counts, kept = cachez(miss), stored(miss)
    if counts["hits"] or not counts["misses"]:
        raise RuntimeError(f"the windows of misses had hits: {counts}")
    # A fetch whose connection ends with its window is given up.
    if counts["misses"] - kept > USERS["users"] * (rounds + 1):
        raise RuntimeError(f"of {counts['misses']} misses {kept:.0f} were stored")
    miss.stop()
    plain.stop()
    middle = [statistics.median(pair[prefix] for pair in samples) for prefix in ("/miss/", "/plain/")]
    return report(
        {
            "row": "miss that is stored against plain proxied",
            "first": "weir",
            "second": "weir without a cache",
            "cpu_us": middle,
            "bar": MISS_BAR,
            **spread(pair["/miss/"] / pair["/plain/"] for pair in samples),
        }
    )


def latency_row(rig, rounds):
    """A hit at one connection against nginx `return 200` of the same body."""
    weir, nginx = rig.start("weir"), rig.start("nginx-cache")
    prove_hits(weir, "/200")
    p50 = []
    for number in range(rounds + 1):
        order = ((weir, "/200"), (nginx, "/200-own"))
        seen = {
            system.name: load(system.port, path, ALONE).p50_us
            for system, path in (order if number % 2 else order[::-1])
        }
        if number:
            p50.append(seen)
    weir.stop()
    nginx.stop()
    middle = [statistics.median(seen[name] for seen in p50) for name in ("weir", "nginx-cache")]
    return report(
        {
            "row": "hit latency p50 at 1 connection against return 200",
            "first": "weir",
            "second": "nginx",
            "p50_us": middle,
            "bar": LATENCY_BAR,
            **spread(seen["weir"] / seen["nginx-cache"] for seen in p50),
        }
    )


def redis_row(rig, rounds):
    """A hit in Redis against one in memory, at one connection."""
    try:
        redis = rig.redis()
    except Missing as missing:
        say(f"redis skipped: {missing}")
        return {"row": "hit in Redis", "second": "memory", "skipped": str(missing)}
    near, far = rig.start("weir"), rig.start("weir-redis", redis.port)
    for system in (near, far):
        prove_hits(system, "/200")
    before = rig.asked()
    samples = []
    for number in range(rounds + 1):
        order = (far, near) if number % 2 else (near, far)
        seen = {system.name: load(system.port, "/200", ALONE).p50_us for system in order}
        if number:
            samples.append(seen)
    counts = cachez(far)
    if rig.asked() != before or counts["misses"] > 1 or counts["backend"] != "redis":
        raise RuntimeError(f"Redis was to be hit: {counts}")
    for system in (near, far, redis):
        system.stop()
    added = sorted(seen["weir-redis"] - seen["weir"] for seen in samples)
    row = {
        "row": "hit in Redis: added p50 at 1 connection",
        "p50_us": [statistics.median(seen[name] for seen in samples) for name in ("weir-redis", "weir")],
        "added_us": statistics.median(added),
        "added_min": added[0],
        "added_max": added[-1],
        "rounds": len(added),
        "bar_us": REDIS_BAR_US,
    }
    say(f"{row['row']}: {row['added_us']:.0f} us [{added[0]:.0f} {added[-1]:.0f}] bar {REDIS_BAR_US}")
    return row


def comparison_row(weir, k6, folder):
    """The comparison of the inference gateway with its cache off and on; refused unless the treatment differed."""
    name = "40 users for 20 s on /slow, cache off and on"
    if not k6:
        return {"row": name, "second": "", "skipped": "no k6 was given"}
    command = [sys.executable, str(ROOT / "load/k6/perf.py"), "all", "--k6", k6, "--weir", weir, "--out", str(folder)]
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("BASE_URL", "USERS", "DURATION", "TARGET", "K6_SUMMARY_OUT")
    }
    subprocess.run(command, check=True, env=clean, stdout=sys.stderr)
    return {"row": name, "comparison": json.loads((folder / "comparison.json").read_text()), "bar_ms": P95_BAR_MS}


def report(row):
    figures = row.get("cpu_us") or row.get("p50_us")
    say(
        f"{row['row']}: {row['first']} {figures[0]:.2f} us, {row['second']} {figures[1]:.2f} us, ratio {row['ratio']:.3f} "
        f"[{row['ratio_min']:.3f} {row['ratio_max']:.3f}] bar {row['bar']}"
    )
    return row


def line(row):
    """One row of the table."""
    if "skipped" in row:
        return (
            f"| {row['row']} {row['second'] and 'against ' + row['second']} | | | | | | | skipped: {row['skipped']} |"
        )
    if "comparison" in row:
        baseline, cached = row["comparison"]["baseline"], row["comparison"]["cached"]
        verdict = "met" if cached["p95_ms"] <= row["bar_ms"] else "missed"
        return (
            f"| {row['row']}: p95, ms (hit ratio {baseline['hit_ratio']:.3f} and {cached['hit_ratio']:.3f}) | {cached['p95_ms']:.2f} | {baseline['p95_ms']:.2f} "
            f"| {cached['p95_ms'] / baseline['p95_ms']:.3f} | | 1 | p95 <= {row['bar_ms']} ms | {verdict} |"
        )
    if "added_us" in row:
        verdict = "met" if row["added_us"] <= row["bar_us"] else "missed"
        spread = f"{row['added_min']:.0f} to {row['added_max']:.0f}"
        return (
            f"| {row['row']} | {row['p50_us'][0]:.1f} | {row['p50_us'][1]:.1f} | + {row['added_us']:.0f} | {spread} | {row['rounds']} "
            f"| <= + {row['bar_us']} | {verdict} |"
        )
    figures = row.get("cpu_us") or row.get("p50_us")
    verdict = "met" if row["ratio"] <= row["bar"] else "missed"
    return (
        f"| {'CPU, ' if 'cpu_us' in row else ''}{row['row']}, against {row['second']} | {figures[0]:.2f} | {figures[1]:.2f} | {row['ratio']:.3f} "
        f"| {row['ratio_min']:.3f} to {row['ratio_max']:.3f} | {row['rounds']} | <= {row['bar']} | {verdict} |"
    )


def summary(results):
    """The table as Markdown."""
    where = results["environment"]
    lines = [
        "# Cache: the table of bars",
        "",
        f"{where['date']}, {where['host']}: {where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {where['commit']}; "
        f"{'; '.join(where['versions'])}. Made by `{where['command']}`. In a window of hits the upstream got no request.",
        "",
        "| figure, us | weir | peer | ratio (median) | spread | rounds | bar | |",
        "|---|---|---|---|---|---|---|---|",
        *map(line, results["rows"]),
    ]
    if any("comparison" in row for row in results["rows"]):
        lines += [
            "",
            "The comparison as Markdown, JSON and CSV, with the summaries of both runs: [comparison/](comparison/comparison.md).",
        ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the gateway's binary")
    parser.add_argument("--k6", help="k6, for the comparison")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--rows", default="200,16k,miss,latency,redis,comparison")
    parser.add_argument("--peers", default="nginx-cache,varnish")
    parser.add_argument("--out", type=Path, help="folder for results.json and summary.md")
    arguments = parser.parse_args()
    chosen, peers = arguments.rows.split(","), arguments.peers.split(",")
    rig = CacheRig(arguments.weir)
    rows = []
    try:
        rig.upstream()
        for name in (name for name in BARS if name in chosen):
            rows += [hit_row(rig, name, peer, BARS[name][peer], arguments.rounds) for peer in peers]
        if "miss" in chosen:
            rows.append(miss_row(rig, arguments.rounds))
        if "latency" in chosen:
            rows.append(latency_row(rig, arguments.rounds))
        if "redis" in chosen:
            rows.append(redis_row(rig, arguments.rounds))
        if "comparison" in chosen:
            folder = arguments.out / "comparison" if arguments.out else rig.dir / "comparison"
            rows.append(comparison_row(arguments.weir, arguments.k6, folder))
    finally:
        rig.close()
    versions = [version for row in rows for version in row.get("versions", [])]
    results = {"environment": environment(*versions), "rows": rows}
    save(arguments.out, results, summary(results))


if __name__ == "__main__":
    main()
