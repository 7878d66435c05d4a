"""No request makes the process hold more than the limit."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LIMIT_BYTES = 10 * 1024 * 1024


class BodyLimit:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > LIMIT_BYTES:
                raise HTTPException(413, f"body larger than {LIMIT_BYTES} bytes")
            return message

        await self.app(scope, limited, send)
