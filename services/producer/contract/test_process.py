"""A service as a process: settings, logs, metrics, the way it stops."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import clients
import httpx
import psycopg
import pytest
import stack
from clients import STORED, Outcome
from conftest import System, World
from test_cases import event
from test_database import until


def metrics(system: System) -> dict[str, float]:
    text = httpx.get(system.service.metrics_url, trust_env=False).text
    samples = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            # The order of labels is a library's own affair.
            labels = re.findall(r'(\w+)="([^"]*)"', name)
            samples[name.partition("{")[0] + "".join(f"|{label}={text}" for label, text in sorted(labels))] = float(
                value
            )
    return samples


def test_metrics(system: System) -> None:
    ok = "200" if system.kind.protocol == "rest" else "OK"
    bad = "422" if system.kind.protocol == "rest" else "INVALID_ARGUMENT"
    wanted = {
        f"producer_requests_total|code={ok}|operation=process_event": 1,
        f"producer_requests_total|code={bad}|operation=process_event": 1,
        f"producer_requests_total|code={ok}|operation=health": 1,
        "producer_request_duration_seconds_count|operation=process_event": 2,
        "producer_request_duration_seconds_bucket|le=+Inf|operation=process_event": 2,
        "producer_events_total|outcome=stored": 1,
        "producer_events_total|outcome=refused": 1,
        "producer_entities_total": 2,
    }

    def counted() -> dict[str, float]:
        seen = metrics(system)
        return {name: seen.get(name, 0) - before.get(name, 0) for name in wanted}

    two = event()
    two["eventBody"]["entities"].append({"entityType": "Loan", "entityId": "1"})
    before = metrics(system)
    assert system.client.send(two).result == "ok"
    assert system.client.send({}).result == "refused"
    assert system.client.health()[0]
    # A request is counted when it gets a response, which its client may see first.
    until(lambda: counted() == wanted, 5)
    seen = metrics(system)
    assert seen["producer_database_connections|state=idle"] + seen["producer_database_connections|state=used"] >= 1
    assert {name for name in seen if name.startswith("producer_request_duration_seconds_bucket|le=0.005|")}


def test_logs_are_json_lines(system: System) -> None:
    assert system.client.send(event()).result == "ok"
    assert system.service.log, "a service says that it listens"
    for line in system.service.log:
        entry = json.loads(line)
        assert {"timestamp", "level", "message"} <= entry.keys(), line
        assert entry["level"] in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR"), line
    # At the default level a request writes nothing.
    lines = len(system.service.log)
    assert system.client.send(event()).result == "ok"
    assert len(system.service.log) == lines


def test_stopping_finishes_what_is_in_flight(world: World, system: System) -> None:
    assert system.client.send(event(None, {"before": True})).result == "ok"
    own = System(world, system.url, stack.Service.start(system.kind, system.url).wait_ready())
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(own.url) as blocker:
            blocker.execute("SELECT FROM car_entities FOR UPDATE")
            answer = pool.submit(own.client.send, event(None, {"in flight": True}))
            until(
                lambda: own.sql(
                    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
            )
            own.service.process.terminate()
            until(lambda: refused(own.service.port))
            assert not answer.done()
        assert answer.result() == Outcome("ok", STORED)
    # The JVM ends with 128 + 15 after it has stopped in order.
    assert own.service.stop() == (143 if own.kind.name.startswith("java-") else 0)
    assert own.rows()["Car/1"] == {"before": True, "in flight": True}
    # Another thread reads the log: it may be behind the end of the process.
    until(lambda: any(json.loads(line)["message"] == "stopped" for line in own.service.log))


def refused(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


def ended(kind: stack.Kind, **env: str) -> subprocess.CompletedProcess[str]:
    """A start that must end by itself."""
    inherited = {"PATH": stack.os.environ["PATH"], "HOME": stack.os.environ.get("HOME", "/")}
    variables = {kind.port_variable: "0", "METRICS_PORT": "0", **env}
    return subprocess.run(
        kind.command, env={**inherited, **variables}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("DATABASE_POOL_SIZE", "0"),
        ("DATABASE_URL", "mysql://x"),
        ("MAX_BODY_BYTES", "1MiB"),
        ("HOST", "nowhere"),
    ],
)
def test_a_setting_that_cannot_be_used_stops_the_start(any_kind: stack.Kind, name: str, value: str) -> None:
    name = any_kind.port_variable if name == "PORT" else name
    done = ended(any_kind, **{name: value})
    assert done.returncode == 64
    assert name in done.stdout + done.stderr


def test_a_port_in_use_stops_the_start(any_kind: stack.Kind) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ended(any_kind, **{any_kind.port_variable: str(port)})
    assert done.returncode == 1
    assert str(port) in done.stdout + done.stderr


def test_a_service_starts_while_the_database_is_away(any_kind: stack.Kind) -> None:
    held = stack.HeldPort()
    nobody = f"postgresql://postgres@127.0.0.1:{held.number}/car_entities"
    service = stack.Service.start(any_kind, nobody, DATABASE_ACQUIRE_TIMEOUT_MS="300").wait_ready()
    client = clients.connect(service)
    assert client.send(event()) == Outcome("unavailable", "Database is unavailable")
    assert client.health() == (False, "Database is unavailable")
    client.close()
    service.stop()
