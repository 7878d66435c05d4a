"""Input, response and rows: the same case files for both protocols where both can say it."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import values
from clients import STORED, Outcome
from conftest import System

CASES = pathlib.Path(__file__).resolve().parent / "cases"


def load(name: str) -> Any:
    return values.loads((CASES / f"{name}.json").read_text("utf-8"))


def named(name: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in load(name)]


def event(header: Any = None, attributes: Any = None) -> Any:
    return {
        "eventHeader": {"eventName": "CarCreated", **(header or {})},
        "eventBody": {"entities": [{"entityType": "Car", "entityId": "1", "updatedAttributes": attributes or {}}]},
    }


@pytest.mark.parametrize("case", named("accepted"))
def test_accepted(system: System, case: Any) -> None:
    assert system.client.send(case["event"]) == Outcome("ok", STORED)
    assert system.rows() == values.expand_all(case["rows"])


@pytest.mark.parametrize("case", named("refused"))
def test_refused(system: System, case: Any) -> None:
    assert system.client.send(case["event"]) == Outcome("refused", case["error"])
    assert system.rows() == {}


@pytest.mark.parametrize("case", named("types"))
def test_member_of_another_type(rest: System, case: Any) -> None:
    assert rest.client.send(case["event"]) == Outcome("refused", case["error"])
    assert rest.rows() == {}


@pytest.mark.parametrize("field", ["createdDate", "savedDate"])
def test_dates(system: System, field: str) -> None:
    dates = load("dates")
    wrong = Outcome("refused", "Invalid date: created_date" if field == "createdDate" else "Invalid date: saved_date")
    for text in dates["read"]:
        assert system.client.send(event({field: text})) == Outcome("ok", STORED), text
    for text in dates["refused"]:
        assert system.client.send(event({field: text})) == wrong, text
    for number in dates["numbers read"]:
        assert system.client.send(event({field: number})) == Outcome("ok", STORED), number
    for number in dates["numbers refused"]:
        assert system.client.send(event({field: number})) == wrong, number


def test_grpc_values_are_stored_as_the_json_that_they_are(grpc_system: System) -> None:
    pairs = load("grpc_values")
    attributes = {str(index): text for index, (text, _) in enumerate(pairs)}
    assert grpc_system.client.send(event(None, attributes)) == Outcome("ok", STORED)
    stored = grpc_system.rows()["Car/1"]
    for index, (text, value) in enumerate(pairs):
        assert stored[str(index)] == value, text


@pytest.mark.parametrize("case", named("bodies"))
def test_bodies(rest: System, case: Any) -> None:
    body = values.expand(case["body"])
    response = rest.client.post("/api/v1/events", body.encode())
    assert response.status_code == int(case["status"]), response.text
    if "error" in case:
        assert response.json() == {"error": case["error"], "status": int(case["status"])}
        assert rest.rows() == {}
    else:
        assert rest.rows() == case["rows"]


def test_a_body_that_is_not_utf8(rest: System) -> None:
    for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"):
        response = rest.client.post("/api/v1/events", b'{"eventHeader":{"eventName":"' + bad + b'"}}')
        assert (response.status_code, response.json()["error"]) == (400, "Malformed JSON"), bad


@pytest.mark.parametrize("case", named("bulk"))
def test_bulk(rest: System, case: Any) -> None:
    response = rest.client.post("/api/v1/events/bulk", values.dumps(case["events"]).encode())
    assert response.status_code == 200
    body = response.json()
    errors, count = case["errors"], len(case["events"])
    assert body["errors"] == [{"index": int(index), "error": error} for index, error in errors]
    assert (body["success"], body["processedCount"], body["failedCount"]) == (
        not errors,
        count - len(errors),
        len(errors),
    )
    assert body["message"] == (
        f"{len(errors)} of {count} events failed" if errors else "All events processed successfully"
    )
    assert set(body) == {"success", "message", "processedCount", "failedCount", "batchId", "processingTimeMs", "errors"}
    assert rest.rows() == case["rows"]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("[]", 422, "Request body must contain at least one event"),
        ("{}", 422, "Request body must be an array of events"),
        ("null", 422, "Request body must be an array of events"),
        ("[{}", 400, "Malformed JSON"),
        ("", 400, "Malformed JSON"),
        ("[" + ",".join(["{}"] * 10_001) + "]", 422, "Request body must not contain more than 10000 events"),
    ],
)
def test_bulk_bodies(rest: System, body: str, status: int, error: str) -> None:
    response = rest.client.post("/api/v1/events/bulk", body)
    assert (response.status_code, response.json()) == (status, {"error": error, "status": status})


def test_a_bulk_says_how_long_it_took(rest: System) -> None:
    events = values.dumps([event() for _ in range(200)])
    few, many = (rest.client.post("/api/v1/events/bulk", body).json() for body in (values.dumps([event()]), events))
    assert few["batchId"] != many["batchId"]
    assert len(few["batchId"]) == 36
    # 200 transactions, each with its round trip, take longer than none at all.
    assert many["processingTimeMs"] > 1
    assert few["processingTimeMs"] >= 1


def test_attributes_merge_shallowly(system: System) -> None:
    for attributes in ({"a": {"x": True}, "b": "kept"}, {"a": {"y": False}, "c": None}, {}):
        assert system.client.send(event(None, attributes)).result == "ok"
    assert system.rows() == {"Car/1": {"a": {"y": False}, "b": "kept", "c": None}}
    created, updated = system.sql("SELECT created_at, updated_at FROM car_entities")[0]
    assert created < updated
