"""The application and its routes."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from pydantic import BaseModel

from . import errors
from .body_limit import BodyLimit
from .chat import CREATED, ChatRequest, Completion, NonEmpty, dump
from .errors import ApiError
from .load import Load
from .paced import Paced
from .settings import Settings
from .tokens import Draws

MODEL = "dummy-v0"
JSON = "application/json"
router = APIRouter()


async def get_load(request: Request) -> Load:
    return request.app.state.load


CurrentLoad = Annotated[Load, Depends(get_load)]


def settings_for(request: Request) -> Settings:
    """Read by the handlers, after the body: a bad body is reported before a bad header."""
    return request.app.state.settings.for_request(request.headers)


class InferRequest(BaseModel):
    prompt: NonEmpty


class InferResponse(BaseModel):
    result: str
    latency_ms: int
    model: str


@router.post("/infer", response_model=InferResponse)
async def infer(body: InferRequest, request: Request, load: CurrentLoad) -> Response:
    settings = settings_for(request)
    latency_ms = settings.latency_ms
    if latency_ms is None:
        latency_ms = Draws.of(settings.seed, body.prompt.encode()).latency_ms
    answer = dump({"result": f"echo: {body.prompt}", "latency_ms": latency_ms, "model": MODEL})
    load.admit(settings)
    return plain(load, latency_ms / 1000, answer)


@router.post("/v1/chat/completions")
async def chat_completions(body: ChatRequest, request: Request, load: CurrentLoad) -> Response:
    if body.stream_options and not body.stream:
        raise ApiError(400, "stream_options is only allowed with stream", param="stream_options")
    settings = settings_for(request)
    completion = Completion(body, settings)
    load.admit(settings)
    if not body.stream:
        return plain(load, *completion.plain())
    headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    return Paced(load, completion.events(), headers)


def plain(load: Load, due: float, body: bytes) -> Paced:
    return Paced(load, [(due, body)], {"content-type": JSON, "content-length": str(len(body))})


@router.get("/v1/models")
async def models() -> dict[str, Any]:
    model = {"id": MODEL, "object": "model", "created": CREATED, "owned_by": "weir"}
    return {"object": "list", "data": [model]}


@router.get("/healthz")
async def healthz() -> dict[str, Any]:
    return {"ok": True, "service": "inference-python"}


@router.get("/sim")
async def sim(load: CurrentLoad) -> dict[str, int]:
    return asdict(load)


def create_app(settings: Settings | None = None) -> FastAPI:
    app = FastAPI(title="inference-python", summary="A model server without a model")
    app.state.settings = settings or Settings()
    app.state.load = Load()
    app.add_middleware(BodyLimit)
    app.include_router(router)
    errors.install(app)
    return app
