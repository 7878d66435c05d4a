#!/usr/bin/env python3
"""The six event-ingestion services under one equal load, and the proof that none loses an event.

    table.py --out DIR load [--payloads 400 8192] [--protocols rest grpc]  # 30 s each, 50 users
    table.py --out DIR loss [--services NAME...]                           # 100,000 distinct events by 50 clients, then 200
    table.py --out DIR summary                                             # summary.md from what is in DIR

A shared machine changes its speed within minutes, so the three services of a protocol run beside each other, each with a
database of its own on one fresh PostgreSQL, as durable as it comes (fsync on); one after the other is loaded for 10 s, in
three rounds that each begin with another service. CPU is the service's own user and system time over the responses;
PostgreSQL's is beside it. Runs may be made in pieces: each writes its own files into DIR, and with --built nothing is
compiled before it (`table.py build` did).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "services" / "producer"))

import stack  # noqa: E402  found through the path above

LOAD = stack.BUILT / "load"
TICK = os.sysconf("SC_CLK_TCK")
# On two cores that the load and PostgreSQL share, the JVM's compiler takes a third of the service's CPU time for the first 30 s.
# All six are given the same work to get warm, and less of it before events of another size.
USERS, ROUNDS, WINDOW_SECONDS, WARM_UP_EVENTS, MORE_EVENTS = 50, 3, 10, 50_000, 12_500
EVENTS, MANY_USERS = 100_000, 200


def cpu_seconds(pid: int) -> float:
    # The name in parentheses may hold spaces: fields are counted from behind it.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory_mib(pid: int, field: str) -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field)) / 1024


def postgres_cpu_seconds(directory: pathlib.Path) -> float:
    """Of the server and all its processes, those that ended included (they are its children, and it has waited for them)."""
    parent = int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])
    total = 0.0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        if pid == parent:
            total += sum(map(int, fields[11:15])) / TICK
        elif int(fields[1]) == parent:
            total += sum(map(int, fields[11:13])) / TICK
    return total


def host() -> dict[str, Any]:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    return {
        "cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "load_before": os.getloadavg()[0],
        "commit": said("git", "-C", str(ROOT), "describe", "--always", "--dirty"),
        "versions": [said("rustc", "--version"), said("go", "version"), said("java", "--version"), f"profile {stack.PROFILE}"],
    }  # fmt: skip


def said(*command: str) -> str:
    """The first line that a program prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.partition("\n")[0]


def stolen() -> tuple[int, int]:
    """Ticks of all cores: taken away by the host of this virtual machine, and in all."""
    ticks = [int(field) for field in pathlib.Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return ticks[7], sum(ticks)


def build_load() -> None:
    subprocess.run(["go", "build", "-trimpath", "-o", LOAD, "./load"], cwd=stack.HERE, check=True)


class Rig:
    """Services on one fresh PostgreSQL, each with a database of its own."""

    def __init__(self, kinds: list[stack.Kind]):
        self.kinds = kinds
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="producers-bench-"))
        self.directory.chmod(0o755)
        self.postgres = stack.Postgres(self.directory / "postgres")
        self.services: list[stack.Service] = []

    def url(self, kind: stack.Kind) -> str:
        return self.postgres.url.replace(f"/{stack.DATABASE}", f"/{kind.name.replace('-', '_')}")

    def __enter__(self) -> Rig:
        try:
            self.postgres.start()
            for kind in self.kinds:
                stack.migrate(self.url(kind))
                self.services.append(stack.Service.start(kind, self.url(kind)))
            for service in self.services:
                service.wait_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            stack.stop_all(self.services)
        finally:
            self.postgres.stop("immediate")
            shutil.rmtree(self.directory, ignore_errors=True)

    def load(self, service: stack.Service, **options: Any) -> dict[str, Any]:
        flags = [part for name, value in options.items() for part in (f"-{name}", str(value))]
        command = [LOAD, "-protocol", service.kind.protocol, "-address", service.address, "-histogram", *flags]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def number(self, kind: stack.Kind, sql: str) -> int:
        command = ["psql", "-X", "-A", "-t", "-q", "-d", self.url(kind), "-c", sql]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def window(self, service: stack.Service, payload: int) -> dict[str, Any]:
        """One service loaded for a while, and what it and PostgreSQL used for it."""
        pid = service.process.pid
        cpu, database, (steal, ticks) = cpu_seconds(pid), postgres_cpu_seconds(self.postgres.directory), stolen()
        found = self.load(service, users=USERS, bytes=payload, duration=f"{WINDOW_SECONDS}s")
        found["cpu_seconds"] = cpu_seconds(pid) - cpu
        found["postgres_cpu_seconds"] = postgres_cpu_seconds(self.postgres.directory) - database
        steal, ticks = (after - before for after, before in zip(stolen(), (steal, ticks), strict=True))
        found["steal_percent"] = 100 * steal / ticks
        return found


def quantile(windows: list[dict[str, Any]], q: float) -> float | None:
    """Milliseconds, of all windows together; none below 1,000 requests."""
    merged: collections.Counter[int] = collections.Counter()
    for window in windows:
        merged.update({int(bucket): count for bucket, count in window["histogram"].items()})
    left = q * (merged.total() - 1)
    if merged.total() < 1000:
        return None
    for bucket in sorted(merged):
        left -= merged[bucket]
        if left < 0:
            return bucket / 100
    return None


def measure(protocol: str, payloads: list[int]) -> list[dict[str, Any]]:
    """The services of one protocol, side by side; a result for each payload."""
    kinds = [kind for kind in stack.kinds([]) if kind.protocol == protocol]
    results = []
    with Rig(kinds) as rig:
        for payload in payloads:
            before = host()
            warm_up = MORE_EVENTS if results else WARM_UP_EVENTS
            warm = {s.kind.name: rig.load(s, users=USERS, bytes=payload, events=warm_up) for s in rig.services}
            windows: dict[str, list[dict[str, Any]]] = {kind.name: [] for kind in kinds}
            for round_ in range(ROUNDS):
                for service in rig.services[round_:] + rig.services[:round_]:
                    windows[service.kind.name].append(rig.window(service, payload))
            memory = {
                s.kind.name: [memory_mib(s.process.pid, field) for field in ("VmRSS:", "VmHWM:")] for s in rig.services
            }
            rows = [row(kind.name, windows, warm[kind.name], memory[kind.name]) for kind in kinds]
            results.append({"protocol": protocol, "payload": payload, "host": before, "rows": rows})
    return results


def row(
    name: str, windows: dict[str, list[dict[str, Any]]], warm: dict[str, Any], memory: list[float]
) -> dict[str, Any]:
    """What one service did in all its windows."""
    own = windows[name]
    answered = sum(window["requests"] - window["errors"] for window in own)
    fastest = [max(all_[i]["requests_per_second"] for all_ in windows.values()) for i in range(ROUNDS)]
    return {
        "service": name,
        "event_bytes": own[0]["event_bytes"],
        "requests": sum(window["requests"] for window in own),
        "errors": sum(window["errors"] for window in (warm, *own)),
        "error_kinds": [window["error_kinds"] for window in (warm, *own) if window["error_kinds"]],
        "requests_per_second": sum(w["requests"] for w in own) / sum(w["seconds"] for w in own),
        "rounds": [round(window["requests_per_second"]) for window in own],
        "of_the_fastest": statistics.median(w["requests_per_second"] / best for w, best in zip(own, fastest, strict=True)),
        "p50_ms": quantile(own, 0.5),
        "p99_ms": quantile(own, 0.99),
        "cpu_ms_per_request": 1000 * sum(w["cpu_seconds"] for w in own) / answered if answered else None,
        "postgres_cpu_ms_per_request": 1000 * sum(w["postgres_cpu_seconds"] for w in own) / answered if answered else None,
        "rss_mib": memory[0],
        "rss_peak_mib": memory[1],
        "connections_per_round": [window["connections_opened"] for window in own],
        "steal_percent": max(window["steal_percent"] for window in own),
    }  # fmt: skip


def prove(kind: stack.Kind) -> dict[str, Any]:
    with Rig([kind]) as rig:
        (service,) = rig.services
        sent = rig.load(service, users=USERS, bytes=400, events=EVENTS, keys=0, entities=2)
        whole = rig.number(
            kind,
            "SELECT count(*) FROM car_entities a JOIN car_entities b USING (id) WHERE a.entity_type = 'Car'"
            " AND b.entity_type = 'Loan' AND a.data = b.data AND a.id = 'load-' || (a.data->>'n')",
        )
        rows = rig.number(kind, "SELECT count(*) FROM car_entities")
        many = rig.load(service, users=MANY_USERS, bytes=400, duration=f"{WINDOW_SECONDS}s")
        del many["histogram"]
        return {
            "service": kind.name, "host": host(), "events": EVENTS, "clients": USERS, "errors": sent["errors"],
            "error_kinds": sent["error_kinds"], "seconds": sent["seconds"], "stored_whole": whole, "lost": EVENTS - whole,
            "half_applied": rows - 2 * whole, "many_clients": many,
        }  # fmt: skip


def write(out: pathlib.Path, name: str, value: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n")
    print("wrote", out / f"{name}.json", flush=True)


def shown(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def summary(out: pathlib.Path) -> str:
    """The tables. A row with an error is void: it says so and shows no figures."""
    runs = [json.loads(path.read_text()) for path in sorted(out.glob("load-*.json"))]
    proofs = [json.loads(path.read_text()) for path in sorted(out.glob("loss-*.json"))]
    any_host = (runs or proofs)[0]["host"]
    steal = max((row["steal_percent"] for run in runs for row in run["rows"]), default=0)
    order = {name: index for index, name in enumerate(stack.KINDS)}
    lines = [
        "# The six event-ingestion services under one equal load", "",
        "Made by `scripts/bench producers`; `--built load` with `--protocols` and `--built loss` with `--services` make it in pieces.", "",
        f"{any_host['cpu']}, {any_host['cores']} cores, Linux {any_host['kernel']}; services, PostgreSQL 15 (fsync on) and load share them.",
        f"{', '.join(any_host['versions'])}; commit {any_host['commit']}.", "",
    ]  # fmt: skip
    if runs:
        lines += [
            f"{USERS} users in a closed loop, one kept connection each, events spread over 10,000 entities; {WARM_UP_EVENTS:,} events to get warm ({MORE_EVENTS:,} more for the larger ones),"
            f" then {ROUNDS} rounds of {WINDOW_SECONDS} s, the three services of a protocol in turn. \"Of the fastest\" is the median of the rounds' ratios."
            f" CPU time stolen by the host: {steal:.1f} % at most.", "",
            "| service | event, bytes | req/s (each round) | of the fastest | p50 ms | p99 ms | CPU ms/req | PostgreSQL CPU ms/req | RSS MiB"
            " | connections opened a round | errors |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]  # fmt: skip
    rows = [row for run in runs for row in run["rows"]]
    for row in sorted(rows, key=lambda row: (row["event_bytes"], order[row["service"]])):
        if row["errors"]:
            lines.append(f"| {row['service']} | {row['event_bytes']} | void: {row['errors']} errors |" + " |" * 8)
            continue
        lines.append(
            f"| {row['service']} | {row['event_bytes']} | {row['requests_per_second']:.0f} ({', '.join(map(str, row['rounds']))})"
            f" | {row['of_the_fastest']:.2f} | {shown(row['p50_ms'])} | {shown(row['p99_ms'])}"
            f" | {shown(row['cpu_ms_per_request'], 3)} | {shown(row['postgres_cpu_ms_per_request'], 3)} | {shown(row['rss_mib'], 0)}"
            f" | {max(row['connections_per_round'])} | {row['errors']} |"
        )
    if proofs:
        lines += [
            "", f"{EVENTS:,} distinct events of two entities by {USERS} clients, counted in the database; then {MANY_USERS} clients for 10 s. These are counts: they need no idle machine.", "",
            "| service | errors | lost | half-applied | requests by 200 clients | errors at 200 clients |", "|---|---|---|---|---|---|",
        ]  # fmt: skip
        for proof in sorted(proofs, key=lambda proof: order[proof["service"]]):
            many = proof["many_clients"]
            lines.append(
                f"| {proof['service']} | {proof['errors']} | {proof['lost']} | {proof['half_applied']}"
                f" | {many['requests']} | {many['errors']} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("what", choices=["build", "load", "loss", "summary", "all"])
    parser.add_argument("--services", nargs="*", default=[], help="of loss and build")
    parser.add_argument("--protocols", nargs="*", default=["rest", "grpc"], help="of load")
    parser.add_argument("--payloads", nargs="*", type=int, default=[400, 8192], help="of load, in bytes")
    parser.add_argument("--built", action="store_true", help="take the programs as they were built last")
    chosen = parser.parse_args()
    # Nothing is left behind when `timeout` or a supervisor ends us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wanted = stack.kinds(chosen.services)
    if chosen.what == "build" or (chosen.what != "summary" and not chosen.built):
        stack.build(wanted if chosen.what in ("build", "loss") else stack.kinds([]))
        build_load()
    if chosen.what == "build":
        return 0
    if chosen.what in ("load", "all"):
        for protocol in chosen.protocols:
            for result in measure(protocol, chosen.payloads):
                write(chosen.out, f"load-{result['payload']}-{protocol}", result)
    if chosen.what in ("loss", "all"):
        for kind in wanted:
            write(chosen.out, f"loss-{kind.name}", prove(kind))
    text = summary(chosen.out)
    (chosen.out / "summary.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except stack.StackError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
