"""Takes WebSocket handshakes of HTTP/1.1 and opens each as an extended CONNECT of HTTP/2 (RFC 8441): the suite's own client speaks HTTP/1.1 only.

The bytes of the tunnel pass as they are, and so do both ends of it: the end of one side is the end of the other, a reset closes.
"""

import asyncio
import base64
import hashlib
import sys

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.settings import SettingCodes

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FORWARDED = (b"sec-websocket-version", b"sec-websocket-protocol", b"sec-websocket-extensions", b"user-agent", b"origin")


class Tunnel:
    def __init__(self, port, reader, writer):
        self.port, self.client, self.to_client = port, reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.offered = asyncio.Event()
        self.response = asyncio.get_running_loop().create_future()
        self.window = asyncio.Event()

    async def run(self):
        head = await self.client.readuntil(b"\r\n\r\n")
        request, *lines = head[:-4].split(b"\r\n")
        path = request.split(b" ")[1]
        fields = {name.strip().lower(): value.strip() for name, value in (line.split(b":", 1) for line in lines)}
        self.gateway, self.to_gateway = await asyncio.open_connection("127.0.0.1", self.port)
        self.h2.initiate_connection()
        await self.flush()
        receiving = asyncio.create_task(self.receive())
        await asyncio.wait_for(self.offered.wait(), 10)
        self.stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(
            self.stream,
            [
                (b":method", b"CONNECT"),
                (b":protocol", b"websocket"),
                (b":scheme", b"http"),
                (b":path", path),
                (b":authority", fields[b"host"]),
                *((name, fields[name]) for name in FORWARDED if name in fields),
            ],
        )
        await self.flush()
        response = dict(await asyncio.wait_for(self.response, 10))
        if response[b":status"] != b"200":
            self.to_client.write(b"HTTP/1.1 %s Refused\r\nConnection: close\r\n\r\n" % response[b":status"])
        else:
            accept = base64.b64encode(hashlib.sha1(fields[b"sec-websocket-key"] + GUID).digest())
            response_head = [
                b"HTTP/1.1 101 Switching Protocols",
                b"Upgrade: websocket",
                b"Connection: Upgrade",
                b"Sec-WebSocket-Accept: " + accept,
            ]
            response_head += [
                name + b": " + value for name, value in response.items() if name.startswith(b"sec-websocket-")
            ]
            self.to_client.write(b"\r\n".join(response_head) + b"\r\n\r\n")
            sending = asyncio.create_task(self.send())
            await receiving
            sending.cancel()
        self.to_client.close()
        self.to_gateway.close()

    async def flush(self):
        self.to_gateway.write(self.h2.data_to_send())
        await self.to_gateway.drain()

    async def send(self):
        """From the client: as much as the windows allow; its end is END_STREAM."""
        try:
            while piece := await self.client.read(16384):
                while piece:
                    room = min(
                        self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size, len(piece)
                    )
                    if room == 0:
                        self.window.clear()
                        await self.window.wait()
                        continue
                    self.h2.send_data(self.stream, piece[:room])
                    piece = piece[room:]
                    await self.flush()
            self.h2.end_stream(self.stream)
            await self.flush()
        except Exception as error:
            print(f"the client's side: {error!r}", file=sys.stderr)

    async def receive(self):
        """From the gateway, until its stream has ended."""
        while data := await self.gateway.read(65536):
            for event in self.h2.receive_data(data):
                match event:
                    case RemoteSettingsChanged():
                        if SettingCodes.ENABLE_CONNECT_PROTOCOL in event.changed_settings:
                            self.offered.set()
                    case ResponseReceived():
                        self.response.set_result(event.headers)
                    case WindowUpdated():
                        self.window.set()
                    case DataReceived():
                        self.to_client.write(event.data)
                        await self.to_client.drain()
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    case StreamEnded() | StreamReset() | ConnectionTerminated():
                        await self.flush()
                        return
            await self.flush()


async def main():
    async def accept(reader, writer):
        try:
            await Tunnel(int(sys.argv[1]), reader, writer).run()
        except Exception as error:
            print(f"a tunnel: {error!r}", file=sys.stderr)
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listening on http://{host}:{port}", flush=True)
    await server.serve_forever()


asyncio.run(main())
