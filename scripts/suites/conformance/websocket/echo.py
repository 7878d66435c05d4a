"""The WebSocket server that the gateway stands in front of: it sends every message back, and agrees to permessage-deflate."""

import asyncio

from websockets.asyncio.server import serve


async def echo(connection):
    async for message in connection:
        await connection.send(message)


async def main():
    async with serve(echo, "127.0.0.1", 0, max_size=None, ping_interval=None) as server:
        host, port = server.sockets[0].getsockname()
        print(f"listening on http://{host}:{port}", flush=True)
        await server.serve_forever()


asyncio.run(main())
