"""Slow, silent and lost clients: the same timeouts in all six services, and no work for a client that has disconnected.

A service with one short timeout and every other one an hour long shows which timeout ended the exchange.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import clients
import grpc
import psycopg
import pytest
import stack
import values
from clients import STORED, Outcome
from conftest import System, World
from test_cases import event
from test_database import WAITING, entities, until
from test_http import BULK, EVENTS, STORE, TOO_LARGE, head, read_statuses
from test_process import metrics

TIMED_OUT = "Request timed out"
ABORTED = "request aborted"
NAMES = ("HEAD_TIMEOUT_MS", "BODY_TIMEOUT_MS", "IDLE_TIMEOUT_MS", "REQUEST_TIMEOUT_MS", "DATABASE_STATEMENT_TIMEOUT_MS")
FOREVER = dict.fromkeys(NAMES, "3600000")
# A call that is never made and one that fails at once are both reported by what waits for this long.
DEADLINE_S = 20


@contextmanager
def started(world: World, kind: stack.Kind, **short: str) -> Iterator[System]:
    """A service of its own whose timeouts are an hour, those of `short` excepted."""
    url = world.database(kind.name.replace("-", "_"))
    system = System(world, url, stack.Service.start(kind, url, **{**FOREVER, **short}).wait_ready())
    system.empty()
    try:
        yield system
    finally:
        system.client.close()
        system.service.stop()


def dial(system: System) -> socket.socket:
    return socket.create_connection(("127.0.0.1", system.service.port), timeout=DEADLINE_S)


def received_until_close(s: socket.socket) -> bytes:
    """What comes before the service closes the connection; a TimeoutError when it does not."""
    received = b""
    try:
        while data := s.recv(65536):
            received += data
    except ConnectionError:
        pass
    return received


def dribble(s: socket.socket, stop: threading.Event) -> None:
    """A byte now and then, so that a timeout for silence alone never passes."""
    try:
        while not stop.wait(0.05):
            s.sendall(b"a")
    except OSError:
        pass


@contextmanager
def dribbling(s: socket.socket) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=dribble, args=(s, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def locked(system: System, key: str) -> Iterator[None]:
    """Row `key` exists and is locked, so that the statement of an event for it waits."""
    system.sql("INSERT INTO car_entities (id, entity_type, data) VALUES (%s, 'Car', '{}') ON CONFLICT DO NOTHING", key)
    with psycopg.connect(system.url) as blocker:
        blocker.execute("SELECT FROM car_entities WHERE id = %s FOR UPDATE", (key,))
        yield


def waits(system: System) -> int:
    return system.sql(WAITING)[0][0]


# --- REST connections


def test_a_slow_head_closes_the_connection(world: World, rest_kind: stack.Kind) -> None:
    with started(world, rest_kind, HEAD_TIMEOUT_MS="500") as system:
        for before in (b"", STORE):
            with dial(system) as s:
                if before:
                    s.sendall(before)
                    assert read_statuses(s, 1) == [200]
                s.sendall(b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nX-Slow: ")
                with dribbling(s):
                    assert received_until_close(s) == b""
        with dial(system) as silent:
            assert received_until_close(silent) == b""
        # The time between two requests is not the time of a head.
        with dial(system) as s:
            s.sendall(STORE)
            assert read_statuses(s, 1) == [200]
            assert select.select([s], [], [], 1.5)[0] == []
            s.sendall(STORE)
            assert read_statuses(s, 1) == [200]


def test_an_idle_connection_is_closed(world: World, rest_kind: stack.Kind) -> None:
    with started(world, rest_kind, IDLE_TIMEOUT_MS="500") as system, dial(system) as s:
        for _ in range(2):
            s.sendall(STORE)
            assert read_statuses(s, 1) == [200]
        assert received_until_close(s) == b""


@pytest.mark.parametrize("path", [EVENTS, BULK, "/unknown"])
@pytest.mark.parametrize("framing", ["Content-Length: 100000", "Transfer-Encoding: chunked"])
def test_a_slow_body_is_refused(hasty_bodies: System, path: str, framing: str) -> None:
    lines = len(hasty_bodies.service.log)
    with dial(hasty_bodies) as s:
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{framing}\r\n\r\n".encode())
        s.sendall(b"[" if framing.startswith("Content") else b"fffff\r\n[")
        with dribbling(s):
            received = received_until_close(s)
    # A path that is unknown needs no body: it may be refused before.
    if path != "/unknown":
        top, _, body = received.partition(b"\r\n\r\n")
        assert top.split()[1] == b"408", received
        assert b"connection: close" in top.lower()
        assert json.loads(body) == {"error": "Request body did not arrive before the timeout", "status": 408}
    assert hasty_bodies.client.post(EVENTS, json.dumps(event())).status_code == 200
    assert len(hasty_bodies.service.log) == lines


def test_a_body_that_took_its_time_does_not_end_the_next_request(hasty_bodies: System) -> None:
    """The body's timeout ends with the body: work that takes longer is not interrupted by it."""
    body = json.dumps(event(None, {"slow": True})).encode()
    with dial(hasty_bodies) as s:
        with locked(hasty_bodies, "1"):
            s.sendall(head("POST", EVENTS, "application/json", len(body)) + body)
            assert select.select([s], [], [], 1.5)[0] == []
        assert read_statuses(s, 1) == [200]


@pytest.fixture
def hasty_bodies(world: World, rest_kind: stack.Kind) -> Iterator[System]:
    with started(world, rest_kind, BODY_TIMEOUT_MS="500") as system:
        yield system


def test_a_body_that_is_too_large_is_read_before_the_refusal(rest: System) -> None:
    """A response while the body is still on its way may never be seen."""
    size = 3 << 20
    with dial(rest) as s:
        s.sendall(head("POST", EVENTS, "application/json", size))
        s.sendall(b" " * (size - 1))
        assert select.select([s], [], [], 0.3)[0] == []
        s.sendall(b" ")
        with s.makefile("rb") as stream:
            assert stream.readline().split()[1] == b"413"
            while stream.readline() not in (b"\r\n", b""):
                pass
            assert json.loads(stream.read(len(json.dumps(TOO_LARGE, separators=(",", ":"))))) == TOO_LARGE


# --- requests


def test_the_statement_timeout_ends_the_statement(world: World, any_kind: stack.Kind) -> None:
    with started(world, any_kind, DATABASE_STATEMENT_TIMEOUT_MS="500") as system, locked(system, "1"):
        assert system.client.send(event()) == Outcome("unavailable", "Database is unavailable")
        assert waits(system) == 0


def test_the_request_timeout_ends_the_statement(world: World, any_kind: stack.Kind) -> None:
    with started(world, any_kind, REQUEST_TIMEOUT_MS="1000") as system:
        with locked(system, "1"):
            expected = (
                Outcome("unavailable", TIMED_OUT)
                if any_kind.protocol == "rest"
                else Outcome("DEADLINE_EXCEEDED", "Deadline exceeded")
            )
            assert system.client.send(event(None, {"late": True})) == expected
            # While the lock is still held: nothing is stored that was reported as failed.
            until(lambda: waits(system) == 0)
        assert system.client.send(event(None, {"next": True})) == Outcome("ok", STORED)
        assert system.rows() == {"Car/1": {"next": True}}


def test_the_request_timeout_ends_a_bulk(world: World, rest_kind: stack.Kind) -> None:
    events = [entities((f"e{number}", {"n": True})) for number in range(6)]
    with started(world, rest_kind, REQUEST_TIMEOUT_MS="1000") as system:
        with locked(system, "e3"):
            response = system.client.post(BULK, values.dumps(events))
            body = response.json()
            assert response.status_code == 200, body
            assert body["errors"] == [{"index": index, "error": TIMED_OUT} for index in (3, 4, 5)]
            assert (body["success"], body["processedCount"], body["failedCount"]) == (False, 3, 3)
            until(lambda: waits(system) == 0)
            response = system.client.post(BULK, values.dumps(events[3:]))
            assert (response.status_code, response.json()) == (503, {"error": TIMED_OUT, "status": 503})
            until(lambda: waits(system) == 0)
        assert system.client.post(EVENTS, json.dumps(event())).status_code == 200
        assert system.rows() == {**{f"Car/e{n}": {"n": True} for n in range(3)}, "Car/e3": {}, "Car/1": {}}


def test_the_wait_for_a_connection_is_the_databases_fault(world: World, any_kind: stack.Kind) -> None:
    """Regression: go-grpc took the end of this wait for the call's own deadline."""
    short = {"DATABASE_POOL_SIZE": "1", "DATABASE_ACQUIRE_TIMEOUT_MS": "500"}
    with started(world, any_kind, **short) as system, ThreadPoolExecutor(1) as pool:
        with locked(system, "1"):
            first = pool.submit(system.client.send, event())
            until(lambda: waits(system) == 1)
            other = clients.connect(system.service)
            assert other.send(entities(("2", {}))) == Outcome("unavailable", "Database is unavailable")
            other.close()
        assert first.result() == Outcome("ok", STORED)


# --- clients that disconnect


def disconnect(s: socket.socket, how: str) -> None:
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def one_line(system: System, before: int) -> None:
    """One line of the log says that the client disconnected, and no other is written."""
    until(lambda: any(json.loads(line)["message"] == ABORTED for line in system.service.log[before:]))
    # A line that came of the same request would be there before the response to a later one.
    assert system.client.post(EVENTS, json.dumps(entities(("next", {})))).status_code == 200
    assert len(system.service.log) == before + 1, "\n".join(system.service.log[before:])
    assert json.loads(system.service.log[before])["level"] == "WARN"


def aborted(system: System) -> float:
    return metrics(system).get("producer_requests_total|code=499|operation=process_events", 0)


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_a_bulk_whose_upload_is_aborted_stores_nothing(rest: System, how: str, chunked: bool) -> None:
    body = values.dumps([entities((f"e{number}", {"n": True})) for number in range(2000)]).encode()
    lines, counted = len(rest.service.log), aborted(rest)
    s = dial(rest)
    if chunked:
        top = head("POST", BULK, "application/json", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        s.sendall(top + f"{len(body):x}\r\n".encode())
    else:
        s.sendall(head("POST", BULK, "application/json", len(body)))
    s.sendall(body[: len(body) // 2])
    disconnect(s, how)
    one_line(rest, lines)
    until(lambda: aborted(rest) == counted + 1)
    assert rest.rows() == {"Car/next": {}}


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_bulk_whose_client_disconnects_stops(rest: System, how: str) -> None:
    """The events before stay stored, whole; the statement that runs is cancelled, and no later event is tried."""
    body = values.dumps([entities((f"e{number}", {"n": True})) for number in range(3000)]).encode()
    lines, counted = len(rest.service.log), aborted(rest)
    with locked(rest, "e10"):
        s = dial(rest)
        s.sendall(head("POST", BULK, "application/json", len(body)) + body)
        until(lambda: waits(rest) == 1)
        disconnect(s, how)
        until(lambda: waits(rest) == 0)
        one_line(rest, lines)
        until(lambda: aborted(rest) == counted + 1)
    stored = {f"Car/e{n}": {"n": True} for n in range(10)}
    assert rest.rows() == {**stored, "Car/e10": {}, "Car/next": {}}


def test_a_single_event_whose_client_disconnects_is_not_stored(rest: System) -> None:
    lines = len(rest.service.log)
    with locked(rest, "1"):
        s = dial(rest)
        s.sendall(STORE)
        until(lambda: waits(rest) == 1)
        disconnect(s, "close")
        until(lambda: waits(rest) == 0)
        one_line(rest, lines)


def test_a_call_whose_client_cancels_ends_its_statement(grpc_system: System) -> None:
    lines = len(grpc_system.service.log)
    with locked(grpc_system, "1"):
        call = grpc_system.client.stub.ProcessEvent.future(clients.message(event(None, {"late": True})), timeout=30)
        until(lambda: waits(grpc_system) == 1)
        call.cancel()
        until(lambda: waits(grpc_system) == 0)
    assert grpc_system.client.send(event(None, {"next": True})) == Outcome("ok", STORED)
    assert grpc_system.rows() == {"Car/1": {"next": True}}
    assert len(grpc_system.service.log) == lines


# --- gRPC connections, frame by frame (RFC 9113, section 4.1)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def frames(s: socket.socket) -> Iterator[tuple[int, int, int]]:
    """Type, flags and stream of each frame that comes, until the connection is closed."""
    with s.makefile("rb") as stream:
        try:
            while len(top := stream.read(9)) == 9:
                stream.read(int.from_bytes(top[:3], "big"))
                yield top[3], top[4], int.from_bytes(top[5:], "big")
        except ConnectionError:
            pass


def header_block(fields: dict[str, str]) -> bytes:
    """Literal fields without indexing and without Huffman's code (RFC 7541, section 6.2.2)."""
    return b"".join(
        b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
        for name, value in fields.items()
    )


@pytest.mark.parametrize("sent", [b"", PREFACE[:10], PREFACE], ids=["nothing", "half", "no settings"])
def test_a_connection_without_a_preface_is_closed(world: World, grpc_kind: stack.Kind, sent: bytes) -> None:
    with started(world, grpc_kind, HEAD_TIMEOUT_MS="500") as system:
        with dial(system) as s:
            s.sendall(sent)
            received_until_close(s)
        # The timeout is that of the preface: a connection that has made it stays.
        assert system.client.send(event()) == Outcome("ok", STORED)
        with dial(system) as s:
            s.sendall(PREFACE + frame(SETTINGS, 0, 0))
            assert select.select([s], [], [], DEADLINE_S)[0] == [s]
            s.settimeout(1.5)
            with pytest.raises(TimeoutError):
                for _ in frames(s):
                    pass


def test_a_client_that_does_not_respond_to_a_ping_is_disconnected(world: World, grpc_kind: stack.Kind) -> None:
    # A second is the least that grpc-go takes.
    with started(world, grpc_kind, IDLE_TIMEOUT_MS="1000", HEAD_TIMEOUT_MS="1000") as system, dial(system) as s:
        s.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
        assert PING in [kind for kind, _, _ in frames(s)]


def test_a_message_that_does_not_arrive_ends_its_call(world: World, grpc_kind: stack.Kind) -> None:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/com.example.grpc.EventService/ProcessEvent",
        ":authority": "x",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    with started(world, grpc_kind, REQUEST_TIMEOUT_MS="1000") as system, dial(system) as s:
        s.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
        s.sendall(frame(HEADERS, END_HEADERS, 1, header_block(fields)))
        s.sendall(frame(DATA, 0, 1, b"\0" + struct.pack(">I", 1000) + b"\x0a"))
        ended = next(
            f for f in frames(s) if f[2] == 1 and (f[0] == RST_STREAM or (f[0] == HEADERS and f[1] & END_STREAM))
        )
        assert ended
        assert system.client.send(event()) == Outcome("ok", STORED)


def test_a_watch_of_the_health_has_no_timeout_and_tells_changes_only(world: World, grpc_kind: stack.Kind) -> None:
    """Regression: rust-grpc told a watcher each second what it knew."""
    with started(world, grpc_kind, REQUEST_TIMEOUT_MS="300") as system, ThreadPoolExecutor(1) as pool:
        watch = system.client.standard.Watch(clients.health_pb2.HealthCheckRequest(service=""))
        assert next(watch).status == clients.health_pb2.HealthCheckResponse.SERVING
        second: Any = pool.submit(next, watch)
        assert not wait_for(second, 1.5)
        watch.cancel()
        with pytest.raises(grpc.RpcError) as error:
            second.result(DEADLINE_S)
        assert error.value.code() is grpc.StatusCode.CANCELLED


def wait_for(future: Any, seconds: float) -> bool:
    try:
        future.exception(seconds)
    except TimeoutError:
        return False
    return True
