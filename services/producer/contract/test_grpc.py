"""What gRPC says around the events: standard health, reflection, deadlines, limits."""

from __future__ import annotations

import time

import clients
import grpc
import httpx
import psycopg
import pytest
from clients import STORED, Outcome, pb
from conftest import System
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from test_cases import event

SERVICE = "com.example.grpc.EventService"
LIMIT = 1 << 20


def test_health_check(grpc_system: System) -> None:
    assert grpc_system.client.health() == (True, "Producer API is healthy")


def test_standard_health(grpc_system: System) -> None:
    assert grpc_system.client.serving("")
    assert grpc_system.client.serving(SERVICE)
    with pytest.raises(grpc.RpcError) as error:
        grpc_system.client.serving("com.example.grpc.Nothing")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    first = next(grpc_system.client.standard.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=10))
    assert first.status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_describes_the_contract(grpc_system: System) -> None:
    database = ProtoReflectionDescriptorDatabase(grpc_system.client.channel)
    assert {SERVICE, "grpc.health.v1.Health"} <= set(database.get_services())
    service = DescriptorPool(database).FindServiceByName(SERVICE)
    ours = pb.DESCRIPTOR.services_by_name["EventService"]
    for method, own in zip(service.methods, ours.methods, strict=True):
        assert (method.name, method.input_type.full_name) == (own.name, own.input_type.full_name)
        fields, own_fields = ([(f.number, f.name, f.type) for f in m.input_type.fields] for m in (method, own))
        assert fields == own_fields


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_both_versions_of_reflection(grpc_system: System, version: str) -> None:
    # list_services = 7, an empty string: the request has one form in both versions.
    call = grpc_system.client.channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
    assert SERVICE.encode() in next(call(iter([b"\x3a\x00"]), timeout=10))


def test_unknown_fields_are_ignored(grpc_system: System) -> None:
    # Field 15, a string, at the end of a message.
    raw = clients.message(event(None, {"a": True})).SerializeToString() + b"\x7a\x03abc"
    call = grpc_system.client.channel.unary_unary(
        f"/{SERVICE}/ProcessEvent", response_deserializer=pb.EventResponse.FromString
    )
    assert call(raw, timeout=10).success
    assert grpc_system.rows() == {"Car/1": {"a": True}}


@pytest.mark.parametrize(
    "raw", [b"\x0a\xff", b"\x0a\x03\x12\x01\xff", b"\xff\xff"], ids=["cut", "not UTF-8", "no field"]
)
def test_what_is_no_message_is_an_error(grpc_system: System, raw: bytes) -> None:
    call = grpc_system.client.channel.unary_unary(f"/{SERVICE}/ProcessEvent")
    with pytest.raises(grpc.RpcError) as error:
        call(raw, timeout=10)
    # The libraries respond before the service is called; they do not agree on the code, but none says OK or hangs.
    assert error.value.code() in (
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
    )
    assert grpc_system.client.send(event()) == Outcome("ok", STORED)


def test_unknown_method(grpc_system: System) -> None:
    with pytest.raises(grpc.RpcError) as error:
        grpc_system.client.channel.unary_unary(f"/{SERVICE}/DeleteEverything")(b"", timeout=10)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_message_limit(grpc_system: System) -> None:
    def sized(size: int) -> pb.EventRequest:
        request = clients.message(event(None, {"a": "x"}))
        attributes = request.event_body.entities[0].updated_attributes
        attributes["a"] = "x" * (size - 100)
        attributes["a"] += "x" * (size - request.ByteSize())
        assert request.ByteSize() == size
        return request

    assert grpc_system.client.send_message(sized(LIMIT)) == Outcome("ok", STORED)
    assert grpc_system.client.send_message(sized(LIMIT + 1)).result == "too large"
    assert grpc_system.client.send(event()) == Outcome("ok", STORED)


def out_of_time(system: System) -> tuple[str, ...]:
    """What a client may see when the time is over."""
    # grpc-go resets the stream then. Where that comes before the client's own timer has fired, the client takes it for a call that was cancelled.
    return ("DEADLINE_EXCEEDED", "CANCELLED") if system.kind.name == "go-grpc" else ("DEADLINE_EXCEEDED",)


def test_a_deadline_ends_the_call_and_frees_what_it_held(grpc_system: System) -> None:
    assert grpc_system.client.send(event(None, {"a": "before"})).result == "ok"
    with psycopg.connect(grpc_system.url) as blocker:
        blocker.execute("SELECT FROM car_entities FOR UPDATE")
        for _ in range(4):
            outcome = grpc_system.client.send(event(None, {"a": "late"}), timeout=0.3)
            assert outcome.result in out_of_time(grpc_system)
        # Connections that wait for the lock are not all there are: other work goes on.
        other = event(None, {"a": "other"})
        other["eventBody"]["entities"][0]["entityId"] = "2"
        assert grpc_system.client.send(other).result == "ok"
        # The statements end with their calls, while the lock is still held: nothing is stored that was reported as failed.
        deadline = time.monotonic() + 20
        while grpc_system.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )[0][0]:
            assert time.monotonic() < deadline, "statements run on without their calls"
            time.sleep(0.05)
    assert grpc_system.rows()["Car/1"]["a"] == "before"
    assert grpc_system.client.send(event(None, {"a": "after"})).result == "ok"
    assert grpc_system.rows()["Car/1"]["a"] == "after"


def test_a_call_that_ran_out_of_time_is_counted(grpc_system: System) -> None:
    def counted() -> float:
        text = httpx.get(grpc_system.service.metrics_url, trust_env=False).text
        # The client's word that it has gone may reach the service before its own timer fires.
        codes = ('code="DEADLINE_EXCEEDED"', 'code="CANCELLED"')
        lines = [
            line
            for line in text.splitlines()
            if line.startswith("producer_requests_total{") and any(code in line for code in codes)
        ]
        return sum(float(line.split()[-1]) for line in lines)

    assert grpc_system.client.send(event()).result == "ok"
    before = counted()
    with psycopg.connect(grpc_system.url) as blocker:
        blocker.execute("SELECT FROM car_entities FOR UPDATE")
        assert grpc_system.client.send(event(), timeout=0.2).result in out_of_time(grpc_system)
        deadline = time.monotonic() + 10
        while counted() <= before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
