"""Instructions that a gateway executes per request, by callgrind."""

import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rig import free_port, wait_for

# nginx's slowest rates let single requests through.
FIRST = 5
SHORT, LONG = 500, 2500


@dataclass
class Request:
    """A request that is repeated; all responses but the first few have `status`."""

    path: str
    head: bytes
    body: bytes = b""
    status: int = 200


def response(reader) -> tuple[int, bool]:
    """Reads one response: its status, and whether the connection may carry another request."""
    status = int(reader.readline().split()[1])
    length, is_kept = 0, True
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = (part.strip().lower() for part in line.partition(b":"))
        if name == b"content-length":
            length = int(value)
        is_kept = is_kept and (name, value) != (b"connection", b"close")
    reader.read(length)
    return status, is_kept


def send(port: int, request: Request, count: int) -> None:
    """Sends requests over one connection, or as few as the gateway keeps: it must close one whose upstream responds before it has read
    all of a large body."""
    message = request.head.replace(b"{port}", str(port).encode()) + request.body
    sent = 0
    while sent < count:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client, client.makefile("rb") as reader:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            is_kept = True
            while is_kept and sent < count:
                client.sendall(message)
                status, is_kept = response(reader)
                sent += 1
                if sent > FIRST and status != request.status:
                    raise RuntimeError(f"request {sent} of {request.path}: status {status}, not {request.status}")


def collected(binary: str, configure: Callable[[int], Path], request: Request, count: int, keep: Path) -> int:
    """Instructions of one life of the gateway with that many requests. `configure` writes its configuration for a port."""
    port = free_port()
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={keep}", binary, "--config", str(configure(port))]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(port, 60)
            send(port, request, count)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            process.kill()
        log.seek(0)
        text = log.read()
    found = re.search(r"Collected : (\d+)", text)
    if not found:
        raise RuntimeError(f"callgrind reported no count:\n{text[-2000:]}")
    return int(found[1])


def per_request(
    binary: str, configure: Callable[[int], Path], request: Request, keep: Path = Path("/dev/null")
) -> float:
    """What a long run executes more than a short one, over the requests that it has more: starting and stopping are left out."""
    short = collected(binary, configure, request, SHORT, Path("/dev/null"))
    return (collected(binary, configure, request, LONG, keep) - short) / (LONG - SHORT)
