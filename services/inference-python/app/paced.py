"""A response whose pieces are sent when they are due, for as long as the client is there."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .load import Load


class Paced(Response):
    """Sends each piece when it is due, in seconds from now; status and header go with the first one.

    It gives back the place in flight that `Load.admit` took, and counts a client that left before the end.
    """

    def __init__(self, load: Load, pieces: Iterable[tuple[float, bytes]], headers: dict[str, str]) -> None:
        super().__init__(headers=headers)
        # The length that the base class computed is that of no body; a stream is chunked.
        self.raw_headers = [h for h in self.raw_headers if h[0] != b"content-length" or "content-length" in headers]
        self.load = load
        self.start = asyncio.get_running_loop().time()
        self.pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The request's body has been read, so the next message is that the client has gone.
        gone = asyncio.ensure_future(receive())
        try:
            started = False
            for due, piece in self.pieces:
                await wait(self.start + due, gone)
                if gone.done():
                    self.load.cancelled += 1
                    return
                if not started:
                    await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                    started = True
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.load.in_flight -= 1
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone


async def wait(due: float, gone: asyncio.Future) -> None:
    """Until `due`, of the loop's clock, or until `gone`; a piece that is late lets others run first, so that no stream keeps the loop to itself."""
    seconds = due - asyncio.get_running_loop().time()
    if seconds > 0:
        await asyncio.wait([gone], timeout=seconds)
    else:
        await asyncio.sleep(0)
