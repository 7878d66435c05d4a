"""The two protocols behind one face: send an event as the REST contract writes it, see what came of it."""

from __future__ import annotations

import importlib
import pathlib
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, ClassVar

import grpc
import httpx
import values
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parent.parent / "proto"
STORED = "Event processed successfully"


def _stubs() -> tuple[Any, Any]:
    """Generated from the contract's file each time, so that they cannot be out of date."""
    out = tempfile.mkdtemp(prefix="event-stubs-")
    if protoc.main(["protoc", f"-I{PROTO}", f"--python_out={out}", f"--grpc_python_out={out}", "event_service.proto"]):
        raise RuntimeError("event_service.proto does not compile")
    sys.path.insert(0, out)
    return importlib.import_module("event_service_pb2"), importlib.import_module("event_service_pb2_grpc")


pb, pb_grpc = _stubs()


@dataclass(frozen=True)
class Outcome:
    """What a client saw: `ok`, `refused`, `unavailable`, `too large`, `internal` or the bare code, and the words."""

    result: str
    message: str


class Rest:
    """One kept connection over HTTP/1.1."""

    RESULTS: ClassVar = {200: "ok", 422: "refused", 503: "unavailable", 413: "too large", 500: "internal"}

    def __init__(self, service: Any):
        self.http = httpx.Client(base_url=f"http://{service.address}", timeout=30, trust_env=False)

    def send(self, event: Any, timeout: float | None = None) -> Outcome:
        response = self.post(
            "/api/v1/events", values.dumps(event).encode("utf-8", "surrogatepass"), timeout=timeout or 30
        )
        return self.outcome(response)

    def post(self, path: str, body: Any, content_type: str = "application/json", timeout: float = 30) -> httpx.Response:
        return self.http.post(path, content=body, headers={"Content-Type": content_type}, timeout=timeout)

    @classmethod
    def outcome(cls, response: httpx.Response) -> Outcome:
        assert response.headers["content-type"].startswith("application/json"), response.headers
        body = response.json()
        if response.status_code == 200:
            assert body == {"success": True, "message": body["message"]}, body
            return Outcome("ok", body["message"])
        assert body == {"error": body["error"], "status": response.status_code}, body
        return Outcome(cls.RESULTS.get(response.status_code, str(response.status_code)), body["error"])

    def health(self) -> tuple[bool, str]:
        response = self.http.get("/api/v1/events/health")
        body = response.json()
        assert response.status_code == (200 if body["status"] == "healthy" else 503), response
        return body["status"] == "healthy", body["message"]

    def close(self) -> None:
        self.http.close()


class Grpc:
    """One kept connection over HTTP/2."""

    RESULTS: ClassVar = {
        grpc.StatusCode.INVALID_ARGUMENT: "refused",
        grpc.StatusCode.UNAVAILABLE: "unavailable",
        grpc.StatusCode.RESOURCE_EXHAUSTED: "too large",
        grpc.StatusCode.INTERNAL: "internal",
    }

    def __init__(self, service: Any):
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 500)]
        self.channel = grpc.insecure_channel(service.address, options)
        self.stub = pb_grpc.EventServiceStub(self.channel)
        self.standard = health_pb2_grpc.HealthStub(self.channel)

    def send(self, event: Any, timeout: float | None = None) -> Outcome:
        return self.send_message(message(event), timeout)

    def send_message(self, request: Any, timeout: float | None = None) -> Outcome:
        try:
            response = self.stub.ProcessEvent(request, timeout=timeout or 30)
        except grpc.RpcError as error:
            return Outcome(self.RESULTS.get(error.code(), error.code().name), error.details())
        # Never OK with success=false.
        assert response.success, response
        return Outcome("ok", response.message)

    def health(self) -> tuple[bool, str]:
        response = self.stub.HealthCheck(pb.HealthRequest(service="contract"), timeout=30)
        return response.healthy, response.message

    def serving(self, service: str = "") -> bool:
        answer = self.standard.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
        return answer.status == health_pb2.HealthCheckResponse.SERVING

    def close(self) -> None:
        self.channel.close()


def connect(service: Any) -> Rest | Grpc:
    return Rest(service) if service.kind.protocol == "rest" else Grpc(service)


def message(event: Any) -> Any:
    """The protobuf message that says the same as the JSON of an event; a string attribute goes as it is."""
    request = pb.EventRequest()
    event = values.expand_all(event)
    if (header := event.get("eventHeader")) is not None:
        request.event_header.SetInParent()
        names = {
            "uuid": "uuid",
            "eventName": "event_name",
            "createdDate": "created_date",
            "savedDate": "saved_date",
            "eventType": "event_type",
        }
        for name, value in header.items():
            if name in names and value is not None:
                setattr(request.event_header, names[name], str(value))
    if (body := event.get("eventBody")) is not None:
        request.event_body.SetInParent()
        for entity in body.get("entities") or []:
            update = request.event_body.entities.add()
            update.entity_type = entity.get("entityType") or ""
            update.entity_id = entity.get("entityId") or ""
            for name, value in (entity.get("updatedAttributes") or {}).items():
                is_text = isinstance(value, str) and not isinstance(value, values.Number)
                update.updated_attributes[name] = value if is_text else values.dumps(value)
    return request
