"""Responses of an HTTP/1.1 upstream: a generator that repeats for a seed, and a table of odd ones."""

import dataclasses

from cases import BODIES, Chance

# Behind a response: what must never reach a client.
EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
HOP_BY_HOP = set(b"connection keep-alive proxy-connection te trailer upgrade transfer-encoding".split())
# What the gateway writes itself, or only when it is absent.
OWN = set(b"date x-request-id content-length".split())


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a client gets. `length` is that of a response to HEAD or a 304, which has no body."""

    status: int
    interim: tuple
    fields: tuple
    body: bytes
    trailers: tuple = ()
    length: bytes | None = None


@dataclasses.dataclass
class UpstreamResponse:
    """`expected`: an Outcome, "error", or None where only both clients must get the same."""

    name: str
    method: bytes
    data: bytes
    expected: object
    closes: bool = False
    # Where the bytes are cut into two writes.
    cut: int = 0


def passed(fields):
    """Those that reach a client, in lower case, without those of the connection."""
    options = {
        word.strip().lower() for name, value in fields if name.lower() == b"connection" for word in value.split(b",")
    }
    gone = HOP_BY_HOP | OWN | options
    return tuple(sorted((name.lower(), value.strip(b" \t")) for name, value in fields if name.lower() not in gone))


NAMES = [
    b"x-a",
    b"x-b",
    b"server",
    b"set-cookie",
    b"etag",
    b"vary",
    b"location",
    b"content-type",
    b"x_under",
    b"www-authenticate",
    b"link",
    b"!#$%&'*+-.^_`|~",
    b"via",
    b"age",
]
VALUES = [b"1", b"", b"a b", b"a\tb", b"\xc3\xa9", b"\xff", b"chunked", b"a, b", b"0", b"HTTP/1.1 200 OK", b"v" * 3000]
PIECES = [b"\r\n", b"\n", b"\r", b"\0", b" ", b"0\r\n\r\n", b";", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 100 X\r\n\r\n", EVIL]  # fmt: skip
STATUSES = [200, 200, 200, 201, 206, 299, 301, 400, 404, 418, 500, 503, 204, 304]


class Generator(Chance):
    def line(self, name, value):
        blank = self.pick([b"", b" ", b" ", b"  ", b"\t"])
        return self.pick([name, name.title(), name.upper()]) + b":" + blank + value + self.pick([b"", b"", b" "])

    def fields(self):
        fields = [(self.pick(NAMES), self.pick(VALUES)) for _ in range(self.pick([0, 1, 2, 4]))]
        if self.some(0.2):
            fields.append((b"connection", self.pick([b"keep-alive", b"x-a", b"x-b, keep-alive"])))
        return fields

    def head(self, status, fields, version=b"HTTP/1.1"):
        reason = self.pick([b"OK", b"", b"Not  so \xc3\xa9", b"200"])
        lines = [b"%s %d %s" % (version, status, reason), *(self.line(*field) for field in fields)]
        return b"\r\n".join([*lines, b"", b""])

    def body(self):
        if self.some(0.7):
            return self.pick([*BODIES, EVIL])
        return self.random.randbytes(self.pick([10, 1000, 16_384, 70_000]))

    def chunked(self, body, trailers):
        out, at = b"", 0
        while at < len(body):
            size = self.pick([1, 7, 1000, 20_000]) if len(body) < 3000 else self.pick([1000, 20_000])
            piece = body[at : at + size]
            out += b"%x%s\r\n%s\r\n" % (len(piece), self.pick([b"", b"", b";a", b';a="b;c"']), piece)
            at += len(piece)
        return out + b"0\r\n" + b"".join(self.line(*trailer) + b"\r\n" for trailer in trailers) + b"\r\n"

    def good(self):
        status, method = self.pick(STATUSES), self.pick([b"GET", b"GET", b"GET", b"HEAD", b"POST"])
        fields, body, trailers, length, closes = self.fields(), self.body(), [], None, False
        interim, data = [], b""
        for _ in range(self.pick([0, 0, 0, 1, 3])):
            hints, code = self.fields(), self.pick([102, 103])
            interim.append((code, passed(hints)))
            data += self.head(code, hints)
        has_none = method == b"HEAD" or status in (204, 304)
        framing = self.pick(["length", "length", "chunked", "close"])
        expected = passed(fields)
        if has_none:
            if framing == "length":
                fields.append((b"content-length", b"%d" % len(body)))
                length = b"%d" % len(body) if status != 204 else None
            elif framing == "chunked":
                fields.append((b"transfer-encoding", b"chunked"))
            body = b""
            data += self.head(status, fields)
        elif framing == "length":
            data += self.head(status, [*fields, (b"content-length", b"%d" % len(body))]) + body
        elif framing == "chunked":
            trailers = [
                (self.pick([b"x-sum", b"x-tail"]), self.pick([b"1", b"a b"])) for _ in range(self.pick([0, 0, 1, 2]))
            ]
            if self.some(0.3):
                fields.append((b"trailer", self.pick([b"x-sum", b"x-sum, content-length", b"host"])))
            forbidden = (
                [(self.pick([b"content-length", b"set-cookie", b"transfer_encoding"]), b"9")] if self.some(0.2) else []
            )
            data += self.head(status, [*fields, (b"transfer-encoding", b"chunked")]) + self.chunked(
                body, trailers + forbidden
            )
        else:
            closes = True
            version = self.pick([b"HTTP/1.1", b"HTTP/1.0"])
            data += self.head(status, fields, version) + body
        outcome = Outcome(status, tuple(interim), expected, body, tuple(sorted(trailers)), length)
        return UpstreamResponse("good", method, data, outcome, closes, self.random.randrange(len(data)))

    def some_response(self):
        response = self.good()
        kind = self.random.randrange(4)
        if kind == 0 and not response.closes:
            # What is left over is of no response, and the connection of no use.
            response.data += self.pick([EVIL, b"\r\n", b"x", b"\0", b"HTTP/1.1 100 Continue\r\n\r\n"])
            response.name = "left over"
        elif kind == 1:
            response = self.tampered(response)
        elif kind == 2 and response.expected.body and not response.closes:
            response.data, response.closes = response.data[: self.random.randrange(1, len(response.data))], True
            response.name, response.expected, response.cut = "cut short", "error", 0
        return response

    def tampered(self, response):
        data = bytearray(response.data[:4000])
        self.tamper(data, 2, 300, PIECES)
        # Without the end of the connection, the gateway waits for the rest of some.
        return UpstreamResponse(
            "tampered", response.method, bytes(data), None, not self.some(0.03), self.random.randrange(len(data) + 1)
        )


def table():
    ok = b"HTTP/1.1 200 OK\r\n"
    length, chunked = ok + b"Content-Length: 3\r\n", ok + b"Transfer-Encoding: chunked\r\n"
    good = [
        ("length", b"GET", length + b"\r\nabc", b"abc"),
        ("no reason and no blank", b"GET", b"HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        ("HEAD with a body behind it", b"HEAD", length + b"\r\nabc", b""),
        ("HEAD with chunks behind it", b"HEAD", chunked + b"\r\n3\r\nabc\r\n0\r\n\r\n", b""),
        ("HEAD with another response behind it", b"HEAD", length + b"\r\n" + EVIL, b""),
        ("body behind a 204", b"GET", b"HTTP/1.1 204 No Content\r\n\r\nabc", b""),
        ("length of a 204", b"GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 44\r\n\r\n" + EVIL, b""),
        ("response behind a 304", b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 44\r\n\r\n" + EVIL, b""),
        ("chunks of a 304", b"GET", b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL, b""),
        ("response behind the last chunk", b"GET", chunked + b"\r\n0\r\n\r\n" + EVIL, b""),
        ("response behind the length", b"GET", ok + b"Content-Length: 0\r\n\r\n" + EVIL, b""),
        ("extensions", b"GET", chunked + b"\r\n3;a=b;c=\"d\\\"\"\r\nabc\r\n0;x\r\n\r\n", b"abc"),
        ("leading zeros", b"GET", chunked + b"\r\n0003\r\nabc\r\n000\r\n\r\n", b"abc"),
        ("16 interim responses", b"GET", b"HTTP/1.1 103 X\r\n\r\n" * 16 + length + b"\r\nabc", b"abc"),
    ]  # fmt: skip
    for name, method, data, body in good:
        status = int(data.rpartition(b"103 X\r\n\r\n")[2].split(b" ")[1])
        interim = ((103, ()),) * data.count(b"103 X")
        kept = {
            "HEAD with a body behind it": b"3",
            "HEAD with another response behind it": b"3",
            "response behind a 304": b"44",
        }
        yield UpstreamResponse(name, method, data, Outcome(status, interim, (), body, (), kept.get(name)))
    errors = {
        **{
            f"head: {head!r}": ok + head + b"\r\n\r\nabc"
            for head in [
                b"Content-Length: 3\r\nContent-Length: 3", b"Content-Length: 3\r\nContent-Length: 4", b"Content-Length: 3, 3", b"Content-Length: +3", b"Content-Length: -1", b"Content-Length: 0x3", b"Content-Length: ", b"Content-Length: 3 ;",
                b"Content-Length: 18446744073709551619", b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked",
                b"Content-Length: 3\r\nX: a\r\n b", b"Content-Length: 3\r\n X: a", b"Content-Length: 3\r\nX : a", b"Content-Length: 3\r\nX", b"Content-Length: 3\r\n: a", b"Content-Length: 3\nX: a", b"Content-Length: 3\r\nX: a\rb", b"Content-Length: 3\r\nX: a\0b", b"Content-Length: 3\r\nX\0: a", b"Content-Length: 3\r\nX: a\x7f",
                b"Content-Length: 3\r\nX y: a", b"Content-Length: 3\r\n\xc3\xa9: a",
            ]
        },
        **{
            f"line: {line!r}": line + b"Content-Length: 3\r\n\r\nabc"
            for line in [
                b"HTTP/1.1 20 OK\r\n", b"HTTP/1.1 2000 OK\r\n", b"HTTP/1.1 abc OK\r\n", b"HTTP/1.1 099 OK\r\n", b"HTTP/1.1 000 OK\r\n", b"HTTP/2.0 200 OK\r\n", b"HTTP/1.2 200 OK\r\n", b"http/1.1 200 OK\r\n", b"HTTP/1.1  200 OK\r\n", b"HTTP/1.1\t200 OK\r\n", b"HTTP/1.1 200 O\0K\r\n",
                b"HTTP/1.1 200 O\rK\r\n", b"HTTP/1.1 200 OK\n", b"\nHTTP/1.1 200 OK\r\n", b"ICY 200 OK\r\n", b" HTTP/1.1 200 OK\r\n", b"HTTP/1.1 +20 OK\r\n", b"HTTP/1.1 2 0 OK\r\n",
            ]
        },
        **{
            f"chunk: {body!r}": chunked + b"\r\n" + body
            for body in [
                b"3\nabc\n0\n\n", b"3\r\nabc0\r\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"+3\r\nabc\r\n0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b" 3\r\nabc\r\n0\r\n\r\n", b"-3\r\nabc\r\n0\r\n\r\n", b"3;\nabc\r\n0\r\n\r\n", b"3;a\0\r\nabc\r\n0\r\n\r\n", b"g\r\nabc\r\n0\r\n\r\n", b"\r\nabc\r\n0\r\n\r\n",
                b"10000000000000003\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n0\r\nX: a\n\r\n", b"3\r\nabc\r\n0\r\nX : a\r\n\r\n", b"3\r\nabc\r\n0\r\n X: a\r\n\r\n", b"3\r\nabc\r\n0\r\nX: a\0\r\n\r\n", b"3\r\nabc\r\n0\r\n", b"3\r\nabc\r\n0", b"3\r\nabc\r\n", b"3\r\nabc", b"3\r\na", b"3", b"",
            ]
        },
        "chunked in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "short of its length": length + b"\r\nab",
        "only a head": length + b"\r\n",
        "half a head": length,
        "nothing": b"",
        "interim responses and no other": b"HTTP/1.1 103 X\r\n\r\n",
        "100 interim responses": b"HTTP/1.1 103 X\r\n\r\n" * 100 + length + b"\r\nabc",
        "a switch of protocols": b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nabc",
        "a switch of protocols without a name": b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + EVIL,
        "interim response with a bare LF": b"HTTP/1.1 103 X\nLink: a\r\n\r\n" + length + b"\r\nabc",
        "a head of 600 KiB": ok + b"X: " + b"a" * 600_000 + b"\r\nContent-Length: 3\r\n\r\nabc",
        "2,000 fields": ok + b"X: a\r\n" * 2000 + b"Content-Length: 3\r\n\r\nabc",
    }  # fmt: skip
    for name, data in errors.items():
        yield UpstreamResponse(name, b"GET", data, "error", True)
