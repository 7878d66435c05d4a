"""HTTP/2 as a client of raw frames speaks it: whatever it is given goes out, for no library sends what is not valid."""

import dataclasses
import socket
import ssl
import struct
import time

from hpack import Decoder

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Representations of a literal: without indexing, never indexed, and with, which changes the peer's table.
PLAIN, NEVER, INDEXED = 0x00, 0x10, 0x40


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(value, prefix, first=0):
    """An integer of HPACK whose first byte has `prefix` bits for it (RFC 7541 section 5.1)."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes([*out, value])


def literal(name, value, kind=PLAIN):
    return bytes([kind]) + integer(len(name), 7) + name + integer(len(value), 7) + value


def block(fields, kind=PLAIN):
    return b"".join(literal(name, value, kind) for name, value in fields)


def padded(payload, padding):
    return bytes([padding]) + payload + bytes(padding)


@dataclasses.dataclass
class Response:
    """What came on a stream."""

    status: int = 0
    interim: list = dataclasses.field(default_factory=list)
    fields: list = dataclasses.field(default_factory=list)
    trailers: list = dataclasses.field(default_factory=list)
    body: bytes = b""
    has_ended: bool = False
    reset: int | None = None
    broken: str | None = None

    @property
    def is_over(self):
        return self.has_ended or self.reset is not None


def connect(address, deadline, alpn):
    """A connection to (host, port), or over TLS to (host, port, file of authorities, name)."""
    connection = socket.create_connection(address[:2], timeout=deadline)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if len(address) == 2:
        return connection
    context = ssl.create_default_context(cafile=address[2])
    context.set_alpn_protocols([alpn])
    return context.wrap_socket(connection, server_hostname=address[3])


class Connection:
    def __init__(self, address, deadline):
        self.socket = connect(address, deadline, "h2")
        self.deadline = deadline
        self.decoder = Decoder(max_header_list_size=1 << 20)
        self.input = b""
        self.streams = {}
        self.goaway = None
        self.is_closed = False
        # Of the field block that is being read, and whether its HEADERS ended the stream.
        self.block, self.ends = b"", False
        self.send(PREFACE + frame(SETTINGS, 0, 0))

    def close(self):
        self.socket.close()

    def send(self, data):
        """A gateway that has closed is no error here: what it sent before is read."""
        try:
            self.socket.sendall(data)
        except OSError:
            self.is_closed = True

    def wait(self, streams):
        """Reads until these are over, or the connection is; False when neither happens before the deadline."""
        end = time.monotonic() + self.deadline
        while not self.is_closed and not all(self.stream(number).is_over for number in streams):
            if time.monotonic() > end:
                return False
            self.read(end)
        return True

    def stream(self, number):
        return self.streams.setdefault(number, Response())

    def read(self, end):
        self.socket.settimeout(max(0.01, end - time.monotonic()))
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            return
        except OSError:
            data = b""
        self.is_closed |= not data
        self.input += data
        while len(self.input) >= 9 and len(self.input) >= 9 + (size := int.from_bytes(self.input[:3])):
            kind, flags = self.input[3:5]
            number, payload = int.from_bytes(self.input[5:9]), self.input[9 : 9 + size]
            self.input = self.input[9 + size :]
            self.frame(kind, flags, number, payload)

    def frame(self, kind, flags, number, payload):
        if kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8])
        elif kind == RST_STREAM:
            self.stream(number).reset = int.from_bytes(payload)
        elif kind == DATA:
            self.data(self.stream(number), flags, payload)
            if payload:
                credit = struct.pack(">I", len(payload))
                self.send(frame(WINDOW_UPDATE, 0, 0, credit) + frame(WINDOW_UPDATE, 0, number, credit))
        elif kind in (HEADERS, CONTINUATION):
            self.block += payload
            if kind == HEADERS:
                self.ends = bool(flags & END_STREAM)
            if flags & END_HEADERS:
                lines, self.block = self.decoder.decode(self.block, raw=True), b""
                self.head(self.stream(number), [(bytes(name), bytes(value)) for name, value in lines])

    def data(self, response, flags, payload):
        if response.status < 200 or response.has_ended:
            response.broken = "DATA before a final head, or behind the end"
        response.body += payload
        response.has_ended |= bool(flags & END_STREAM)

    def head(self, response, fields):
        statuses = [value for name, value in fields if name == b":status"]
        others = [field for field in fields if not field[0].startswith(b":")]
        if response.has_ended:
            response.broken = "HEADERS behind the end"
        elif statuses and int(statuses[0]) < 200:
            response.interim.append((int(statuses[0]), others))
            if self.ends or response.status:
                response.broken = "an interim response that ends the stream, or behind the final head"
        elif statuses and response.status == 0:
            response.status, response.fields = int(statuses[0]), others
        elif not statuses and response.status and self.ends:
            response.trailers = others
        else:
            response.broken = "a second head, or trailers without END_STREAM"
        if any(name != name.lower() for name, _ in others):
            response.broken = "a name with capitals"
        response.has_ended |= self.ends
