#!/usr/bin/env python3
"""Starts the reference services with Weir in front, waits until each is healthy, says where each is, and stops all of them on Ctrl-C.

scripts/services builds what is started here and passes the paths. With --free-ports every service takes a free port.
Standard library only.
"""

import argparse
import contextlib
import ctypes
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTENING = re.compile(r"listening on http://(\S+?)(?: \(([\w-]+)\))?\n")
START_SECONDS, STOP_SECONDS = 60, 15


class NotUp(Exception):
    """Why the services cannot be started."""


@dataclass
class Service:
    """One program, its ports by name (the empty one when it has one alone), and what is to be said of it."""

    name: str
    command: list[str]
    about: str
    ports: dict[str, int]
    variables: dict[str, str] = field(default_factory=dict)  # port's name -> the environment's name for it
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path = ROOT
    health: str = "/healthz"
    addresses: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen | None = None

    def url(self, port: str = "") -> str:
        return f"http://{self.addresses[port]}"


# What Weir takes from the environment without a file: docs/inference-gateway.md. Only these are passed on, and to Weir alone.
WEIR_VARIABLES = ("RATE_LIMIT_", "GLOBAL_", "CLIENT_", "RL_", "CACHE_", "REDIS_", "TRUSTED_PROXIES")


def base_environment() -> dict[str, str]:
    """What every service gets. The other variables (DATABASE_URL, REDIS_URL, http_proxy, LC_ALL) are those of whoever runs this."""
    names = ("PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return {name: os.environ[name] for name in names if name in os.environ} | {"LC_ALL": "C.UTF-8"}


def end_with_parent() -> None:
    """In the child: SIGTERM when this program goes, however it goes (prctl PR_SET_PDEATHSIG; Linux alone)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Services:
    def __init__(self, logs: Path, free_ports: bool) -> None:
        self.logs, self.free_ports = logs, free_ports
        self.running: list[Service] = []
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, service: Service) -> Service:
        """Starts one and waits until it is healthy."""
        env = base_environment() | {"HOST": "127.0.0.1"} | service.env
        for port, number in service.ports.items():
            env[service.variables.get(port, "PORT")] = "0" if self.free_ports else str(number)
        log = self.logs / f"{service.name}.log"
        with log.open("w") as file:
            service.process = subprocess.Popen(
                service.command,
                cwd=service.cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C at the terminal is for this program, which stops the others in order
                preexec_fn=end_with_parent,
            )
        self.running.append(service)
        deadline = time.monotonic() + START_SECONDS
        while not service.ports.keys() <= service.addresses.keys():
            service.addresses = {name: address for address, name in LISTENING.findall(log.read_text())}
            self.wait(service, log, deadline)
        for port in service.ports:
            while not healthy(service.url(port) + service.health):
                self.wait(service, log, deadline)
        return service

    @staticmethod
    def wait(service: Service, log: Path, deadline: float) -> None:
        said = "".join(f"\n    {line}" for line in log.read_text().splitlines()[-8:])
        if service.process.poll() is not None:
            raise NotUp(f"{service.name} ended with exit code {service.process.returncode}; {log} has:{said}")
        if time.monotonic() > deadline:
            raise NotUp(f"{service.name} is not healthy after {START_SECONDS} s; {log} has:{said}")
        time.sleep(0.05)

    def redis(self, program: str, directory: Path) -> str:
        """A Redis of our own on a Unix socket, without persistence; its path."""
        path = directory / "redis.sock"
        path.unlink(missing_ok=True)
        command = [
            program,
            "--port",
            "0",
            "--unixsocket",
            str(path),
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            str(directory),
        ]
        log = self.logs / "redis.log"
        service = Service("redis", command, "counters of limiter-fiber", {}, addresses={"": f"unix:{path}"})
        with log.open("w") as file:
            service.process = subprocess.Popen(
                command,
                env=base_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self.running.append(service)
        deadline = time.monotonic() + START_SECONDS
        while not redis_answers(path):
            self.wait(service, log, deadline)
        return str(path)

    def stop(self) -> bool:
        """Stops all, the last started first; whether each of them ended as it should."""
        clean = True
        for service in reversed(self.running):
            service.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for service in reversed(self.running):
            try:
                service.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                clean = False
                print(f"{service.name} did not stop within {STOP_SECONDS} s, and is killed", file=sys.stderr)
            # What is left of its group, if anything.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(service.process.pid, signal.SIGKILL)
            service.process.wait()
        return clean

    def watch(self) -> None:
        """Until a service ends, or a signal."""
        descriptors = {os.pidfd_open(service.process.pid): service for service in self.running}
        ready, _, _ = select.select(list(descriptors), [], [])
        ended = descriptors[ready[0]]
        raise NotUp(
            f"{ended.name} ended by itself with exit code {ended.process.wait()}; see {self.logs / ended.name}.log"
        )


def healthy(url: str) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


def redis_answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(2)
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def start_all(services: Services, programs: argparse.Namespace) -> None:
    """In the order in which they need each other."""
    go, folder = programs.go, ROOT / "services"
    python = services.start(
        Service(
            "inference-python",
            [programs.python, "-m", "app"],
            "POST /infer, /v1/chat/completions",
            {"": 8001},
            cwd=folder / "inference-python",
        )
    )
    node = services.start(
        Service(
            "inference-node",
            ["node", "src/index.js"],
            "POST /infer, /v1/chat/completions",
            {"": 8002},
            cwd=folder / "inference-node",
        )
    )
    hono = services.start(
        Service(
            "messages-hono",
            ["node", "src/index.js"],
            "GET /api/auth/sample, /api/messages/sample",
            {"auth": 5002, "messages": 5001},
            variables={"auth": "AUTH_PORT", "messages": "MESSAGES_PORT"},
            cwd=folder / "messages-hono",
        )
    )
    calculator = services.start(Service("calculator", [str(go / "calculator")], "GET /api/add?lhs=8&rhs=2", {"": 3001}))
    auction = services.start(
        Service(
            "auction",
            [str(go / "auction")],
            "auction/openapi.yaml",
            {"users": 12000, "active": 14000, "descriptions": 10000},
            variables={"users": "USERS_PORT", "active": "ACTIVE_PORT", "descriptions": "DESCRIPTIONS_PORT"},
            env={"DATA_DIR": str(programs.data / "auction"), **auction_database()},
        )
    )
    services.start(
        Service(
            "gateway-fiber",
            [str(go / "gateway-fiber")],
            "/api/auth/*, GET /gates",
            {"": 5000},
            env={"AUTH_URL": hono.url("auth")},
        )
    )
    if redis := shutil.which("redis-server"):
        socket_path = services.redis(redis, programs.data)
        services.start(
            Service(
                "limiter-fiber",
                [
                    str(go / "limiter-fiber"),
                    *("-app-endpoint", calculator.addresses[""]),
                    *("-redis-endpoint", f"unix://{socket_path}"),
                ],
                "the calculator, 3 requests in 5 s for each X-API-KEY",
                {"": 3000},
            )
        )
    else:
        print("limiter-fiber is left out: redis-server is not installed (Debian: apt-get install redis-server)")
    services.start(
        Service(
            "weir",
            [str(programs.weir)],
            "the inference gateway: /infer/python, /infer/node, /slow, /gates",
            {"": 8080},
            env={
                "PY_SERVICE_URL": python.url(),
                "NODE_SERVICE_URL": node.url(),
                **free_admin(services),
                **weir_settings(),
            },
        )
    )
    listen = "127.0.0.1:0" if services.free_ports else "127.0.0.1:8090"
    services.start(
        Service(
            "weir-reference",
            [str(programs.weir), "--config", str(ROOT / "examples/weir/reference.yaml")],
            "every service behind one address: examples/weir/reference.yaml",
            {"": 8090},
            env={
                "REFERENCE_LISTEN": listen,
                "PY_SERVICE_URL": python.url(),
                "NODE_SERVICE_URL": node.url(),
                "AUTH_URL": hono.url("auth"),
                "MESSAGES_URL": hono.url("messages"),
                "CALCULATOR_URL": calculator.url(),
                "USERS_URL": auction.url("users"),
                "ACTIVE_URL": auction.url("active"),
                "DESCRIPTIONS_URL": auction.url("descriptions"),
            },
        )
    )


def weir_settings() -> dict[str, str]:
    """The settings of Weir that the environment has."""
    return {name: value for name, value in os.environ.items() if name.startswith(WEIR_VARIABLES)}


def auction_database() -> dict[str, str]:
    """AUCTION_DATABASE_URL puts the auctions into a PostgreSQL; a DATABASE_URL may be meant for another program."""
    url = os.environ.get("AUCTION_DATABASE_URL")
    return {"DATABASE_URL": url} if url else {}


def free_admin(services: Services) -> dict[str, str]:
    """The admin listener of the inference gateway, unless ports are free ones, of which nobody would know."""
    return {} if services.free_ports else {"ADMIN_ADDR": os.environ.get("ADMIN_ADDR", "127.0.0.1:9901")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=Path, required=True)
    parser.add_argument("--go", type=Path, required=True, help="folder of the Go programs")
    parser.add_argument("--python", required=True, help="Python with the packages of inference-python")
    parser.add_argument("--data", type=Path, required=True, help="folder of the services' data and logs")
    parser.add_argument("--free-ports", action="store_true")
    programs = parser.parse_args()
    # SIGINT too: a shell without job control starts what runs in the background with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    programs.data.mkdir(parents=True, exist_ok=True)
    services = Services(programs.data / "logs", programs.free_ports)
    code = 0
    try:
        start_all(services, programs)
        for service in services.running:
            for port, address in service.addresses.items():
                place = address if address.startswith("unix:") else f"http://{address}"
                name = f"{service.name} ({port})" if port else service.name
                print(f"{name:24} {place:32} {service.process.pid:>8}  {service.about}")
        print(f"logs in {services.logs}; all are up, Ctrl-C stops them", flush=True)
        services.watch()
    except KeyboardInterrupt:
        pass
    except (NotUp, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave half of them
        print("\nstopping", flush=True)
        if not services.stop():
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
