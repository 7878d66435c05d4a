"""Every error response, in its two forms: OpenAI's below /v1/, a short one elsewhere."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from .settings import BadSetting


class ApiError(Exception):
    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.openai = {"error": {"message": message, "type": type, "param": param, "code": code}}
        self.short: dict[str, Any] = {"error": message}


def overloaded() -> ApiError:
    return ApiError(503, "overloaded", type="server_error", code="overloaded", headers={"Retry-After": "1"})


def answer(request: Request, error: ApiError) -> JSONResponse:
    body = error.openai if request.url.path.startswith("/v1/") else error.short
    return JSONResponse(body, error.status, error.headers)


def install(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> JSONResponse:
        return answer(request, error)

    @app.exception_handler(BadSetting)
    async def bad_header(request: Request, error: BadSetting) -> JSONResponse:
        return answer(request, ApiError(400, str(error), param=error.name))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:
            # FastAPI's word for a body on which json.loads gave up otherwise than with "no JSON": not UTF-8, too deep.
            return refused_body(request, [{"type": "json_invalid", "loc": ("body",), "msg": str(error.detail)}])
        refusal = ApiError(error.status_code, str(error.detail), headers=error.headers)
        if error.status_code in (404, 405):
            refusal.short = {"detail": error.detail}
        return answer(request, refusal)

    @app.exception_handler(RequestValidationError)
    async def bad_body(request: Request, error: RequestValidationError) -> JSONResponse:
        # Without `input` and `ctx`: they can be as large as the body, and may hold what JSON cannot (NaN, a lone surrogate).
        return refused_body(request, [{key: e[key] for key in ("type", "loc", "msg")} for e in error.errors()])


def refused_body(request: Request, detail: list[dict[str, Any]]) -> JSONResponse:
    first = detail[0]
    member = first["loc"][1] if len(first["loc"]) > 1 else None
    param = member if isinstance(member, str) else None
    refusal = ApiError(400, f"{param or 'body'}: {first['msg']}", param=param)
    if not request.url.path.startswith("/v1/"):
        refusal.status, refusal.short = 422, {"detail": detail}
    return answer(request, refusal)
