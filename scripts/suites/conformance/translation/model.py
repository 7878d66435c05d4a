"""What Weir's documents say of a request: whether it is forwarded, and as what. Written from docs/safety.md and docs/HTTP2-SAFETY.md, not from the code."""

import dataclasses
import hashlib
import ipaddress
import pathlib
import re

SAFETY = pathlib.Path(__file__).parents[4] / "docs/safety.md"
# Paths below it are on a route that forwards trailers.
TRAILERS = b"/trailers/"
METHODS = {b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT"}
HOP_BY_HOP = set(b"connection keep-alive proxy-connection te trailer upgrade transfer-encoding".split())
FRAMING = {b"host", b"content-length", b"expect", b"http2-settings"}
SET_BY_GATEWAY = HOP_BY_HOP | set(
    b"host content-length x-forwarded-for x-forwarded-proto x-forwarded-host x-request-id forwarded".split()
)
# In trailers (RFC 9110 section 6.5.1); the generator uses no others.
MAY_BE_TRAILER = set(b"x-checksum x-tail grpc-status grpc-message server-timing".split())
NOT_IN_TRAILERS = set(
    b"content-length host authorization cookie content-type x-forwarded-for cache-control content_length x-real-ip "
    b"expect if-match proxy-foo sec-foo access-control-foo set-cookie location".split()
)
NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
VALUE = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")
TARGET = re.compile(rb"[\x21\x22\x24-\x7e]+")
HOST = re.compile(rb"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?")


@dataclasses.dataclass(frozen=True)
class Reading:
    """One request as a parser has read it."""

    method: bytes
    target: bytes
    host: bytes
    fields: tuple
    body: tuple
    trailers: tuple = ()


@dataclasses.dataclass(frozen=True)
class Expected:
    """`forward`: the reading, exactly once. `nothing`: no byte arrives, and the client gets an error. `broken`: what arrives is never a
    whole request, except `reading` where that is there: a body that was complete before it turned out to be too long. `either`: as
    `forward` or as `nothing`, at a limit that is not exact."""

    kind: str
    reading: Reading | None = None
    why: str = ""


def nothing(why):
    return Expected("nothing", None, why)


def body_of(data):
    return len(data), hashlib.sha256(data).hexdigest()


def by_name(fields):
    """As a set of names, each with its values in order: parsers keep the order of one name's values, not all that of names."""
    names = {}
    for name, value in fields:
        names.setdefault(name.lower(), []).append(value)
    return tuple(sorted((name, tuple(values)) for name, values in names.items()))


def alias(name):
    """The name as servers read it that convert all but letters and digits into one byte (CGI)."""
    return re.sub(rb"[^a-z0-9]", b"-", name.lower())


def spoofable():
    """The names of the table in docs/safety.md."""
    section = SAFETY.read_text().split("## Fields of untrusted peers")[1].split("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ") and "---" not in row][1:]
    return {alias(name.encode()) for row in rows for name in re.findall("`([^`]+)`", row.split("|")[2])}


# `*` became a hyphen, so that a name with one at its end stands for all that begin so.
SPOOFABLE = {name for name in spoofable() if not name.endswith(b"-")}
SPOOFABLE_PREFIXES = tuple(sorted({re.sub(rb"-$", b"", name) for name in spoofable() if name.endswith(b"-")}, key=len))


def is_spoofable(name):
    name = alias(name)
    return name in SPOOFABLE or name.startswith(SPOOFABLE_PREFIXES)


def is_removed(name):
    """Whether a field of an untrusted client does not reach the upstream."""
    name = name.lower()
    return name in HOP_BY_HOP | FRAMING or alias(name) in SET_BY_GATEWAY or is_spoofable(name)


def is_authority(text):
    host, port = text, b""
    if text.startswith(b"["):
        inside, bracket, port = text[1:].partition(b"]")
        try:
            ipaddress.IPv6Address(inside.decode("latin-1"))
        except ValueError:
            return False
        return bool(bracket) and b"%" not in inside and is_port(port)
    host, colon, port = text.partition(b":")
    return HOST.fullmatch(host) is not None and is_port(colon + port)


def is_port(text):
    return not text or (re.fullmatch(rb":[0-9]{0,5}", text) is not None and int(text[1:] or b"0") < 65536)


UNRESERVED = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def normal(target):
    """The one form of a target; None where it is refused."""
    path, mark, query = target.partition(b"?")
    if not path.startswith(b"/") or re.search(rb"[;\\#]", path) or TARGET.fullmatch(target) is None:
        return None
    out, escaped, at = bytearray(), bytearray(), 0
    while at < len(path):
        if path[at] != 0x25:
            out.append(path[at])
            at += 1
            continue
        digits = path[at + 1 : at + 3]
        if re.fullmatch(rb"[0-9A-Fa-f]{2}", digits) is None:
            return None
        byte = int(digits, 16)
        if byte < 0x20 or byte in b"\x7f/\\":
            return None
        out += bytes([byte]) if byte in UNRESERVED else b"%" + digits.upper()
        at += 3
    # Escapes stand for UTF-8, each character by itself: between two of them there is something else.
    for run in re.findall(rb"(?:%[0-9A-F]{2})+", bytes(out)):
        escaped = bytes.fromhex(run.replace(b"%", b"").decode())
        try:
            escaped.decode()
        except UnicodeDecodeError:
            return None
    segments, kept = bytes(out)[1:].split(b"/"), []
    if b"" in segments[:-1]:
        return None
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if segment == b"..":
            if not kept:
                return None
            kept.pop()
        elif segment != b".":
            kept.append(segment)
            continue
        if is_last:
            kept.append(b"")
    return b"/" + b"/".join(kept) + mark + query


def reading(method, target, host, fields, body, trailers=None):
    """What arrives of a request that is forwarded; fields are those of the client."""
    forwards = target.startswith(TRAILERS)
    passed = [(name, value.strip(b" \t")) for name, value in fields if not is_removed(name)]
    added = [(b"x-forwarded-for", b"127.0.0.1"), (b"x-forwarded-proto", b"http"), (b"x-forwarded-host", host)]
    tail = [(name, value) for name, value in trailers or [] if forwards and name in MAY_BE_TRAILER]
    return Reading(method, target, host, by_name(passed + added), body_of(body), by_name(tail))


def judge_http2(request):
    """A request in frames (see cases.py)."""
    fields, pseudo, plain = request.fields, {}, []
    for name, value in fields:
        if not name.startswith(b":"):
            if NAME.fullmatch(name) is None:
                return nothing("field name")
            if VALUE.fullmatch(value) is None:
                return nothing("field value")
            plain.append((name, value))
            continue
        if name not in (b":method", b":scheme", b":authority", b":path") or name in pseudo or plain or not value:
            return nothing("pseudo-field")
        if VALUE.fullmatch(value) is None:
            return nothing("value of a pseudo-field")
        pseudo[name] = value
    if not {b":method", b":scheme", b":path"} <= pseudo.keys():
        return nothing("a pseudo-field is missing")
    method, path = pseudo[b":method"], pseudo[b":path"]
    if TOKEN.fullmatch(method) is None or len(method) > 32 or (method not in METHODS and method.upper() in METHODS):
        return nothing("method")
    if method in (b"CONNECT", b"TRACE"):
        return nothing("method that is not forwarded")
    if pseudo[b":scheme"] not in (b"http", b"https"):
        return nothing("scheme")
    hosts = [value for name, value in plain if name == b"host"]
    host = pseudo.get(b":authority") or (hosts or [b""])[0]
    if len(hosts) > 1 or not is_authority(host) or any(same(host, pseudo) != same(other, pseudo) for other in hosts):
        return nothing("authority")
    for name, value in plain:
        if name in HOP_BY_HOP - {b"te", b"trailer"} or (name == b"te" and value.lower() != b"trailers"):
            return nothing("field of a connection")
    expects = [value.lower() for name, value in plain if name == b"expect"]
    if expects not in ([], [b"100-continue"]):
        return nothing("expectation")
    target = normal(path)
    if target is None:
        return nothing("path")
    lengths = [value for name, value in plain if name == b"content-length"]
    if lengths and (len(lengths) > 1 or re.fullmatch(rb"[0-9]+", lengths[0]) is None or int(lengths[0]) >= 1 << 64):
        return nothing("content-length")
    data, has_body = b"".join(request.data), not request.ends_with_head
    if lengths and not has_body and int(lengths[0]) > 0:
        return nothing("content-length without a body")
    plain = [(name, value) for name, value in plain if name != b"cookie"] + joined(plain)
    trailers = request.trailers if has_body and not lengths else None
    whole = reading(method, target, host, plain, data, trailers)
    if lengths and has_body and len(data) != int(lengths[0]):
        if len(data) < int(lengths[0]):
            return Expected("broken", None, "content-length is longer than the body")
        short = dataclasses.replace(whole, body=body_of(data[: int(lengths[0])]), trailers=())
        return Expected("broken", short, "content-length is shorter than the body")
    if request.trailers is not None and (why := bad_trailers(request)):
        # Where the length is known, the request is whole before its trailers come.
        return Expected("broken", dataclasses.replace(whole, trailers=()) if lengths else None, why)
    return sized(request, Expected("forward", whole))


def same(text, pseudo):
    default = {b"http": b":80", b"https": b":443"}[pseudo[b":scheme"]]
    return text.lower().removesuffix(default).removesuffix(b":")


def joined(fields):
    """Crumbs of a cookie, as one line; empty ones say nothing."""
    crumbs = [value for name, value in fields if name == b"cookie"]
    return [(b"cookie", b"; ".join(filter(None, crumbs)))] if crumbs else []


def bad_trailers(request):
    if not request.trailers_end:
        return "trailers without END_STREAM"
    for name, value in request.trailers:
        if NAME.fullmatch(name) is None or VALUE.fullmatch(value) is None:
            return "malformed trailer"
        if name in HOP_BY_HOP - {b"trailer"}:
            return "field of a connection in trailers"
    return None


def sized(request, expected):
    """Limits of heads, not to the byte; pseudo-fields may count as fields or not."""
    size = sum(len(name) + len(value) for name, value in request.fields)
    count, path = len(request.fields), len(dict(request.fields)[b":path"])
    if size > 36_000 or count > 105 or path > 8400:
        return nothing("size of the head")
    if size > 28_000 or count > 96 or path > 8000:
        return dataclasses.replace(expected, kind="either")
    return expected


def judge_http1(request):
    """A well-formed request in HTTP/1.1 (see cases.py): its connection options, and what its bytes mean."""
    options = {
        word.strip().lower()
        for name, value in request.fields
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    plain = [(name, value) for name, value in request.fields if name.lower() not in options or is_protected(name)]
    method, target, host = request.method, normal(request.target), request.host
    if absolute := re.fullmatch(rb"http://([^/]*)(/.*)", request.target):
        # The authority of the target takes the place of Host (RFC 9112 section 3.2.2).
        host, target = absolute[1], normal(absolute[2])
    for name, value in request.fields:
        if TOKEN.fullmatch(name) is None:
            return nothing("field name")
        if VALUE.fullmatch(value.strip(b" \t")) is None:
            return nothing("field value")
    if TOKEN.fullmatch(method) is None or len(method) > 32 or (method not in METHODS and method.upper() in METHODS):
        return nothing("method")
    if method in (b"CONNECT", b"TRACE"):
        return nothing("method that is not forwarded")
    if target is None:
        return nothing("path")
    if not is_authority(request.host) or not is_authority(host):
        return nothing("Host")
    tail = [(name.lower(), value) for name, value in request.trailers or []]
    return Expected("forward", reading(method, target, host, plain, request.body, tail))


def is_protected(name):
    """Names that `Connection` cannot remove: those that mean something to whoever receives the content."""
    return name.lower() in PROTECTED


PROTECTED = set(
    b"host expect content-length x-forwarded-for x-forwarded-proto x-forwarded-host x-request-id via forwarded authorization cookie date "
    b"cache-control pragma range if-range if-match if-none-match if-modified-since if-unmodified-since content-type "
    b"content-encoding accept-encoding user-agent referer origin priority early-data grpc-timeout etag vary age".split()
)
