"""Starts the service under test on free ports, and stops it as an orchestrator does."""

import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

LISTENING = re.compile(r"listening on (http://\S+)(?: \(([\w-]+)\))?")


def base_environment() -> dict[str, str]:
    """What every service gets. The other variables (DATABASE_URL, REDIS_URL, http_proxy, LC_ALL) are those of whoever runs the cases:
    a service under test must not find a database with them. `--env` adds what it needs."""
    names = ("PATH", "HOME", "TMPDIR", "JAVA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return {name: os.environ[name] for name in names if name in os.environ} | {"LC_ALL": "C.UTF-8"}


class NotStarted(Exception):
    """The service did not say where it listens; the text says what it said instead."""


class Service:
    def __init__(
        self, command: str, cwd: Path, env: Mapping[str, str], targets: list[str], deadline: float = 60
    ) -> None:
        """Waits until `listening on http://ADDR`, or `listening on http://ADDR (NAME)` for each target, is printed."""
        self.base_urls: dict[str | None, str] = {}
        self.wanted: set[str | None] = set(targets) or {None}
        self.ready = threading.Event()
        self.output: list[str] = []
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by kill()
        self.process = subprocess.Popen(
            shlex.split(command),
            cwd=cwd,
            env={**base_environment(), "PORT": "0", **env},
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.ready.wait(deadline) or not self.wanted <= self.base_urls.keys():
            missing = ", ".join(str(name) for name in self.wanted - self.base_urls.keys() if name)
            said = self.said()
            self.kill()
            raise NotStarted(f"{command}: no 'listening on http://ADDR'{f' for {missing}' if missing else ''}\n{said}")

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.output.append(line)
            match = LISTENING.search(line)
            if match:
                self.base_urls[match[2] if match[2] in self.wanted else None] = match[1]
                if self.wanted <= self.base_urls.keys():
                    self.ready.set()
        self.ready.set()

    def said(self) -> str:
        self.errors.seek(0)
        return "".join(self.output[-20:]) + self.errors.read()[-4000:].decode("utf-8", "replace")

    def signal(self, name: str) -> None:
        self.process.send_signal(signal.Signals[f"SIG{name}"])

    def exit_problems(self, deadline: float = 40) -> Iterator[str]:
        """Waits for the end that a signal requested."""
        try:
            code = self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            yield f"still running {deadline:.0f} s after the signal"
            return
        if code != 0:
            yield f"exit code: expected 0, came {code}\n{self.said()}"

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Ends whatever is left of it, children included."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.errors.close()
