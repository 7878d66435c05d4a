"""Attacks that were published, and their relatives, each with what must come of it: `nothing`, `broken` (never whole) or `forward`.

Sources: J. Kettle, "HTTP/2: The Sequel is Always Worse" (2021), "HTTP Desync Attacks" (2019) and "HTTP/1.1 must die" (2025); B. Doyle and others on
chunk extensions ("Funky chunks", 2025); RFC 9113 section 10.3; the CVEs that docs/HTTP2-SAFETY.md and docs/safety.md name rules for.
"""

import struct

from cases import SMUGGLED, Http1, Http2
from frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    RST_STREAM,
    block,
    frame,
    literal,
)

POST = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a.example"), (b":path", b"/")]
GET = [(b":method", b"GET"), *POST[1:]]


def get(*fields):
    return Http2([*GET, *fields])


def post(data, *fields, **more):
    return Http2([*POST, *fields], [data], ends_with_head=False, **more)


def replaced(name, value):
    return Http2([(key, value if key == name else old) for key, old in GET])


HTTP2 = [
    ("H2.CL: a body behind a length of 0", "broken", post(SMUGGLED, (b"content-length", b"0"))),
    ("H2.CL: a body shorter than its length", "broken", post(b"abc", (b"content-length", b"100"))),
    ("H2.CL: a length without a body", "nothing", get((b"content-length", b"5"))),
    ("H2.CL: two lengths", "nothing", post(b"abc", (b"content-length", b"3"), (b"content-length", b"0"))),
    ("H2.CL: the same length twice", "nothing", post(b"abc", (b"content-length", b"3"), (b"content-length", b"3"))),
    ("H2.CL: a list of lengths", "nothing", post(b"abc", (b"content-length", b"3, 3"))),
    ("H2.CL: a sign", "nothing", post(b"abc", (b"content-length", b"+3"))),
    ("H2.CL: leading zeros are the same number", "forward", post(b"abc", (b"content-length", b"0003"))),
    ("H2.CL: alias of the name", "forward", post(SMUGGLED, (b"content_length", b"0"))),
    ("H2.TE", "nothing", post(b"0\r\n\r\n" + SMUGGLED, (b"transfer-encoding", b"chunked"))),
    ("H2.TE: alias of the name", "forward", post(b"0\r\n\r\n" + SMUGGLED, (b"transfer_encoding", b"chunked"))),
    ("H2.TE: capital letters", "nothing", post(b"0\r\n\r\n" + SMUGGLED, (b"Transfer-Encoding", b"chunked"))),
    ("H2.TE: blank behind the name", "nothing", post(b"0\r\n\r\n" + SMUGGLED, (b"transfer-encoding ", b"chunked"))),
    ("H2.TE by CRLF in a value", "nothing", post(b"0\r\n\r\n" + SMUGGLED, (b"x", b"y\r\ntransfer-encoding: chunked"))),
    ("H2.TE by LF in a value", "nothing", post(b"0\r\n\r\n" + SMUGGLED, (b"x", b"y\ntransfer-encoding: chunked"))),
    ("H2.TE by a colon in a name", "nothing", post(b"0\r\n\r\n" + SMUGGLED, (b"transfer-encoding: chunked\r\nx", b"y"))),
    ("H2.TE: colon at the end of the name", "nothing", post(b"0\r\n\r\n", (b"transfer-encoding:", b"chunked"))),
    ("chunks as a body", "forward", post(b"0\r\n\r\n" + SMUGGLED)),
    ("request in the method", "nothing", replaced(b":method", b"GET /evil HTTP/1.1\r\nHost: evil\r\n\r\nGET")),
    ("blank in the method", "nothing", replaced(b":method", b"GET /evil")),
    ("request in the path", "nothing", replaced(b":path", b"/ HTTP/1.1\r\nHost: evil\r\n\r\nGET /")),
    ("version in the path", "nothing", replaced(b":path", b"/evil HTTP/1.1")),
    ("blank in the path", "nothing", replaced(b":path", b"/a b")),
    ("fragment in the path", "nothing", replaced(b":path", b"/a#b")),
    ("fragment in the query", "nothing", replaced(b":path", b"/a?b#c")),
    ("absolute form as the path", "nothing", replaced(b":path", b"http://evil/")),
    ("authority form as the path", "nothing", replaced(b":path", b"evil:80")),
    ("asterisk with GET", "nothing", replaced(b":path", b"*")),
    ("two slashes", "nothing", replaced(b":path", b"//evil/")),
    ("CRLF in the authority", "nothing", replaced(b":authority", b"a\r\nX: y")),
    ("path in the authority", "nothing", replaced(b":authority", b"a/evil")),
    ("userinfo in the authority", "nothing", replaced(b":authority", b"user@a")),
    ("URL as the scheme", "nothing", replaced(b":scheme", b"http://evil/")),
    ("CRLF in the scheme", "nothing", replaced(b":scheme", b"http\r\nX: y")),
    ("Host of another server", "nothing", get((b"host", b"evil"))),
    ("Host that is the authority", "forward", get((b"host", b"A.example:80"))),
    ("two Hosts", "nothing", get((b"host", b"a.example"), (b"host", b"a.example"))),
    ("Host without an authority", "forward", Http2([*GET[:2], GET[3], (b"host", b"b.example")])),
    ("neither Host nor authority", "nothing", Http2([*GET[:2], GET[3]])),
    ("path twice", "nothing", Http2([*GET, (b":path", b"/evil")])),
    ("pseudo-field behind a field", "nothing", Http2([*GET[:3], (b"x", b"y"), GET[3]])),
    ("status in a request", "nothing", Http2([*GET, (b":status", b"200")])),
    ("CONNECT", "nothing", Http2([(b":method", b"CONNECT"), (b":authority", b"a:80")], [SMUGGLED], ends_with_head=False)),
    ("extended CONNECT", "nothing", Http2([(b":method", b"CONNECT"), (b":protocol", b"websocket"), *GET[1:]], [b"x"], ends_with_head=False)),
    ("TRACE", "nothing", replaced(b":method", b"TRACE")),
    ("OPTIONS *", "nothing", Http2([(b":method", b"OPTIONS"), *GET[1:3], (b":path", b"*")])),
    ("Connection", "nothing", get((b"connection", b"x-a, content-length"))),
    ("Upgrade: h2c", "nothing", get((b"upgrade", b"h2c"), (b"http2-settings", b"AAMAAABk"))),
    ("TE that is not trailers", "nothing", get((b"te", b"trailers, deflate"))),
    ("TE: trailers", "forward", get((b"te", b"trailers"))),
    ("NUL in a value", "nothing", get((b"x", b"a\0b"))),
    ("blank before a value", "nothing", get((b"x", b" a"))),
    ("empty name", "nothing", get((b"", b"a"))),
    ("crumbs of a cookie", "forward", get((b"cookie", b"a=1"), (b"x", b"y"), (b"cookie", b"b=2"), (b"cookie", b""))),
    ("request in a crumb", "nothing", get((b"cookie", b"a=1"), (b"cookie", b"b\r\n\r\n" + SMUGGLED))),
    ("expectation", "forward", post(b"abc", (b"expect", b"100-continue"))),
    ("unknown expectation", "nothing", post(b"abc", (b"expect", b"200-ok"))),
    ("trailers that frame", "forward", post(b"abc", trailers=[(b"content-length", b"0"), (b"x-tail", b"1")])),
    ("transfer-encoding in trailers", "broken", post(b"abc", trailers=[(b"transfer-encoding", b"chunked")])),
    ("pseudo-field in trailers", "broken", post(b"abc", trailers=[(b":path", b"/evil")])),
    ("CRLF in trailers", "broken", post(b"abc", trailers=[(b"x", b"y\r\n\r\n" + SMUGGLED)])),
    ("trailers without END_STREAM", "broken", post(b"abc", trailers=[(b"x", b"y")], trailers_end=False)),
    ("announced names of framing", "forward", Http2([*POST[:3], (b":path", b"/trailers/a"), (b"trailer", b"content-length, x-tail, host")], [b"abc"], [(b"x-tail", b"1")], ends_with_head=False)),
    ("announced names with transfer-encoding", "forward", Http2([*POST[:3], (b":path", b"/trailers/a"), (b"trailer", b"transfer-encoding")], [b"abc"], [(b"x-tail", b"1")], ends_with_head=False)),
    ("empty DATA ends the body", "forward", post(b"abc", ends_empty=True)),
    ("no DATA, no length", "forward", Http2(POST, [], ends_with_head=False, ends_empty=True)),
    ("padding is no body", "forward", post(b"abc", (b"content-length", b"3"), padding=[200])),
    ("field block in pieces", "forward", Http2([*GET, (b"x", b"y")], cuts=[0, 1, 2, 20, 30, 40], padding=[3])),
]  # fmt: skip

HEAD = END_HEADERS | END_STREAM
begin = frame(HEADERS, END_HEADERS, 1, block(POST))
# Frames as they are: what comes of stream 1 where the frames themselves are wrong.
FRAMES = [
    ("DATA in the middle of a field block", "nothing", frame(HEADERS, END_STREAM, 1, block(GET)[:20]) + frame(DATA, END_STREAM, 1, SMUGGLED)),
    ("HEADERS of another stream in a field block", "nothing", frame(HEADERS, END_STREAM, 1, block(GET)[:20]) + frame(HEADERS, HEAD, 3, block(GET))),
    ("CONTINUATION of another stream", "nothing", frame(HEADERS, END_STREAM, 1, block(GET)[:20]) + frame(CONTINUATION, END_HEADERS, 3, block(GET)[20:])),
    ("CONTINUATION behind END_HEADERS", "broken", begin + frame(CONTINUATION, END_HEADERS, 1, block([(b"x", b"y")]))),
    ("HEADERS on stream 0", "nothing", frame(HEADERS, HEAD, 0, block(GET))),
    ("HEADERS on an even stream", "nothing", frame(HEADERS, HEAD, 2, block(GET))),
    ("padding longer than the frame", "nothing", frame(HEADERS, HEAD | PADDED, 1, b"\xff" + block(GET)[:20])),
    ("padding longer than DATA", "broken", begin + frame(DATA, END_STREAM | PADDED, 1, b"\x09abc")),
    ("frame beyond 16 KiB", "broken", begin + frame(DATA, END_STREAM, 1, bytes(16_385))),
    ("index 0 of the table", "nothing", frame(HEADERS, HEAD, 1, block(GET) + b"\x80")),
    ("index beyond the table", "nothing", frame(HEADERS, HEAD, 1, block(GET) + b"\xff\x7f")),
    ("string longer than the block", "nothing", frame(HEADERS, HEAD, 1, block(GET) + b"\x00\x01x\x7f\x80\x01y")),
    ("Huffman code with EOS", "nothing", frame(HEADERS, HEAD, 1, block(GET) + b"\x00\x01x\x84\xff\xff\xff\xff")),
    ("Huffman code with a long padding", "nothing", frame(HEADERS, HEAD, 1, block(GET) + b"\x00\x01x\x82\x07\xff")),
    ("CRLF in Huffman code", "nothing", frame(HEADERS, HEAD, 1, block(GET) + b"\x00\x01x\x88\xff\xff\xfe\x7f\xff\xff\xf3\xff")),
    ("table beyond its limit", "nothing", frame(HEADERS, HEAD, 1, b"\x3f\xff\xff\x03" + block(GET))),
    ("malformed field from the table", "nothing", frame(HEADERS, HEAD, 1, literal(b"x", b"a\r\nb: c", 0x40) + block(GET))),
    ("reset in the body", "broken", begin + frame(DATA, 0, 1, b"abc") + frame(RST_STREAM, 0, 1, struct.pack(">I", 8))),
    ("second HEADERS before the body", "broken", begin + frame(HEADERS, END_HEADERS, 1, block(GET))),
    ("request as trailers", "broken", begin + frame(DATA, 0, 1, b"abc") + frame(HEADERS, HEAD, 1, block(GET))),
    ("window that overflows", "broken", begin + frame(8, 0, 1, struct.pack(">I", 0x7FFFFFFF))),
    ("GOAWAY in the body, then the connection ends", "broken", begin + frame(DATA, 0, 1, b"abc") + frame(GOAWAY, 0, 0, bytes(8))),
]  # fmt: skip

LINE = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = LINE + b"Transfer-Encoding: chunked\r\n\r\n"
REFUSED_HTTP1 = [
    ("CL.TE", LINE + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("TE.CL", LINE + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    *[
        (f"TE.TE: {value!r}", LINE + value + b"\r\n\r\n0\r\n\r\n" + SMUGGLED)
        for value in [
            b"Transfer-Encoding : chunked", b"Transfer-Encoding: xchunked", b"Transfer-Encoding: chunked, identity", b"Transfer-Encoding: identity, chunked",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x", b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked", b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding: chunked\x00",
            b"Transfer-Encoding: \"chunked\"", b"Transfer-Encoding: chunked;a=b", b"Transfer-Encoding\r\n : chunked", b"Transfer-Encoding:\r\n chunked", b"Transfer-Encoding:\nchunked",
            b"X: y\nTransfer-Encoding: chunked", b"X: y\rTransfer-Encoding: chunked", b" Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: ,chunked",
            b"Transfer-Encoding:", b"Transfer-Encoding: \xc3\xa9", b"Transfer-Encoding: chunked\x0c", b"Transfer-Encoding: identity", b"Transfer-Encoding: cow",
        ]
    ],
    *[
        (f"Content-Length: {value!r}", LINE + b"Content-Length:" + value + b"\r\n\r\nabc" + SMUGGLED)
        for value in [
            b" +3", b" -3", b" 3 3", b" 3, 3", b" 3,0", b" 0x3", b" 3_0", b" 3.0", b"", b" 18446744073709551619", b" 3\r\nContent-Length: 3", b" 3\r\ncontent-length: 0", b" \x0b3", b" 3\0", b" 3\r\n 0", b" \xd9\xa3",
        ]
    ],
    *[
        (f"chunk: {value!r}", CHUNKED + value)
        for value in [
            b"+3\r\nabc\r\n0\r\n\r\n", b"-1\r\nabc\r\n0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b" 3\r\nabc\r\n0\r\n\r\n", b"3_0\r\nabc\r\n0\r\n\r\n", b"3\nabc\n0\n\n", b"3\r\nabc0\r\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n",
            b"3;\r\nabc\r\n0\r\n\r\n", b"3 ;a\r\nabc\r\n0\r\n\r\n", b"3;a\nabc\r\n0\r\n\r\n", b"3;\n\r\nabc\r\n0\r\n\r\n", b"3;a\rb\r\nabc\r\n0\r\n\r\n", b"3;a=\0\r\nabc\r\n0\r\n\r\n", b"ffffffffffffffff3\r\nabc\r\n0\r\n\r\n", b"10000000000000003\r\nabc\r\n0\r\n\r\n",
            b"3\r\rabc\r\n0\r\n\r\n", b"3\r\nabc\rX0\r\n\r\n", b"3\r\nabc\r\n0\r\nX: y\n\r\n", b"3\r\nabc\r\n0\r\n X: y\r\n\r\n", b"3\r\nabc\r\n0\r\nX : y\r\n\r\n", b"3\r\nabc\r\n0\r\nX: a\0\r\n\r\n", b"\r\n3\r\nabc\r\n0\r\n\r\n",
            b"3 \r\nabc\r\n0\n\r\n", b"3\r\nabc\r\n0\r\n\n",
        ]
    ],
    *[
        (f"head: {value!r}", value)
        for value in [
            b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\nHost: a\r\n\n", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", b"GET / http/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/01.1\r\nHost: a\r\n\r\n", b"GET /\r\nHost: a\r\n\r\n", b"GET /\r\n",
            b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n", b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: x y\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
        ]
    ],
]  # fmt: skip

HTTP1 = [
    ("one empty line before", Http1(b"GET", b"/", b"a", []), b"\r\n", b""),
    ("Connection cannot remove a length", Http1(b"POST", b"/", b"a", [(b"Connection", b" content-length, host, transfer-encoding")], b"abc"), b"", b""),
    ("Connection removes its fields", Http1(b"GET", b"/", b"a", [(b"Connection", b" x-a, x-b"), (b"X-A", b" 1"), (b"x-c", b" 2")]), b"", b""),
    ("a body with GET", Http1(b"GET", b"/", b"a", [], SMUGGLED), b"", b""),
    ("chunks with GET", Http1(b"GET", b"/", b"a", [], SMUGGLED, [7]), b"", b""),
    ("a body with HEAD", Http1(b"HEAD", b"/", b"a", [], SMUGGLED), b"", b""),
    ("chunk extensions are dropped", Http1(b"POST", b"/", b"a", [], SMUGGLED, [7], [b";a=\"\\\"b\""]), b"", b""),
    ("absolute form", Http1(b"GET", b"/a?b", b"b.example", [], form="absolute"), b"", b""),
    ("trailers are no fields", Http1(b"POST", b"/", b"a", [], b"abc", [3], trailers=[(b"host", b"evil"), (b"x-tail", b"1")]), b"", b""),
    ("an alias of Transfer-Encoding", Http1(b"POST", b"/", b"a", [(b"Transfer_Encoding", b" chunked")], b"abc"), b"", b""),
    ("Upgrade: h2c", Http1(b"GET", b"/", b"a", [(b"Connection", b" Upgrade, HTTP2-Settings"), (b"Upgrade", b" h2c"), (b"HTTP2-Settings", b" AAMAAABk")]), b"", b""),
    ("Upgrade: websocket", Http1(b"GET", b"/", b"a", [(b"Connection", b" Upgrade"), (b"Upgrade", b" websocket"), (b"Sec-WebSocket-Version", b" 13"), (b"Sec-WebSocket-Key", b" AAAAAAAAAAAAAAAAAAAAAA==")]), b"", b""),
]  # fmt: skip
