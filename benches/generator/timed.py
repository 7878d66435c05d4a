#!/usr/bin/env python3
"""A server that responds after a time that is known: from 5 to 25 ms, evenly spread, in an order that is always the same.

    timed.py PORT

Whoever measures it finds p50 at 15 ms and p99 near 25 ms, plus what the machine and the tool add.
"""

import asyncio
import random
import sys

REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + b'{"ok":true}'
LEAST_S, SPREAD_S, STEPS = 0.005, 0.020, 200

delays = [LEAST_S + SPREAD_S * step / (STEPS - 1) for step in range(STEPS)]
random.Random(1).shuffle(delays)


class Connection(asyncio.Protocol):
    served = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.seen = transport, b""

    def data_received(self, data: bytes) -> None:
        # Tools that measure wait for a response before they send the next request.
        self.seen += data
        if self.seen.endswith(b"\r\n\r\n"):
            self.seen = b""
            delay = delays[Connection.served % STEPS]
            Connection.served += 1
            asyncio.get_running_loop().call_later(delay, self.answer)

    def answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(REPLY)


def watch() -> None:
    """Keeps the loop from sleeping, which it does in whole milliseconds."""
    asyncio.get_running_loop().call_soon(watch)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    watch()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
