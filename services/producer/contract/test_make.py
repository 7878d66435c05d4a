"""`make producers`, as a user runs it: it starts, says where everything is, stops at Ctrl-C, and keeps the data."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator

import httpx
import psycopg
import pytest
import stack
from test_cases import event


@pytest.fixture
def data() -> Iterator[pathlib.Path]:
    directory = pathlib.Path(tempfile.mkdtemp(prefix="producers-data-"))
    directory.chmod(0o755)
    yield directory / "postgres"
    shutil.rmtree(directory, ignore_errors=True)


def start(data: pathlib.Path, *services: str) -> tuple[subprocess.Popen[str], list[str]]:
    env = {**os.environ, "PRODUCERS_DATA": str(data), "PRODUCERS_ANY_PORT": "1"}
    env.pop("DATABASE_URL", None)
    command = [stack.ROOT / "scripts" / "producers", *services]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("ready"):
            return process, lines
    raise AssertionError("".join(lines))


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.terminate()
        raise
    assert process.returncode == 0, output


def test_make_producers_keeps_its_data(data: pathlib.Path, pytestconfig: pytest.Config) -> None:
    # One of each protocol is enough: the six are started in the same way, and by all other tests.
    names = pytestconfig.getoption("--services").split() or ["go-rest", "rust-grpc"]
    for run in range(2):
        process, lines = start(data, *names)
        text = "".join(lines)
        database = re.search(r"postgresql://\S+", text)[0]
        for name in names:
            where = re.search(rf"^{name} +(\S+)", text, re.MULTILINE)[1]
            if where.startswith("http"):
                assert httpx.post(where, json=event(None, {f"run {run}": name}), trust_env=False).status_code == 200
        with psycopg.connect(database) as connection:
            rows = connection.execute("SELECT data FROM car_entities").fetchall()
        stop(process)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(database, connect_timeout=5)
    assert rows == [({"run 0": rows[0][0]["run 0"], "run 1": rows[0][0]["run 1"]},)]


def test_an_unknown_service_is_named(data: pathlib.Path) -> None:
    done = subprocess.run(
        [stack.ROOT / "scripts" / "producers", "cobol-rest"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "cobol-rest" in done.stderr
    assert "rust-grpc" in done.stderr
