#!/usr/bin/env python3
"""Restarts three replicas of Weir one after the other, behind HAProxy in TCP mode and under load, and counts failed requests.

    rolling.py WEIR FOLDER          SIGTERM, as an upgrade does it: no request may fail
    rolling.py WEIR FOLDER --kill   SIGKILL: requests must fail, or this test would see nothing

HAProxy names clients in a PROXY header and checks /healthz, as the balancers in deploy/terraform do. A client keeps its connection until a
response says that it closes, and never repeats a request. Standard library only.
"""

import http.client
import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

DEADLINE = 60.0
CLIENTS = 8
REPLICAS = 3
# Responses that every client gets between two restarts.
BETWEEN = 50

WEIR = """
listen:
  - {{bind: "{address}:{port}", proxy_protocol: v2}}
  - "{address}:{health}"
workers: 1
trusted_proxies: [127.0.0.0/8]
server: {{drain: 20s, drain_delay: 3s}}
upstreams:
  shop: {{targets: ["http://127.0.0.1:{upstream}"]}}
routes:
  - match: {{path: /healthz}}
    respond: {{builtin: healthz}}
  - match: {{path: /*}}
    upstream: shop
"""

HAPROXY = """
global
  stats socket {folder}/haproxy.sock
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend clients
  bind 127.0.0.1:{port}
  default_backend replicas
backend replicas
  balance roundrobin
  option httpchk GET /healthz
  default-server check inter 200ms fall 2 rise 2 send-proxy-v2
"""


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Requests are counted by the clients."""


def free_port(address: str) -> int:
    with socket.socket() as listener:
        listener.bind((address, 0))
        return listener.getsockname()[1]


def wait_for(what: str, condition) -> None:
    until = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"rolling: {what}: not within {DEADLINE:.0f} s")
        time.sleep(0.05)


class Client(threading.Thread):
    """Sends requests one after the other."""

    def __init__(self, port: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port, self.stop = port, stop
        self.responses = 0
        self.failures: list[str] = []

    def run(self) -> None:
        connection = None
        while not self.stop.is_set():
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
                connection.request("GET", "/")
                response = connection.getresponse()
                body = response.read()
                if response.status != 200 or body != b"ok":
                    self.failures.append(f"status {response.status}")
                self.responses += 1
                if response.will_close:
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                connection = None


class Replicas:
    def __init__(self, weir: str, folder: Path, upstream: int) -> None:
        self.weir, self.folder = weir, folder
        self.addresses = [f"127.91.{os.getpid() % 250}.{number + 1}" for number in range(REPLICAS)]
        self.ports = [(free_port(address), free_port(address)) for address in self.addresses]
        for number, (address, (port, health)) in enumerate(zip(self.addresses, self.ports, strict=True)):
            text = WEIR.format(address=address, port=port, health=health, upstream=upstream)
            (folder / f"weir{number}.yaml").write_text(text)
        self.processes = [self.start(number) for number in range(REPLICAS)]

    def start(self, number: int) -> subprocess.Popen:
        with (self.folder / f"weir{number}.log").open("a") as log:
            return subprocess.Popen(
                [self.weir, "--config", str(self.folder / f"weir{number}.yaml")], stdout=log, stderr=log
            )

    def restart(self, number: int, how: signal.Signals) -> None:
        self.processes[number].send_signal(how)
        status = self.processes[number].wait(DEADLINE)
        if how == signal.SIGTERM and status != 0:
            sys.exit(f"rolling: replica {number} ended with {status}; see {self.folder}/weir{number}.log")
        self.processes[number] = self.start(number)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def states(folder: Path) -> dict[str, str]:
    """The state of each replica as HAProxy sees it."""
    try:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(5)
            control.connect(str(folder / "haproxy.sock"))
            control.sendall(b"show stat\n")
            rows = control.makefile().read().splitlines()
    except OSError:
        return {}
    names = rows[0].removeprefix("# ").split(",")
    rows = [dict(zip(names, row.split(","), strict=False)) for row in rows[1:] if row]
    return {row["svname"]: row["status"] for row in rows if row["svname"].startswith("replica")}


def main() -> int:
    weir, folder = sys.argv[1], Path(sys.argv[2])
    how = signal.SIGKILL if "--kill" in sys.argv[3:] else signal.SIGTERM
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    replicas = Replicas(weir, folder, upstream.server_address[1])
    port = free_port("127.0.0.1")
    text = HAPROXY.format(folder=folder, port=port)
    for number, (address, (own, health)) in enumerate(zip(replicas.addresses, replicas.ports, strict=True)):
        text += f"  server replica{number} {address}:{own} port {health}\n"
    (folder / "haproxy.cfg").write_text(text)
    with (folder / "haproxy.log").open("w") as log:
        balancer = subprocess.Popen(["haproxy", "-f", str(folder / "haproxy.cfg")], stdout=log, stderr=log)
    stop = threading.Event()
    try:
        all_up = ["UP"] * REPLICAS
        # Checks of servers count as UP before the first one: each replica responds to its own health check first.
        for address, (_, health) in zip(replicas.addresses, replicas.ports, strict=True):
            wait_for("a replica listens", lambda at=(address, health): socket.socket().connect_ex(at) == 0)
        wait_for("all replicas are up", lambda: list(states(folder).values()) == all_up)
        clients = [Client(port, stop) for _ in range(CLIENTS)]
        for client in clients:
            client.start()

        def served() -> None:
            goals = [client.responses + BETWEEN for client in clients]
            wait_for(
                "every client gets responses",
                lambda: all(client.responses >= goal for client, goal in zip(clients, goals, strict=True)),
            )

        served()
        for number in range(REPLICAS):
            replicas.restart(number, how)
            wait_for("the new replica is up", lambda: list(states(folder).values()) == all_up)
            served()
        stop.set()
        for client in clients:
            client.join(DEADLINE)
    finally:
        balancer.kill()
        balancer.wait()
        replicas.end()
    failures = [failure for client in clients for failure in client.failures]
    print(f"{sum(client.responses for client in clients)} responses, {len(failures)} failed requests")
    for failure in failures[:5]:
        print(failure)
    return int(bool(failures)) if how == signal.SIGTERM else int(not failures)


if __name__ == "__main__":
    sys.exit(main())
