"""PostgreSQL and the six services as processes of this machine: what `make producers`, the contract suite and the bench share.

Standard library only, so that `make producers` needs no packages. PostgreSQL's programs come from the system.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Tests take Rust's dev profile, whose dependencies the workspace's own tests have built already.
PROFILE = os.environ.get("PRODUCERS_PROFILE") or "dist"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
RUST = TARGET / ("debug" if PROFILE == "dev" else PROFILE)
BUILT = pathlib.Path(os.environ.get("WEIR_BUILD") or ROOT / "target" / "other") / "producers"
DATABASE = "car_entities"
# How the variables begin that set limits and timeouts.
SETTINGS = ("DATABASE_", "MAX_", "HEAD_", "BODY_", "IDLE_", "REQUEST_", "SHUTDOWN_")


class StackError(Exception):
    """Something that keeps the stack from starting; the message says what to do."""


@dataclass(frozen=True)
class Kind:
    """One of the six: how it is built, started and reached."""

    name: str
    protocol: str
    port: int
    command: tuple[str, ...]

    @property
    def port_variable(self) -> str:
        return "SERVER_PORT" if self.protocol == "rest" else "GRPC_SERVER_PORT"

    @property
    def metrics_port(self) -> int:
        return self.port + 100


JAVA = ("java", "-XX:+ExitOnOutOfMemoryError", "-Xmx512m", "-jar")
KINDS = {
    kind.name: kind
    for kind in (
        Kind("java-rest", "rest", 8081, (*JAVA, str(BUILT / "java-rest.jar"))),
        Kind("rust-rest", "rest", 8082, (str(RUST / "producer-rest"),)),
        Kind("go-rest", "rest", 9083, (str(BUILT / "go-rest"),)),
        Kind("java-grpc", "grpc", 9090, (*JAVA, str(BUILT / "java-grpc.jar"))),
        Kind("rust-grpc", "grpc", 9091, (str(RUST / "producer-grpc"),)),
        Kind("go-grpc", "grpc", 9092, (str(BUILT / "go-grpc"),)),
    )
}


def kinds(names: list[str]) -> list[Kind]:
    """The services of these names, all six when there are none."""
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise StackError(f"no service is named {', '.join(unknown)}. There are: {', '.join(KINDS)}")
    return [KINDS[name] for name in names] if names else list(KINDS.values())


class HeldPort:
    """A free port that no other process is given for as long as this lives: bound with SO_REUSEADDR, not listening, so that a server
    that sets SO_REUSEADDR too can listen on it, again and again."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]


def own_environment() -> dict[str, str]:
    """What every program gets that is started here. Settings of whoever runs this (PGHOST, PGSSLMODE, http_proxy, LC_ALL) do not reach them."""
    inherited = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "JAVA_HOME", "TMPDIR")}
    return {**inherited, "LC_ALL": "C.UTF-8"}


# Never through a proxy: what is requested runs on this machine.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


# --- building


def build(wanted: list[Kind], java_tests: bool = False) -> None:
    """Builds what is requested, each language with its own tool; output that is current is left as it is."""
    BUILT.mkdir(parents=True, exist_ok=True)
    names = {kind.name for kind in wanted}
    if any(name.startswith("rust-") for name in names):
        # Always both: built alone, each would have its dependencies built anew, with fewer features. With the profile of the tests they are
        # built as those build them (the example uses what only tests depend on).
        both = ["-pproducer-rest", "-pproducer-grpc"]
        if PROFILE == "dev":
            both = ["--workspace", "--bin=producer-rest", "--bin=producer-grpc", "--example=describe"]
        _build(["cargo", "build", f"--profile={PROFILE}", "--locked", *both], ROOT, CARGO_TARGET_DIR=str(TARGET))
    for name in sorted(names):
        if name.startswith("go-"):
            _build(["go", "build", "-trimpath", "-o", str(BUILT / name), f"./{name}"], HERE)
    java = sorted(name for name in names if name.startswith("java-"))
    if java:
        skip = [] if java_tests else ["-DskipTests"]
        command = ["mvn", "-B", "-q", *skip, "package", "-pl", ",".join(java), "-am"]
        try:
            _build([*command, "-o"], HERE, quiet=True)
        except StackError:
            # Offline is quick but knows only what was fetched before; a failure of another kind comes again, and is seen.
            _build(command, HERE)
        for name in java:
            # Put in place at once: a JVM that runs from the old file reads on in the old one.
            shutil.copyfile(HERE / name / "target" / f"{name}.jar", BUILT / f"{name}.jar.new")
            (BUILT / f"{name}.jar.new").replace(BUILT / f"{name}.jar")


def _build(command: list[str], cwd: pathlib.Path, quiet: bool = False, **env: str) -> None:
    _program(command[0], f"It builds the services in {cwd}.")
    output = subprocess.DEVNULL if quiet else None
    if subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, stdout=output, stderr=output, check=False
    ).returncode:
        raise StackError(f"'{' '.join(command)}' failed in {cwd}")


def _program(name: str, hint: str) -> str:
    path = shutil.which(name)
    if not path:
        raise StackError(f"'{name}' is not installed. {hint}")
    return path


# --- PostgreSQL


class Postgres:
    """A PostgreSQL of our own, of version 15 or newer, on a free port of the loopback address, its data in `directory`."""

    def __init__(self, directory: pathlib.Path, *, durable: bool = True):
        self.directory = directory
        self.held = HeldPort()
        self.port = self.held.number
        self.durable = durable
        self.bin = self._find_programs()
        # PostgreSQL refuses to run as root. A program changes the user, not subprocess, which would have to fork for it:
        # the tests hold gRPC channels, whose threads do not live through a fork.
        self.become = ("runuser", "-u", "postgres", "--") if os.geteuid() == 0 else ()

    @staticmethod
    def _find_programs() -> pathlib.Path:
        candidates = [
            path
            for pattern in (
                "/usr/lib/postgresql/*/bin",
                "/opt/homebrew/opt/postgresql@*/bin",
                "/usr/local/opt/postgresql@*/bin",
            )
            for path in pathlib.Path("/").glob(pattern[1:])
        ]
        candidates += [pathlib.Path(p).parent for p in [shutil.which("pg_ctl")] if p]
        found = [(version, path) for path in candidates if (version := _postgres_version(path)) >= 15]
        if found:
            return max(found)[1]
        raise StackError(
            "PostgreSQL 15 or newer is not installed. On Debian and Ubuntu: apt-get install postgresql; or set DATABASE_URL to one that runs."
        )

    @property
    def url(self) -> str:
        return f"postgresql://postgres:password@127.0.0.1:{self.port}/{DATABASE}"

    def _run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [*self.become, str(self.bin / program), *arguments]
        done = subprocess.run(
            command,
            cwd="/",
            env=own_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise StackError(f"{program} failed: {done.stdout}{done.stderr}")
        return done

    def start(self) -> None:
        """Starts the server, with a new cluster when there is none yet."""
        data = self.directory / "data"
        if not (data / "PG_VERSION").exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            if self.become:
                shutil.chown(self.directory, "postgres")
            self._run(
                "initdb",
                "-D",
                str(data),
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            )
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.directory}"
        if not self.durable:
            # A crash of PostgreSQL still loses nothing that was committed; only one of the machine would.
            options += " -c fsync=off"
        # Both logs are files: a server that inherits our output would keep a pipe open that someone reads to its end.
        log, said = self.directory / "log", self.directory / "pg_ctl.log"
        command = [
            *self.become,
            str(self.bin / "pg_ctl"),
            "-D",
            str(data),
            "-l",
            str(log),
            "-o",
            options,
            "-w",
            "-t",
            "60",
            "start",
        ]
        with said.open("w") as out:
            # A session of its own: Ctrl-C is for us, and we stop it in order.
            done = subprocess.run(
                command, cwd="/", env=own_environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                check=False,
            )  # fmt: skip
        if done.returncode:
            tail = log.read_text()[-2000:] if log.exists() else ""
            raise StackError(f"PostgreSQL did not start in {data}: {said.read_text()}{tail}")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self.directory / "data"), "-m", mode, "-w", "stop", check=False)

    def running(self) -> bool:
        return self._run("pg_ctl", "-D", str(self.directory / "data"), "status", check=False).returncode == 0


def _postgres_version(programs: pathlib.Path) -> int:
    """The major version of the server in a folder; 0 when there is none."""
    try:
        said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
        return int(re.match(r"postgres \(PostgreSQL\) (\d+)", said)[1])
    except (OSError, TypeError):
        return 0


def migrate(url: str) -> None:
    """Makes the database when it is missing and applies every migration; may be run again at any time, drops nothing."""
    psql = _program("psql", "On Debian and Ubuntu: apt-get install postgresql-client")
    if not _psql(psql, url, "-c", "SELECT 1", check=False):
        server, _, name = url.split("?")[0].rpartition("/")
        _psql(psql, f"{server}/postgres", "-c", f'CREATE DATABASE "{name}" ENCODING UTF8 TEMPLATE template0')
    # One transaction, under a lock: two stacks may start at once.
    files = [argument for path in sorted((HERE / "migrations").glob("*.sql")) for argument in ("-f", str(path))]
    _psql(psql, url, "-1", "-c", "SELECT pg_advisory_xact_lock(4711)", *files)


def _psql(psql: str, url: str, *arguments: str, check: bool = True) -> bool:
    env = {**own_environment(), "PGOPTIONS": "-c client_min_messages=warning"}
    command = [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise StackError(f"psql failed on {url}: {done.stderr.strip()}")
    return done.returncode == 0


# --- services


@dataclass
class Service:
    """One running service. Its log is read all the time; the ports it took are found there."""

    kind: Kind
    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def start(cls, kind: Kind, database_url: str, *, port: int = 0, metrics_port: int = 0, **env: str) -> Service:
        variables = {
            kind.port_variable: str(port),
            "METRICS_PORT": str(metrics_port),
            "DATABASE_URL": database_url,
            **env,
        }
        process = subprocess.Popen(
            kind.command, env={**own_environment(), **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        service = cls(kind, process)
        threading.Thread(target=service._read_log, daemon=True).start()
        return service

    def _read_log(self) -> None:
        for line in self.process.stdout:
            with self.changed:
                self.log.append(line.rstrip("\n"))
                self._note_port(line)
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def _note_port(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if isinstance(entry, dict) and entry.get("message") == "listening":
            self.ports[entry["what"]] = int(entry["address"].rpartition(":")[2])

    def wait_ready(self, seconds: float = 60) -> Service:
        """Waits until every port is open."""
        wanted = {"rest"} if self.kind.protocol == "rest" else {"grpc", "metrics"}
        deadline = time.monotonic() + seconds
        with self.changed:
            while not wanted <= self.ports.keys():
                left = deadline - time.monotonic()
                if self.process.poll() is not None or left <= 0:
                    raise StackError(f"{self.kind.name} did not start:\n" + "\n".join(self.log[-30:]))
                self.changed.wait(min(left, 0.2))
        return self

    def wait_healthy(self, seconds: float = 60) -> Service:
        """Waits until the service says that it and its database are well."""
        self.wait_ready(seconds)
        deadline = time.monotonic() + seconds
        while not self._is_healthy():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise StackError(f"{self.kind.name} is not healthy:\n" + "\n".join(self.log[-30:]))
            time.sleep(0.1)
        return self

    def _is_healthy(self) -> bool:
        if self.kind.protocol == "rest":
            try:
                with DIRECT.open(f"http://{self.address}/api/v1/events/health", timeout=5) as response:
                    return response.status == 200
            except OSError:
                return False
        # Without a gRPC library: its health check runs a statement, which leaves an open connection behind.
        try:
            with DIRECT.open(self.metrics_url, timeout=5) as response:
                text = response.read().decode()
        except OSError:
            return False
        connections = [line for line in text.splitlines() if line.startswith("producer_database_connections{")]
        return sum(float(line.split()[-1]) for line in connections) > 0

    @property
    def port(self) -> int:
        return self.ports[self.kind.protocol]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.get('metrics', self.port)}/metrics"

    def stop(self, seconds: float = 20) -> int:
        """Tells the service to stop and waits; gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise StackError(f"{self.kind.name} did not stop within {seconds:.0f} s of SIGTERM") from None
        return self.process.returncode


def wait_for_end(services: list[Service]) -> Service:
    """Waits until one of the services has ended; gives that one."""
    while True:
        for service in services:
            if service.process.poll() is not None:
                return service
        time.sleep(0.2)


def stop_all(services: list[Service]) -> None:
    """Tells all to stop at once, then waits for each."""
    for service in services:
        if service.process.poll() is None:
            service.process.terminate()
    for service in services:
        try:
            service.stop()
        except StackError as error:
            print(error)


def become_postgres(port: int, directory: pathlib.Path) -> None:
    """Becomes a PostgreSQL on this port, with the migrations applied: for programs that start one themselves, as gauge does."""
    postgres = Postgres(directory)
    postgres.start()
    try:
        migrate(postgres.url)
    finally:
        postgres.stop()
    options = ["-D", str(directory / "data"), "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", str(directory)]
    become([*postgres.become, str(postgres.bin / "postgres"), *options], own_environment())


def become_service(kind: Kind) -> None:
    """Becomes a service, with the settings of the environment."""
    settings = (*SETTINGS, "HOST", "SERVER_", "GRPC_", "METRICS_", "LOG_LEVEL", "RUST_LOG")
    own = {name: value for name, value in os.environ.items() if name.startswith(settings)}
    become(list(kind.command), {**own_environment(), **own})


def become(command: list[str], env: dict[str, str]) -> None:
    os.execvpe(command[0], command, env)


def main(arguments: list[str]) -> None:
    """`stack.py build [--java-tests] [SERVICE...]`, `stack.py postgres PORT DIRECTORY` or `stack.py service SERVICE`"""
    match arguments:
        case ["build", *names]:
            build(kinds([name for name in names if name != "--java-tests"]), "--java-tests" in names)
        case ["postgres", port, directory]:
            become_postgres(int(port), pathlib.Path(directory))
        case ["service", name]:
            become_service(kinds([name])[0])
        case _:
            raise SystemExit(f"usage: {main.__doc__}")


def data_directory() -> pathlib.Path:
    """Where `make producers` keeps its database. Below root's home the user postgres could not reach it."""
    if os.environ.get("PRODUCERS_DATA"):
        return pathlib.Path(os.environ["PRODUCERS_DATA"])
    if os.geteuid() == 0:
        return pathlib.Path("/var/lib/weir-producers")
    return BUILT / "postgres"


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except StackError as error:
        raise SystemExit(f"error: {error}") from None
