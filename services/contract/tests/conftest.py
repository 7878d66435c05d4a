import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from contract.cases import Suite, load
from contract.run import Result, Runner

CONTRACT = Path(__file__).parent.parent


class Handler(BaseHTTPRequestHandler):
    """A service whose faults are its routes."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        _, route, *rest = self.path.partition("?")[0].split("/")
        answer = getattr(self, f"on_{route}", None)
        if answer is None:
            self.send(404, {"path": self.path})
        else:
            answer(body, "/".join(rest))

    do_POST = do_PUT = do_GET

    def send(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in (
            {"Content-Type": "application/json", "Content-Length": str(len(data))} | (headers or {})
        ).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def on_echo(self, body: bytes, rest: str) -> None:
        value = {
            "method": self.command,
            "path": self.path,
            "body": body.decode("latin-1"),
            "headers": dict(self.headers),
        }
        self.send(200, value, {"X-Token": "Bearer abc123"})

    on_python = on_s = on_inference = on_echo

    def on_nan(self, body: bytes, rest: str) -> None:
        self.send(200, b"{", {"Content-Type": "text/plain"})

    def on_count(self, body: bytes, rest: str) -> None:
        """200 for the first `rest` requests of this server, then 429."""
        with self.lock:
            self.server.counted += 1
            count = self.server.counted
        self.send(200 if count <= int(rest) else 429, {"count": count})

    def on_cut(self, body: bytes, rest: str) -> None:
        self.send(200, b"{}", {"Content-Length": "10"})
        self.close_connection = True

    def on_slow(self, body: bytes, rest: str) -> None:
        self.server.gate.wait(10)
        self.send(200, {})

    def on_held(self, body: bytes, rest: str) -> None:
        """Events of which the second comes only after GET /release."""
        self.stream(hold=True)

    def on_buffered(self, body: bytes, rest: str) -> None:
        """As a proxy that buffers would pass on what /held sends: only once there is no more to come."""
        self.server.gate.wait(0.5)
        self.stream(hold=False)

    def on_release(self, body: bytes, rest: str) -> None:
        ended = self.server.ended
        self.server.gate.set()
        self.send(200, {"ended": ended})

    def stream(self, *, hold: bool) -> None:
        # Without a hold nothing more comes after the first byte is on its way, however long the rest takes.
        self.server.ended = not hold
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b'data: {"n":1,"word":"one"}\n\n')
        if hold:
            self.server.gate.wait(10)
        self.wfile.write(b'data: {"n":2,"word":" two"}\n\ndata: [DONE]\n\n')
        self.server.ended = True

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.counted = 0
        self.gate = threading.Event()
        self.ended = False

    def handle_error(self, *args: object) -> None:
        """A client that leaves is part of the tests."""


@pytest.fixture
def base() -> Iterator[str]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.gate.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def suite_of(tmp_path: Path) -> Callable[[str], Suite]:
    def write(text: str) -> Suite:
        path = tmp_path / "cases.yaml"
        path.write_text(text)
        return load(path)

    return write


@pytest.fixture
def results_of(base: str, suite_of: Callable[[str], Suite]) -> Iterator[Callable[..., dict[str, Result]]]:
    """Runs the cases of a text and returns the results by name."""
    runners = []

    def run(text: str, only: str | None = None, **options: object) -> dict[str, Result]:
        suite = suite_of(text)
        runner = Runner(suite, {None: base}, **options)
        runners.append(runner)
        for case in suite.cases:
            if only is None or case.name == only:
                runner.run(case)
        return runner.results

    yield run
    for runner in runners:
        runner.close()
