"""The command line and pytest, with a service that they start."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from contract.service import NotStarted, Service

from .conftest import CONTRACT

SERVICE = """
import os, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"{}")
    def log_message(self, *args): pass

server = HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(os.environ.get("CODE", "0"))))
if os.environ.get("IGNORE"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.environ.get("MUTE"):
    sys.exit("error: not today")
print("listening on http://127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()
"""
CASES = "cases: [{name: good, request: GET /}, {name: bad, request: GET /, expect: {json: {a: 1}}}]"


HOSTILE = {
    "DATABASE_URL": "postgres://developer@127.0.0.1:9/work",
    "PGHOST": "127.0.0.1",
    "REDIS_URL": "redis://127.0.0.1:9",
    "REDIS_ADDR": "127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "ALL_PROXY": "http://127.0.0.1:9",
    "LC_ALL": "tr_TR.UTF-8",
    "NODE_OPTIONS": "--require /nowhere",
    "PYTHONPATH": "/nowhere",
}


def test_a_service_does_not_inherit_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: with DATABASE_URL set, a service under test wrote its tables into the developer's database."""
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    print_it = 'import json, os; open("seen.json", "w").write(json.dumps(dict(os.environ)))\n'
    (folder / "service.py").write_text(print_it + SERVICE)
    service = Service(f"{sys.executable} service.py", folder, {"CHOSEN": "1"}, [])
    service.kill()
    seen = json.loads((folder / "seen.json").read_text())
    assert seen["CHOSEN"] == "1"
    assert seen["PATH"] == os.environ["PATH"]
    assert {name: seen[name] for name in HOSTILE if name in seen} == {"LC_ALL": "C.UTF-8"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "cases.yaml").write_text(CASES)
    return tmp_path


def contract(
    folder: Path, *options: str, runner: tuple[str, ...] = ("-m", "contract")
) -> subprocess.CompletedProcess[str]:
    start = ("--start", f"{sys.executable} service.py", "--cwd", str(folder))
    command = [
        sys.executable,
        *runner,
        str(folder / "cases.yaml"),
        *(options if "--base-url" in options else (*start, *options)),
    ]
    return subprocess.run(
        command,
        cwd=CONTRACT,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_it_starts_runs_stops_and_counts(folder):
    done = contract(folder)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == ["passed  good", "FAILED  bad"]
    assert "        json/a: expected 1, it is absent" in lines
    assert lines[-2:] == ["passed  stops on SIGTERM with exit code 0", "2 passed, 1 failed, 0 skipped"]


def test_all_well_is_exit_0(folder):
    done = contract(folder, "--only", "good", "-q")
    assert (done.returncode, done.stdout) == (0, "2 passed, 0 failed, 0 skipped\n")


def test_a_bad_exit_code_is_a_failure(folder):
    done = contract(folder, "--only", "good", "--env", "CODE=3")
    assert done.returncode == 1
    assert "exit code: expected 0, came 3" in done.stdout


def test_a_service_that_does_not_start_says_why(folder):
    done = contract(folder, "--env", "MUTE=1")
    assert done.returncode == 1
    assert "no 'listening on http://ADDR'" in done.stdout
    assert "error: not today" in done.stdout
    assert done.stdout.endswith("0 passed, 1 failed, 0 skipped\n")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--base-url", "http://x", "--start", "y"], "give either --base-url or --start"),
        (["--base-url", "auth=http://x"], "no base URL for the service"),
        (["--through", "nowhere"], "there is no way through named 'nowhere'"),
        (["--only", "nothing"], "no case has 'nothing' in its name"),
        (["--env", "X"], "expected NAME=VALUE, came 'X'"),
    ],
)
def test_what_cannot_be_meant_is_exit_2(folder, options, problem):
    done = contract(folder, *options)
    assert done.returncode == 2
    assert problem in done.stderr


def test_nothing_listening_is_a_failure_of_each_case(folder):
    done = contract(folder, "--base-url", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "ConnectError" in done.stdout
    assert done.stdout.endswith("0 passed, 2 failed, 0 skipped\n")


def test_pytest_runs_the_same_cases(folder):
    done = contract(
        folder,
        runner=(
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            str(CONTRACT / "pyproject.toml"),
            "--rootdir",
            str(CONTRACT),
            "--confcutdir",
            str(CONTRACT),
            "-p",
            "conftest",
        ),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED  bad" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_a_service_that_does_not_stop_is_told_on_and_ended(folder):
    service = Service(f"{sys.executable} service.py", folder, {"IGNORE": "1"}, [])
    service.signal("TERM")
    assert list(service.exit_problems(deadline=0.3)) == ["still running 0 s after the signal"]
    service.kill()
    assert not service.running


def test_every_target_must_be_announced(folder):
    with pytest.raises(NotStarted, match="for auth"):
        Service(f"{sys.executable} service.py", folder, {}, ["auth"], deadline=1)
