"""Memory of a gateway with many idle connections, or many open streams, by a client that holds them."""

import socket
import ssl
import struct
import time
from collections.abc import Callable

from rig import Missing, rss_kib, say
from systems import Ports, Systems

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1
STREAMS = 100
# KiB that one may take at most.
BARS = {"tls": 24, "http2": 32, "streams": 8}


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def get(stream: int, path: bytes) -> bytes:
    """HEADERS of a GET: `:method` and `:scheme` from the static table, path and authority as literals (RFC 7541 section 6.2.2)."""
    literals = b"".join(
        b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value
        for name, value in ((b":path", path), (b":authority", b"localhost"))
    )
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, b"\x82\x87" + literals)


class Client:
    """A connection that is held."""

    def __init__(self, port: int, number: int, context: ssl.SSLContext | None) -> None:
        # Loopback has many addresses: no shortage of ports.
        source = (f"127.0.{number // 5000 + 1}.1", 0)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=source)
        if context:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.rest = b""

    def read(self, size: int) -> bytes:
        while len(self.rest) < size:
            piece = self.socket.recv(65536)
            if not piece:
                raise RuntimeError("the gateway closed the connection")
            self.rest += piece
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def frame(self) -> tuple[int, int, int, bytes]:
        head = self.read(9)
        payload = self.read(int.from_bytes(head[:3]))
        return head[3], head[4], int.from_bytes(head[5:]), payload

    def http1(self) -> None:
        """One request with its response; the connection stays."""
        self.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.read(1)
        fields = head.lower().decode().split("\r\n")
        if " 200 " not in fields[0]:
            raise RuntimeError(f"the gateway responded {fields[0]}")
        self.read(next(int(line.split(":")[1]) for line in fields if line.startswith("content-length:")))

    def http2(self, path: bytes, streams: int, is_whole: bool) -> None:
        """Requests on streams of their own: until each response is whole, or has begun."""
        self.socket.sendall(
            PREFACE + frame(SETTINGS, 0, 0) + b"".join(get(1 + 2 * one, path) for one in range(streams))
        )
        missing = streams
        while missing:
            kind, flags, _, payload = self.frame()
            if kind == SETTINGS and not flags & ACK:
                self.socket.sendall(frame(SETTINGS, ACK, 0))
            elif kind == GOAWAY:
                raise RuntimeError(f"the gateway ended the connection: {payload!r}")
            elif kind == DATA and (flags & END_STREAM or not is_whole):
                missing -= 1
            elif kind == RST_STREAM:
                raise RuntimeError(f"the gateway reset a stream: {payload!r}")


def secured(protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


def held(systems: Systems, gateway: str, count: int, each: int, open_: Callable[[Ports, int], Client]) -> float:
    """KiB of the gateway for each of `count` connections with `each` things on them."""
    system, ports = systems.start(gateway)
    clients = []
    try:
        # Warm up first: caches, pools, pages of the program.
        for number in range(8):
            clients.append(open_(ports, number))
        time.sleep(1)
        before = rss_kib(system.pids)
        for number in range(count):
            clients.append(open_(ports, number))
        time.sleep(2)
        return (rss_kib(system.pids) - before) / (count * each)
    finally:
        for client in clients:
            client.socket.close()
        system.stop()


def memory_rows(systems: Systems, gateways: list[str], connections: int) -> list[dict]:
    """Idle connections over TLS with HTTP/1.1 and with HTTP/2, each after one request, and open streams on connections of 100."""
    http1, http2 = secured("http/1.1"), secured("h2")

    def idle(ports: Ports, number: int) -> Client:
        client = Client(ports.tls, number, http1)
        client.http1()
        return client

    def idle_http2(ports: Ports, number: int) -> Client:
        client = Client(ports.tls, number, http2)
        client.http2(b"/", 1, is_whole=True)
        return client

    def streams(ports: Ports, number: int) -> Client:
        client = Client(ports.tls, number, http2)
        client.http2(b"/open", STREAMS, is_whole=False)
        return client

    rows = []
    for key, title, count, each, open_ in (
        ("tls", "idle TLS connection, HTTP/1.1", connections, 1, idle),
        ("http2", "idle TLS connection, HTTP/2", connections, 1, idle_http2),
        ("streams", "open stream, HTTP/2 over TLS, HTTP/1.1 upstream", connections // STREAMS, STREAMS, streams),
    ):
        for gateway in gateways:
            try:
                kib = held(systems, gateway, count, each, open_)
            except (Missing, OSError, RuntimeError) as error:
                say(f"memory: {title}: {gateway}: {error}")
                continue
            say(f"memory: {title}: {gateway} {kib:.2f} KiB")
            row = {"title": title, "gateway": gateway, "count": count * each, "kib": kib}
            rows.append(row | ({"bar": BARS[key]} if gateway == "weir" else {}))
    return rows
