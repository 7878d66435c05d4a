"""What HTTP says around the events: routes, methods, types of content, limits."""

from __future__ import annotations

import json
import random
import select
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import System, World, wanted
from test_cases import event

LIMIT = 1 << 20
EVENTS, BULK, HEALTH = "/api/v1/events", "/api/v1/events/bulk", "/api/v1/events/health"
TOO_LARGE = {"error": f"Request body must not be larger than {LIMIT} bytes", "status": 413}


def sized(bytes_wanted: int) -> bytes:
    """An event whose JSON has exactly so many bytes."""
    body = json.dumps(event(None, {"a": ""})).encode()
    return body.replace(b'"a": ""', b'"a": "' + b"x" * (bytes_wanted - len(body)) + b'"')


def test_health(rest: System) -> None:
    response = rest.client.http.get(HEALTH)
    assert (response.status_code, response.json()) == (200, {"status": "healthy", "message": "Producer API is healthy"})
    assert rest.client.http.head(HEALTH).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/v1/event", EVENTS + "/", EVENTS + "/1", BULK + "/", "/API/V1/EVENTS"])
def test_unknown_paths(rest: System, path: str) -> None:
    for method in ("GET", "POST"):
        response = rest.client.http.request(method, path)
        assert (response.status_code, response.json()) == (404, {"error": "Not found", "status": 404})


@pytest.mark.parametrize(("path", "allowed"), [(EVENTS, "POST"), (BULK, "POST"), (HEALTH, "GET")])
def test_other_methods(rest: System, path: str, allowed: str) -> None:
    for method in {"GET", "PUT", "DELETE", "PATCH", "POST"} - {allowed}:
        response = rest.client.http.request(method, path)
        assert (response.status_code, response.json()) == (405, {"error": "Method not allowed", "status": 405}), method
        assert allowed in response.headers["allow"]


@pytest.mark.parametrize("path", [EVENTS, BULK])
def test_content_types(rest: System, path: str) -> None:
    body = json.dumps(event() if path == EVENTS else [event()])
    for kind in (
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/vnd.event+json",
        "",
    ):
        assert rest.client.post(path, body, kind).status_code == 200, kind
    assert rest.client.http.send(rest.client.http.build_request("POST", path, content=body)).status_code == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", "text/json", "nonsense"):
        response = rest.client.post(path, body, kind)
        assert (response.status_code, response.json()) == (
            415,
            {"error": "Content-Type must be application/json", "status": 415},
        ), kind


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
def test_body_limit(rest: System, chunked: bool) -> None:
    def body(size: int) -> Any:
        data = sized(size)
        pieces: Iterator[bytes] = (data[at : at + 65536] for at in range(0, size, 65536))
        return pieces if chunked else data

    assert rest.client.post(EVENTS, body(LIMIT)).status_code == 200
    assert len(rest.rows()["Car/1"]["a"]) > LIMIT - 1000
    # A service may close the connection once it has said no, so the next request takes a new one.
    with httpx.Client(base_url=f"http://{rest.service.address}", trust_env=False) as client:
        for path in (EVENTS, BULK):
            response = client.post(path, content=body(LIMIT + 1), headers={"Content-Type": "application/json"})
            assert (response.status_code, response.json()) == (413, TOO_LARGE)
    assert rest.client.post(EVENTS, json.dumps(event())).status_code == 200


def mutate(dice: random.Random, body: str) -> str:
    """A body that may or may not be one."""
    pieces = [
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        '""',
        '"x"',
        "\\",
        "\\u0000",
        "\\ud800",
        " ",
        "é",
        "e",
        "\t",
        "eventName",
    ]
    for _ in range(dice.randint(1, 3)):
        start = dice.randrange(len(body))
        end = min(len(body), start + dice.choice([0, 0, 1, 1, 2, 8]))
        body = body[:start] + dice.choice([*pieces, ""]) + body[end:]
    return body


def test_the_three_agree_on_mutated_bodies(world: World, request: pytest.FixtureRequest) -> None:
    systems = [world.system(kind) for kind in wanted(request.config, "rest")]
    dice = random.Random(20240115)
    sample = json.dumps(
        event(
            {"createdDate": "2024-01-15T10:30:00Z", "savedDate": 1705312200000, "uuid": "u"},
            {"a": [1, {"b": "\u00e9\\"}], "c": None},
        )
    )
    for round_ in range(400):
        body = mutate(dice, sample)
        answers = {}
        for system in systems:
            system.empty()
            response = system.client.post(EVENTS, body.encode("utf-8"))
            answers[system.kind.name] = (response.status_code, response.json(), system.rows())
        first = next(iter(answers.values()))
        assert all(answer == first for answer in answers.values()), (round_, body, answers)
        assert first[0] in (200, 400, 422), (body, answers)


def test_a_client_that_stops_halfway_is_forgotten(rest: System) -> None:
    with socket.create_connection(("127.0.0.1", rest.service.port)) as s:
        s.sendall(
            b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        )
    assert rest.client.post(EVENTS, json.dumps(event())).status_code == 200


BODY = json.dumps(event()).encode()


def head(method: str, path: str, content_type: str, length: int) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n".encode()


STORE = head("POST", EVENTS, "application/json", len(BODY)) + BODY


def read_statuses(s: socket.socket, count: int) -> list[int]:
    """The status of each of so many responses, their bodies read."""
    statuses = []
    with s.makefile("rb") as stream:
        for _ in range(count):
            statuses.append(int(stream.readline().split()[1]))
            length = 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            assert len(stream.read(length)) == length > 0
    return statuses


def test_a_refusal_waits_for_the_body_and_keeps_the_connection(rest: System) -> None:
    with socket.create_connection(("127.0.0.1", rest.service.port), timeout=10) as s:
        s.sendall(head("POST", EVENTS, "text/plain", len(BODY)))
        early, _, _ = select.select([s], [], [], 0.3)
        assert not early
        s.sendall(BODY)
        assert read_statuses(s, 1) == [415]
        s.sendall(STORE)
        assert read_statuses(s, 1) == [200]


@pytest.mark.parametrize("body", [b"", BODY], ids=["empty", "body"])
@pytest.mark.parametrize(
    ("method", "path", "content_type", "status"),
    [
        ("POST", EVENTS, "text/plain", 415),
        ("POST", EVENTS, "application/json", None),
        ("PUT", EVENTS, "application/json", 405),
        ("POST", "/unknown", "application/json", 404),
        ("GET", HEALTH, "application/json", 200),
    ],
)
def test_a_request_that_came_early_does_not_silence_its_connection(
    rest: System, method: str, path: str, content_type: str, status: int | None, body: bytes
) -> None:
    """Regression: java-rest stopped reading a connection once a request, which came while the one before was still being
    finished, got its response without its body being read."""
    early = head(method, path, content_type, len(body)) + body
    wanted_status = status or (200 if body else 400)
    with socket.create_connection(("127.0.0.1", rest.service.port), timeout=10) as s:
        for _ in range(20):
            s.sendall(STORE + early)
            assert read_statuses(s, 2) == [200, wanted_status]
            s.sendall(early)
            assert read_statuses(s, 1) == [wanted_status]


def test_a_body_without_end_is_given_up(rest: System) -> None:
    """What is too large is read for a while, so that the response is seen, and not without limit."""
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", rest.service.port), timeout=10) as s:
        s.sendall(
            f"POST {EVENTS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        # A close, and not a stall, which would be a TimeoutError.
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            s.sendall(piece * (64 * LIMIT // 0x10000))
    assert rest.client.post(EVENTS, json.dumps(event())).status_code == 200
