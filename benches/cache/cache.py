#!/usr/bin/env python3
"""The cache's bars: CPU per hit against nginx's proxy_cache (on tmpfs) and Varnish, of a miss against a plain proxied request, latency of a hit.

    scripts/bench cache [--rounds 16] [--rows 200,16k,miss,latency]

Two systems alternate in windows of one second; the figure is the median of the ratios. Hits are proved: a system whose upstream is asked
during a window of hits would show it in its own figures, and each answer of the warm-up is looked at for what its cache says.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gateway"))
from rig import GATEWAY_CORE, LOAD_CORE, Missing, Rig, cpu_us, free_port, need, output, say, wrk
from table import compare, environment

BODY_200 = '{"text":"' + "x" * (200 - 11) + '"}'
BARS = {"200": {"nginx-cache": 0.60, "varnish": 0.40}, "16k": {"nginx-cache": 0.80, "varnish": 0.60}}


class CacheRig(Rig):
    """Starts caches."""

    def __init__(self, weir):
        super().__init__(weir)
        self.shm = Path(tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm"))
        self.shm.chmod(0o777)

    def close(self):
        super().close()
        shutil.rmtree(self.shm, ignore_errors=True)

    def upstream(self):
        (self.dir / "16k").write_bytes(os.urandom(16384))
        (self.dir / "16k").chmod(0o644)
        self.upstream_port = port = free_port()
        conf = self.render("upstream-cache.conf", port=port, body200=BODY_200)
        return self.spawn("upstream", [need("nginx", "apt-get install nginx-light"), "-c", str(conf), "-g", "daemon off;"], LOAD_CORE, port)

    def start(self, name):
        port = free_port()
        if name.startswith("weir"):
            conf = self.render("weir-cache.yaml", port=port, admin=free_port())
            command, version = [self.weir, "--config", str(conf)], output([self.weir, "--version"])
        elif name == "nginx-cache":
            conf = self.render("nginx-cache.conf", port=port, body200=BODY_200, shm=self.shm / str(port))
            command = [need("nginx", "apt-get install nginx-light"), "-c", str(conf), "-g", "daemon off;"]
            version = output(["nginx", "-v"])
        elif name == "varnish":
            program = need("varnishd", "apt-get install varnish")
            vcl = self.render("varnish.vcl", port=port)
            work = self.dir / f"varnish-{port}"
            command = [program, "-F", "-f", str(vcl), "-a", f"127.0.0.1:{port}", "-s", "malloc,256m", "-n", str(work)]
            command += ["-p", "thread_pools=1", "-p", "thread_pool_min=100"]
            version = output([program, "-V"]).splitlines()[0]
        else:
            raise Missing(f"no system is named {name}")
        return self.spawn(name, command, GATEWAY_CORE, port, version)


def prove_hits(system, path):
    """The second answer must come from the cache."""
    for _ in range(2):
        with urllib.request.urlopen(f"http://127.0.0.1:{system.port}{path}") as reply:
            fields, body = reply.headers, reply.read()
    if system.name == "varnish":
        is_hit = len(fields["X-Varnish"].split()) == 2
    else:
        is_hit = fields["X-Cache"] == "HIT"
    if not is_hit or not body:
        raise RuntimeError(f"{system.name} does not answer {path} from its cache: {fields}")


def hit_row(rig, name, peer, bar, rounds):
    try:
        first, second = rig.start("weir"), rig.start(peer)
    except Missing as missing:
        say(f"{name} against {peer} skipped: {missing}")
        return {"row": f"hit, {name}", "second": peer, "skipped": str(missing)}
    for system in (first, second):
        prove_hits(system, f"/{name}")
    result = compare(first, second, f"/{name}", None, rounds)
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
            os.environ["PREFIX"] = prefix
            before = cpu_us(system.pids)
            load = wrk(system.port, "/", 64, 1, "miss.lua")
            if load.errors:
                raise RuntimeError(f"{system.name}: {load.errors}")
            pair[prefix] = (cpu_us(system.pids) - before) / load.requests
        if number:
            samples.append(pair)
    miss.stop()
    plain.stop()
    ratios = sorted(pair["/miss/"] / pair["/plain/"] for pair in samples)
    middle = [statistics.median(pair[prefix] for pair in samples) for prefix in ("/miss/", "/plain/")]
    return report(
        {
            "row": "miss that is stored against plain proxied",
            "first": "weir",
            "second": "weir without a cache",
            "cpu_us": middle,
            "ratio": statistics.median(ratios),
            "ratio_min": ratios[0],
            "ratio_max": ratios[-1],
            "rounds": len(samples),
            "bar": 1.25,
        }
    )


def latency_row(rig, rounds):
    """A hit at one connection against nginx `return 200` of the same body."""
    weir, nginx = rig.start("weir"), rig.start("nginx-cache")
    prove_hits(weir, "/200")
    ratios, p50 = [], []
    for number in range(rounds + 1):
        order = ((weir, "/200"), (nginx, "/200-own"))
        seen = {system.name: wrk(system.port, path, 1, 1).p50_us for system, path in (order if number % 2 else order[::-1])}
        if number:
            p50.append(seen)
            ratios.append(seen["weir"] / seen["nginx-cache"])
    weir.stop()
    nginx.stop()
    ratios.sort()
    middle = [statistics.median(seen[name] for seen in p50) for name in ("weir", "nginx-cache")]
    return report(
        {
            "row": "hit latency p50 at 1 connection against return 200",
            "first": "weir",
            "second": "nginx",
            "p50_us": middle,
            "ratio": statistics.median(ratios),
            "ratio_min": ratios[0],
            "ratio_max": ratios[-1],
            "rounds": len(ratios),
            "bar": 1.05,
        }
    )


def report(row):
    figures = row.get("cpu_us") or row.get("p50_us")
    say(
        f"{row['row']}: {row['first']} {figures[0]:.2f} us, {row['second']} {figures[1]:.2f} us, ratio {row['ratio']:.3f} "
        f"[{row['ratio_min']:.3f} {row['ratio_max']:.3f}] bar {row['bar']}"
    )
    return row


def summary(results):
    """The table as Markdown."""
    where = results["environment"]
    lines = [
        "# Cache: the table of bars",
        "",
        f"{where['date']}, {where['host']}: {where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {where['commit']}. "
        f"Made by `{where['command']}`.",
        "",
        "| figure, us | weir | peer | ratio (median) | spread | rounds | bar | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        if "skipped" in row:
            lines.append(f"| {row['row']} against {row['second']} | | | | | | | skipped: {row['skipped']} |")
            continue
        figures = row.get("cpu_us") or row.get("p50_us")
        kind = "CPU, " if "cpu_us" in row else ""
        verdict = "met" if row["ratio"] <= row["bar"] else "missed"
        lines.append(
            f"| {kind}{row['row']}, against {row['second']} | {figures[0]:.2f} | {figures[1]:.2f} | {row['ratio']:.3f} "
            f"| {row['ratio_min']:.3f} to {row['ratio_max']:.3f} | {row['rounds']} | <= {row['bar']} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the gateway's binary")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--rows", default="200,16k,miss,latency")
    parser.add_argument("--peers", default="nginx-cache,varnish")
    parser.add_argument("--out", type=Path, help="folder for results.json and summary.md")
    arguments = parser.parse_args()
    rows, peers = arguments.rows.split(","), arguments.peers.split(",")
    rig = CacheRig(arguments.weir)
    results = {"environment": environment(arguments.weir, "cache"), "rows": []}
    try:
        rig.upstream()
        for name in (name for name in BARS if name in rows):
            results["rows"] += [hit_row(rig, name, peer, BARS[name][peer], arguments.rounds) for peer in peers]
        if "miss" in rows:
            results["rows"].append(miss_row(rig, arguments.rounds))
        if "latency" in rows:
            results["rows"].append(latency_row(rig, arguments.rounds))
    finally:
        rig.close()
    text = summary(results)
    print(text)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (arguments.out / "summary.md").write_text(text)


if __name__ == "__main__":
    main()
