#!/usr/bin/env python3
"""The six event-ingestion services under one equal load, and the proof that none loses an event.

    table.py --out DIR load [--payloads 400 8192] [--services NAME...]   # 30 s each, 50 users, one service at a time
    table.py --out DIR loss [--services NAME...]                         # 100,000 distinct events by 50 clients, then 200 clients
    table.py --out DIR summary                                           # summary.md from what is in DIR

PostgreSQL is fresh for every service and as durable as it comes (fsync on). Each service gets 45 s of load before it is
measured. CPU is the service's own user and system time over the requests answered; PostgreSQL's is beside it. Runs may be
made in pieces: each writes its own file into DIR, and with --built nothing is compiled before it (`table.py build` did).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "services" / "producer"))

import stack  # noqa: E402  found through the path above

LOAD = stack.BUILT / "load"
TICK = os.sysconf("SC_CLK_TCK")
# On two cores that the load and PostgreSQL share, the JVM's compiler is busy for the first 40 s and takes half of the
# service's CPU time; all six are given the same time to get warm, and what they did in it is shown.
USERS, SECONDS, WARM_UP = 50, 30, 45
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
    """One service on one fresh PostgreSQL."""

    def __init__(self, kind: stack.Kind):
        self.kind = kind
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="producers-bench-"))
        self.directory.chmod(0o755)
        self.postgres = stack.Postgres(self.directory / "postgres")
        self.service: stack.Service | None = None

    def __enter__(self) -> Rig:
        self.postgres.start()
        stack.migrate(self.postgres.url)
        self.service = stack.Service.start(self.kind, self.postgres.url).wait_healthy()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.service:
                self.service.stop()
        finally:
            self.postgres.stop("immediate")
            shutil.rmtree(self.directory, ignore_errors=True)

    def load(self, program: pathlib.Path, **options: Any) -> dict[str, Any]:
        flags = [part for name, value in options.items() for part in (f"-{name}", str(value))]
        command = [program, "-protocol", self.kind.protocol, "-address", self.service.address, *flags]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def number(self, sql: str) -> int:
        command = ["psql", "-X", "-A", "-t", "-q", "-d", self.postgres.url, "-c", sql]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(kind: stack.Kind, program: pathlib.Path, payload: int) -> dict[str, Any]:
    with Rig(kind) as rig:
        warm = rig.load(program, users=USERS, bytes=payload, duration=f"{WARM_UP}s")
        pid = rig.service.process.pid
        cpu, database = cpu_seconds(pid), postgres_cpu_seconds(rig.postgres.directory)
        steal, ticks = stolen()
        found = rig.load(program, users=USERS, bytes=payload, duration=f"{SECONDS}s")
        steal, ticks = (after - before for after, before in zip(stolen(), (steal, ticks), strict=True))
        answered = found["requests"] - found["errors"]
        cpu, database = cpu_seconds(pid) - cpu, postgres_cpu_seconds(rig.postgres.directory) - database
        return {
            "service": kind.name, "payload": payload, "host": host(), "warm_up_requests": warm["requests"], **found,
            "cpu_ms_per_request": 1000 * cpu / answered if answered else None,
            "postgres_cpu_ms_per_request": 1000 * database / answered if answered else None,
            "steal_percent": 100 * steal / ticks, "rss_mib": memory_mib(pid, "VmRSS:"), "rss_peak_mib": memory_mib(pid, "VmHWM:"),
        }  # fmt: skip


def prove(kind: stack.Kind, program: pathlib.Path) -> dict[str, Any]:
    with Rig(kind) as rig:
        sent = rig.load(program, users=USERS, bytes=400, events=EVENTS, keys=0, entities=2)
        whole = rig.number(
            "SELECT count(*) FROM car_entities a JOIN car_entities b USING (id) WHERE a.entity_type = 'Car'"
            " AND b.entity_type = 'Loan' AND a.data = b.data AND a.id = 'load-' || (a.data->>'n')"
        )
        rows = rig.number("SELECT count(*) FROM car_entities")
        many = rig.load(program, users=MANY_USERS, bytes=400, duration="10s")
        return {
            "service": kind.name, "host": host(), "events": EVENTS, "clients": USERS, "errors": sent["errors"],
            "error_kinds": sent["error_kinds"], "seconds": sent["seconds"], "stored_whole": whole, "lost": EVENTS - whole,
            "half_applied": rows - 2 * whole, "many_clients": many,
        }  # fmt: skip


def write(out: pathlib.Path, name: str, value: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n")
    print(
        name,
        {
            key: value[key]
            for key in value
            if key in ("requests_per_second", "errors", "lost", "half_applied", "cpu_ms_per_request")
        },
        flush=True,
    )


def shown(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def summary(out: pathlib.Path) -> str:
    """The tables. A row with an error is void: it says so and shows no figures."""
    runs = [json.loads(path.read_text()) for path in sorted(out.glob("load-*.json"))]
    proofs = [json.loads(path.read_text()) for path in sorted(out.glob("loss-*.json"))]
    any_run = (runs or proofs)[0]["host"]
    worst_steal = max((run["steal_percent"] for run in runs), default=0)
    lines = [
        "# The six event-ingestion services under one equal load", "",
        "Made by `scripts/bench producers`; `--built load` and `--built loss` with `--services` make it in pieces.", "",
        f"{any_run['cpu']}, {any_run['cores']} cores, Linux {any_run['kernel']}; service, PostgreSQL 15 (fsync on) and load share them.",
        f"{', '.join(any_run['versions'])}; commit {any_run['commit']}. CPU time stolen by the host: {worst_steal:.1f} % at most.",
        f"{USERS} users in a closed loop, one kept connection each, {SECONDS} s after {WARM_UP} s of warm-up, events spread over 10,000 entities.", "",
        "| service | event, bytes | req/s | of the fastest of its protocol | p50 ms | p99 ms | CPU ms/req | PostgreSQL CPU ms/req | RSS MiB | connections | errors | req/s while warming up |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    order = {name: index for index, name in enumerate(stack.KINDS)}
    for run in sorted(runs, key=lambda run: (run["payload"], order[run["service"]])):
        if run["errors"]:
            lines.append(f"| {run['service']} | {run['event_bytes']} | void: {run['errors']} errors |" + " |" * 9)
            continue
        protocol = stack.KINDS[run["service"]].protocol
        peers = [
            r
            for r in runs
            if r["payload"] == run["payload"] and stack.KINDS[r["service"]].protocol == protocol and not r["errors"]
        ]
        ratio = run["requests_per_second"] / max(peer["requests_per_second"] for peer in peers)
        lines.append(
            f"| {run['service']} | {run['event_bytes']} | {run['requests_per_second']:.0f} | {ratio:.2f} | {shown(run['p50_ms'])} | {shown(run['p99_ms'])}"
            f" | {shown(run['cpu_ms_per_request'], 3)} | {shown(run['postgres_cpu_ms_per_request'], 3)} | {shown(run['rss_mib'], 0)}"
            f" | {run['connections_opened']} | {run['errors']} | {run['warm_up_requests'] / WARM_UP:.0f} |"
        )
    if proofs:
        lines += [
            "", f"{EVENTS:,} distinct events of two entities by {USERS} clients, counted in the database; then {MANY_USERS} clients for 10 s:", "",
            "| service | errors | lost | half-applied | req/s | errors at 200 clients | req/s at 200 clients |", "|---|---|---|---|---|---|---|",
        ]  # fmt: skip
        for proof in sorted(proofs, key=lambda proof: order[proof["service"]]):
            many = proof["many_clients"]
            lines.append(
                f"| {proof['service']} | {proof['errors']} | {proof['lost']} | {proof['half_applied']} | {proof['events'] / proof['seconds']:.0f}"
                f" | {many['errors']} | {many['requests_per_second']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("what", choices=["build", "load", "loss", "summary", "all"])
    parser.add_argument("--services", nargs="*", default=[])
    parser.add_argument("--payloads", nargs="*", type=int, default=[400, 8192])
    parser.add_argument("--built", action="store_true", help="take the programs as they were built last")
    chosen = parser.parse_args()
    if chosen.what == "build" or (chosen.what != "summary" and not chosen.built):
        stack.build(stack.kinds(chosen.services))
        build_load()
    if chosen.what == "build":
        return 0
    if chosen.what != "summary":
        wanted, program = stack.kinds(chosen.services), LOAD
        if chosen.what in ("load", "all"):
            for payload in chosen.payloads:
                for kind in wanted:
                    write(chosen.out, f"load-{payload}-{kind.name}", measure(kind, program, payload))
        if chosen.what in ("loss", "all"):
            for kind in wanted:
                write(chosen.out, f"loss-{kind.name}", prove(kind, program))
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
