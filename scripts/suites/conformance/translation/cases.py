"""Requests, in frames and in HTTP/1.1: a generator that repeats for a seed."""

import dataclasses
import random

from frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INDEXED,
    NEVER,
    PADDED,
    PLAIN,
    PRIORITY,
    block,
    frame,
    literal,
    padded,
)


@dataclasses.dataclass
class Http2:
    """A request, and how it is cut into frames."""

    fields: list
    data: list = dataclasses.field(default_factory=list)
    trailers: list | None = None
    trailers_end: bool = True
    # Whether END_STREAM comes with HEADERS.
    ends_with_head: bool = True
    kind: int = PLAIN
    # Where the field block is cut, and how many bytes of padding each frame has (None: the flag is not set).
    cuts: list = dataclasses.field(default_factory=list)
    padding: list = dataclasses.field(default_factory=lambda: [None])
    has_priority: bool = False
    # END_STREAM comes in an empty DATA frame of its own.
    ends_empty: bool = False
    note: str = ""

    def frames(self, stream):
        """HEADERS with CONTINUATIONs as one item, which nothing may come between; then each DATA frame."""
        items = [self.head(stream, self.fields, END_STREAM if self.ends_with_head else 0)]
        if self.ends_with_head:
            return items
        for index, piece in enumerate(self.data):
            is_last = index == len(self.data) - 1 and not self.ends_empty and self.trailers is None
            items.append(self.padded(DATA, END_STREAM if is_last else 0, stream, piece, index))
        if self.trailers is not None:
            flags = END_HEADERS | (END_STREAM if self.trailers_end else 0)
            items.append(frame(HEADERS, flags, stream, block(self.trailers, self.kind)))
        elif self.ends_empty or not self.data:
            items.append(frame(DATA, END_STREAM, stream))
        return items

    def head(self, stream, fields, flags):
        encoded = b"".join(literal(name, value, self.kind) for name, value in fields)
        # No frame has more than 16 KiB.
        cuts = sorted({0, *(cut % (len(encoded) + 1) for cut in self.cuts), *range(0, len(encoded), 15_000)})
        pieces = [encoded[start:end] for start, end in zip(cuts, [*cuts[1:], len(encoded)], strict=True)]
        first = (b"\x80\0\0\0\x07" if self.has_priority else b"") + pieces[0]
        flags |= PRIORITY if self.has_priority else 0
        out = self.padded(HEADERS, flags | (END_HEADERS if len(pieces) == 1 else 0), stream, first, 0)
        for index, piece in enumerate(pieces[1:], 2):
            out += frame(CONTINUATION, END_HEADERS if index == len(pieces) else 0, stream, piece)
        return out

    def padded(self, kind, flags, stream, payload, index):
        padding = self.padding[index % len(self.padding)]
        if padding is None:
            return frame(kind, flags, stream, payload)
        return frame(kind, flags | PADDED, stream, padded(payload, padding))


@dataclasses.dataclass
class Http1:
    """A request of HTTP/1.1; `body` is None where it has none."""

    method: bytes
    target: bytes
    host: bytes
    fields: list
    content: bytes | None = None
    # Sizes of chunks; None: Content-Length.
    chunks: list | None = None
    extensions: list = dataclasses.field(default_factory=lambda: [b""])
    trailers: list | None = None
    form: str = "origin"
    note: str = ""

    @property
    def body(self):
        return self.content or b""

    def text(self):
        target = b"http://" + self.host + self.target if self.form == "absolute" else self.target
        out = [self.method + b" " + target + b" HTTP/1.1", b"Host: " + self.host]
        out += [name + b":" + value for name, value in self.fields]
        if self.content is None:
            return b"\r\n".join([*out, b"", b""])
        if self.chunks is None:
            return b"\r\n".join([*out, b"Content-Length: %d" % len(self.content), b"", self.content])
        return b"\r\n".join([*out, b"Transfer-Encoding: chunked", b"", b""]) + self.chunked()

    def chunked(self):
        out, at, index = b"", 0, 0
        while at < len(self.content):
            piece = self.content[at : at + self.chunks[index % len(self.chunks)]]
            extension = self.extensions[index % len(self.extensions)]
            out += b"%x%s\r\n%s\r\n" % (len(piece), extension, piece)
            at, index = at + len(piece), index + 1
        return out + b"0\r\n" + b"".join(b"%s: %s\r\n" % field for field in self.trailers or []) + b"\r\n"


# What an attacker would have a parser read as the next request.
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: evil\r\n\r\n"
BODIES = [
    b"",
    b"x",
    b"0\r\n\r\n",
    b"0\r\n\r\n" + SMUGGLED,
    SMUGGLED,
    b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED,
    b"\r\n" + SMUGGLED,
    b"\0\r\n\n\r",
    b"ffffffffffffffff\r\n",
]
PATHS = [
    b"/", b"/a", b"/a/b/", b"/a?x=1&y=%2F", b"/a?", b"/%41", b"/%e4%bd%a0", b"/a%20b", b"/.", b"/a/./b", b"/a/../b", b"/..", b"/a/%2e%2e/b",
    b"/a//b", b"/a%2fb", b"/a%5cb", b"/a\\b", b"/a;b", b"/a%00b", b"/a%0d%0ab", b"/a%zz", b"/a%", b"/%c0%ae", b"/%ff", b"/a b", b"/a#b",
    b"/a HTTP/1.1", b"/a\r\nX: y", b"/\xc3\xa9", b"", b"a", b"*", b"http://evil/", b"//evil/", b"/?\r\n", b"/?a#b", b"/?\x7f", b"/a?http://x/", b"/a:b@c",
    b"/'\"<>`{|}^", b"/%7e%2D%5f", b"/a?%zz", b"/a?%00", b"/a?a=b;c\\d", b"/trailers/a", b"/trailers/../a", b"/a/../trailers/b", b"/a.", b"/.well-known/x", b"/...", b"/a\tb", b"/\0",
]  # fmt: skip
METHODS = [
    b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT", b"get", b"Post", b"PROPFIND", b"QUERY", b"M-SEARCH", b"X.Y", b"GE T", b"GET ",
    b"GET / HTTP/1.1\r\nX:", b"", b"G\0T", b"\xc3\xa9", b"A" * 32, b"A" * 33, b"PRI", b"X_Y", b"!#$%&'*+-.^_`|~", b"GET\t", b"GET\r\n", b"(GET)",
]  # fmt: skip
HOSTS = [
    b"a.example", b"A.Example:80", b"a:8080", b"[::1]", b"[::1]:80", b"127.0.0.1", b"a.", b"a_b", b"xn--a", b"a:", b"a:0", b"a:65535", b"a:65536", b"a:99999", b"user@a", b"a/b", b"a b", b"a,b", b"a..b",
    b".a", b"a%20b", b"[::1", b"[x]", b"a:b", b"a?b", b"a#b", b"a\\b", b"", b"a\r\nX: y", b"a\0", b"\xc3\xa9", b"a:80:80", b"[::1]x", b"*", b"a b:80", b"-", b"a:+80", b"[::ffff:1.2.3.4]", b"[fe80::1%25a]",
]  # fmt: skip
NAMES = [
    b"x-a", b"x-b", b"accept", b"user-agent", b"authorization", b"cookie", b"range", b"if-none-match", b"content-type", b"content-encoding", b"priority", b"via", b"origin", b"!#$%&'*+-.^_`|~",
    b"x_under", b"x.dot", b"0", b"a" * 300, b"early-data", b"max-forwards", b"grpc-timeout-x", b"proxy-authorization", b"sec-fetch-site", b"date", b"pragma", b"server", b"set-cookie", b"status",
    # Removed.
    b"x-forwarded-for", b"x_forwarded_for", b"x-forwarded-proto", b"x-forwarded-host", b"x.forwarded.host", b"x-real-ip", b"x-request-id", b"x_request_id", b"forwarded", b"content_length",
    b"transfer_encoding", b"transfer.encoding", b"http2-settings", b"x-original-url", b"x-rewrite-url", b"x-http-method-override", b"cf-connecting-ip", b"remote-user", b"proxy", b"client-ip", b"host_", b"x-accel-redirect",
]  # fmt: skip
BAD_NAMES = [
    b"", b"x y", b"x:y", b"x\r\nhost", b"x\n", b"x\0", b"\xc3\xa9", b" x", b"x ", b"x\t", b"(x)", b"x,y", b"x;y", b"x=y", b"x\"", b"x\x7f", b"x/y", b"x\\y", b"{x}", b":x", b"x\r", b"x@y", b"x?y",
]  # fmt: skip
ONLY_HTTP2_BAD_NAMES = [
    b"X-Upper",
    b"Transfer-Encoding",
    b"Content-Length",
    b"HOST",
    b"x-Y",
    b":path",
    b":status",
    b":",
]
VALUES = [
    b"1", b"", b"a b", b"a\tb", b"\xc3\xa9", b"\xff\x80", b"a, b", b"chunked", b"0", b'"a"', b"a: b", b"a;b=c", b"(x)", b"%0d%0a", b"\\r\\n", b"a" * 4000, b"HTTP/1.1", b"GET / HTTP/1.1", b"close, content-length",
]  # fmt: skip
BAD_VALUES = [
    b"a\r\nhost: evil", b"a\nhost: evil", b"a\rhost: evil", b"a\0b", b"\0", b"a\x01b", b"a\x7fb", b"a\r\n\r\n" + SMUGGLED, b"\r\n", b"\n", b"\r", b"a\x0bb", b"a\x0cb", b"a\x1fb", b"a\r\n b",
]  # fmt: skip
BLANK_VALUES = [b" 1", b"1 ", b"\t1", b"1\t", b" ", b"\t"]
CONNECTION_FIELDS = [
    (b"connection", b"close"), (b"connection", b"keep-alive"), (b"connection", b"x-a"), (b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"identity"), (b"transfer-encoding", b""), (b"keep-alive", b"timeout=5"),
    (b"proxy-connection", b"close"), (b"upgrade", b"h2c"), (b"upgrade", b"websocket"), (b"te", b"gzip"), (b"te", b"trailers, gzip"), (b"te", b""), (b"te", b"trailers"), (b"te", b"Trailers"),
]  # fmt: skip
LENGTHS = [
    b"%d", b"00%d", b"+%d", b"-%d", b" %d", b"%d ", b"0x%x", b"%d, %d", b"%d_0", b"%d.0", b"", b"1e1", b"18446744073709551616", b"\xd9\xa1", b"%d;", b"%d\0", b"%d\r\n", b"99999999999999999999999999",
]  # fmt: skip
GOOD_TRAILERS = [b"x-checksum", b"x-tail", b"grpc-status", b"grpc-message", b"server-timing"]
BAD_TRAILERS = [
    b"content-length", b"host", b"authorization", b"cookie", b"content-type", b"x-forwarded-for", b"cache-control", b"content_length", b"x-real-ip", b"expect", b"if-match", b"proxy-foo", b"sec-foo",
    b"access-control-foo", b"set-cookie", b"location",
]  # fmt: skip


class Chance:
    """What happens in one case: it has a random generator of its own, and can be made again by its part and its number."""

    def __init__(self, seed, part, number):
        self.random = random.Random(f"{seed}/{part}/{number}")
        self.number = number

    def some(self, chance):
        return self.random.random() < chance

    def pick(self, options):
        return self.random.choice(options)

    def tamper(self, data, most, reach, pieces):
        """Up to so many times, bytes up to `reach` are added, lost or changed."""
        for _ in range(self.random.randrange(1, most + 1)):
            at = self.random.randrange(min(len(data), reach) + 1)
            kind = self.random.randrange(3)
            if kind == 0:
                data[at:at] = self.pick(pieces)
            elif kind == 1:
                del data[at : at + self.random.randrange(1, 5)]
            else:
                data[at : at + 1] = bytes([self.random.randrange(256)])


class Generator(Chance):
    def body(self):
        if self.some(0.75):
            return self.pick(BODIES)
        return self.random.randbytes(self.pick([10, 1000, 16_384, 40_000]))

    def pieces(self, data):
        """The same bytes in several; some are empty."""
        cuts = sorted(self.random.randrange(len(data) + 1) for _ in range(self.pick([0, 0, 1, 2, 4])))
        pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        # A frame has at most 16 KiB, padding included.
        return [piece[at : at + 16_000] for piece in pieces for at in range(0, max(1, len(piece)), 16_000)]

    def fields(self):
        fields = [(self.pick(NAMES), self.pick(VALUES)) for _ in range(self.pick([0, 1, 2, 3, 6]))]
        if self.some(0.2):
            fields += [
                (b"cookie", self.pick([b"a=1", b"b=2", b"", b"c=\xc3\xa9"])) for _ in range(self.pick([1, 2, 5]))
            ]
        self.random.shuffle(fields)
        return fields

    def trailers(self):
        return [
            (self.pick(GOOD_TRAILERS + BAD_TRAILERS), self.pick([b"1", b"a b", b""]))
            for _ in range(self.pick([0, 1, 3]))
        ]

    # HTTP/2

    def http2(self):
        method = self.pick([b"GET", b"GET", b"POST", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH"])
        path = self.pick([b"/r/%d" % self.number, b"/r/%d" % self.number, b"/trailers/%d" % self.number])
        fields = self.fields()
        request = Http2([(b":method", method), (b":scheme", b"http"), (b":authority", b"a.example"), (b":path", path)])
        self.shape(request)
        if method in (b"POST", b"PUT", b"PATCH") or self.some(0.2):
            request.ends_with_head = self.some(0.1)
        if not request.ends_with_head:
            data = self.body()
            request.data, request.ends_empty = self.pieces(data), self.some(0.3)
            if self.some(0.4):
                fields.append((b"content-length", b"%d" % len(data)))
            if self.some(0.3):
                request.trailers = self.trailers()
                if self.some(0.7) and request.trailers:
                    fields.append((b"trailer", b", ".join(name for name, _ in request.trailers)))
            if self.some(0.1):
                fields.append((b"expect", b"100-continue"))
        if self.some(0.2):
            fields.append((b"te", b"trailers"))
        self.random.shuffle(fields)
        request.fields += fields
        if self.some(0.6):
            self.pick([self.bad_field, self.pseudo, self.connection_field, self.length, self.bad_trailer, self.many])(
                request
            )
        return request

    def shape(self, request):
        request.kind = self.pick([PLAIN, PLAIN, NEVER, INDEXED])
        request.cuts = [self.random.randrange(1 << 16) for _ in range(self.pick([0, 0, 1, 3, 6]))]
        request.padding = self.pick([[None], [None], [0], [1, None], [255, 0, 7]])
        request.has_priority = self.some(0.1)

    def insert(self, request, field):
        request.fields.insert(self.random.randrange(4, len(request.fields) + 1), field)

    def bad_field(self, request):
        kind = self.random.randrange(3)
        if kind == 0:
            self.insert(request, (self.pick(BAD_NAMES + ONLY_HTTP2_BAD_NAMES), self.pick(VALUES)))
        elif kind == 1:
            self.insert(request, (self.pick(NAMES), self.pick(BAD_VALUES + BLANK_VALUES)))
        else:
            # Any byte in any place of a name or a value.
            name, value = self.pick(NAMES), self.pick(VALUES)
            byte, at = bytes([self.random.randrange(256)]), self.random.randrange(8)
            field = (name[:at] + byte + name[at:], value) if self.some(0.5) else (name, value[:at] + byte + value[at:])
            self.insert(request, field)
        request.note = "a field"

    def pseudo(self, request):
        index = self.random.randrange(5)
        options = [METHODS, [b"http", b"https", b"HTTP", b"ftp", b"", b"http\r\n", b"http ", b"http://a"], HOSTS, PATHS]
        request.note = "pseudo-fields"
        if index < 4:
            request.fields[index] = (request.fields[index][0], self.pick(options[index]))
            if index == 2 and self.some(0.5):
                self.insert(request, (b"host", self.pick(HOSTS)))
            return
        # One is missing, comes twice, late, or is another.
        kind, at = self.random.randrange(4), self.random.randrange(4)
        field = request.fields[at]
        if kind == 0:
            del request.fields[at]
        elif kind == 1:
            request.fields.insert(self.random.randrange(5), field)
        elif kind == 2:
            del request.fields[at]
            request.fields.append(field)
        else:
            request.fields.insert(at, (self.pick([b":status", b":protocol", b":host", b":Path", b": path"]), b"200"))

    def connection_field(self, request):
        self.insert(request, self.pick(CONNECTION_FIELDS))
        if self.some(0.1):
            self.insert(request, (b"expect", self.pick([b"100-continue", b"x", b"100-Continue", b""])))
        request.note = "a field of a connection"

    def length(self, request):
        """Content-Length: malformed, twice, too long, or too short."""
        size, form = len(b"".join(request.data)), self.pick(LENGTHS)
        size = max(0, size + self.pick([0, 0, 1, -1, 5, -5, 1000]))
        request.fields = [field for field in request.fields if field[0] != b"content-length"]
        count = form.count(b"%")
        self.insert(request, (b"content-length", form % ((size,) * count)))
        if self.some(0.15):
            self.insert(request, (b"content-length", b"%d" % size))
        request.note = "content-length"

    def bad_trailer(self, request):
        if request.ends_with_head:
            return self.bad_field(request)
        field = self.pick([(b":path", b"/"), (b":method", b"GET"), (b"X", b"1"), (b"x", b"a\r\nb: c"), (b"x", b"a\0"), (b"x y", b"1"), (b"", b""), (b"transfer-encoding", b"chunked"), (b"connection", b"close"), (b"te", b"trailers"), (b"x", b" ")])  # fmt: skip
        request.trailers = request.trailers or []
        request.trailers.insert(self.random.randrange(len(request.trailers) + 1), field)
        if self.some(0.2):
            request.trailers.remove(field)
            request.trailers_end = False
        request.note = "trailers"
        return None

    def many(self, request):
        """Many fields, or long ones."""
        kind, request.cuts = self.random.randrange(3), request.cuts[:2]
        if kind == 0:
            count = self.pick([20, 60, 80, 90, 97, 100, 101, 150])
            request.fields += [(b"x-%d" % index, b"%d" % index) for index in range(count)]
        elif kind == 1:
            size = self.pick([1000, 8000, 20_000, 27_000, 33_000, 40_000])
            request.fields.append((b"x-long", b"v" * size))
        else:
            size = self.pick([100, 4000, 7900, 8300, 9000])
            request.fields[3] = (b":path", b"/" + b"p" * size)
        request.note = "a large head"

    # HTTP/1.1

    def http1(self):
        method = self.pick([b"GET", b"GET", b"POST", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH"])
        path = self.pick([b"/r/%d" % self.number, b"/r/%d" % self.number, b"/trailers/%d" % self.number])
        fields = [(self.case(name), self.blank() + value + self.blank()) for name, value in self.fields()]
        request = Http1(method, path, b"a.example", fields)
        if method in (b"POST", b"PUT", b"PATCH") or self.some(0.2):
            request.content = self.body()
            if self.some(0.6):
                request.chunks = [self.pick([1, 3, 10, 1000, 60_000]) for _ in range(3)]
                if len(request.content) > 1000:
                    request.chunks = [900, 5000]
                request.extensions = self.pick([[b""], [b""], [b";a"], [b";a=b", b""], [b';a="b c"']])
                if self.some(0.4):
                    request.trailers = self.trailers()
                    if request.trailers and self.some(0.7):
                        fields.append((b"Trailer", b" " + b",".join(name for name, _ in request.trailers)))
        if self.some(0.2):
            fields += [(b"TE", b" trailers"), (b"Connection", b" TE")]
        if self.some(0.2):
            options = [
                b"close",
                b"keep-alive",
                b"x-a",
                b"cookie",
                b"host",
                b"x-forwarded-for",
                b"x-b, accept",
                b"content-length",
            ]
            fields.append((b"Connection", b" " + self.pick(options)))
        self.random.shuffle(fields)
        kind = self.random.randrange(8)
        if kind == 0:
            request.method, request.note = self.pick(METHODS), "method"
        elif kind == 1:
            request.target, request.note = self.pick(PATHS), "target"
        elif kind == 2:
            request.host, request.form, request.note = self.pick(HOSTS), self.pick(["origin", "absolute"]), "host"
        elif kind == 3:
            field = self.pick([(self.pick(BAD_NAMES), b" 1"), (b"X", self.pick(BAD_VALUES))])
            request.fields.insert(self.random.randrange(len(fields) + 1), field)
            request.note = "a field"
        return request

    def case(self, name):
        return self.pick([name, name.title(), name.upper()])

    def blank(self):
        return self.pick([b"", b" ", b" ", b" ", b"  ", b"\t"])


def is_plain_http1(request):
    """Whether the bytes of a case are what its parts say: CRLF in one of them would begin another line."""
    parts = [request.method, request.target, request.host, *(part for field in request.fields for part in field)]
    names_with_colon = any(b":" in name for name, _ in request.fields)
    return not names_with_colon and not any(b"\r\n" in part for part in parts)
