import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SERVICE = Path(__file__).parent.parent


def run(**env: str) -> subprocess.Popen[str]:
    """The service as a user starts it, on a free port."""
    return subprocess.Popen(
        [sys.executable, "-m", "app"],
        cwd=SERVICE,
        env={**os.environ, "PORT": "0", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def start() -> Iterator[Callable[..., str]]:
    """Starts the service with the variables given and returns its address."""
    running = []

    def start_one(**env: str) -> str:
        process = run(**env)
        running.append(process)
        line = process.stdout.readline()
        assert line.startswith("listening on "), process.stderr.read()
        return line.removeprefix("listening on ").strip()

    yield start_one
    for process in running:
        process.terminate()
    for process in running:
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
