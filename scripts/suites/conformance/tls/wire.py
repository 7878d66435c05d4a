"""A ClientHello put together by hand, and what a server says to bytes: for what no TLS library sends."""

import os
import socket

X25519, P256, P384, HYBRID, GREASE = 29, 23, 24, 0x11EC, 0x1A1A
TLS12, TLS13 = 0x0303, 0x0304
SUITES13, SUITES12 = (0x1301, 0x1302, 0x1303), (0xC02B, 0xC02C, 0xCCA9)
SIGNATURES = (0x0403, 0x0503, 0x0804)
HELLO_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
ALERTS = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    22: "record_overflow",
    40: "handshake_failure",
    42: "bad_certificate",
    43: "unsupported_certificate",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    100: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    112: "unrecognized_name",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}
(SERVER_NAME, GROUPS, POINTS, SIGNATURE_ALGORITHMS, ALPN, TICKET, PSK, EARLY_DATA, VERSIONS, PSK_MODES, KEY_SHARE) = (
    0, 10, 11, 13, 16, 35, 41, 42, 43, 45, 51,
)  # fmt: skip
RENEGOTIATION, EXTENDED_MASTER_SECRET, HEARTBEAT = 0xFF01, 23, 15


def vector(size, data):
    """`data` behind its length in so many bytes."""
    return len(data).to_bytes(size) + data


def numbers(values):
    return b"".join(value.to_bytes(2) for value in values)


def share(group, key):
    return group.to_bytes(2) + vector(2, key)


def server_name(name, kind=0):
    return vector(2, bytes([kind]) + vector(2, name))


def protocols(*names):
    return vector(2, b"".join(vector(1, name) for name in names))


def point():
    """The base point of P-256: on the curve."""
    return bytes.fromhex(
        "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
    )


def extensions(**changes):
    """Those of a usual ClientHello of TLS 1.3, by type; `changes` has bodies for names in lower case, or None to leave one out."""
    body = {
        SERVER_NAME: server_name(b"localhost"),
        GROUPS: vector(2, numbers([X25519, P256, P384])),
        SIGNATURE_ALGORITHMS: vector(2, numbers(SIGNATURES)),
        VERSIONS: vector(1, numbers([TLS13])),
        KEY_SHARE: vector(2, share(X25519, os.urandom(32))),
        PSK_MODES: vector(1, b"\1"),
    }
    for name, changed in changes.items():
        body[globals()[name.upper()]] = changed
    return [(kind, data) for kind, data in body.items() if data is not None]


def tls12_extensions():
    return [
        (SERVER_NAME, server_name(b"localhost")),
        (GROUPS, vector(2, numbers([X25519, P256]))),
        (POINTS, vector(1, b"\0")),
        (SIGNATURE_ALGORITHMS, vector(2, numbers(SIGNATURES))),
        (EXTENDED_MASTER_SECRET, b""),
        (RENEGOTIATION, b"\0"),
    ]


def hello(
    listed=None,
    suites=SUITES13 + SUITES12,
    version=TLS12,
    session=b"",
    compression=b"\0",
    random=None,
    tail=b"",
    block=None,
):
    """A handshake message ClientHello; `listed` are (type, body) of extensions, `block` their bytes in place of that."""
    if block is None:
        listed = extensions() if listed is None else listed
        block = vector(2, b"".join(kind.to_bytes(2) + vector(2, data) for kind, data in listed))
    body = version.to_bytes(2) + (random or os.urandom(32)) + vector(1, session)
    body += vector(2, numbers(suites)) + vector(1, compression) + block + tail
    return b"\1" + vector(3, body)


def record(payload, kind=22, version=0x0301):
    return bytes([kind]) + version.to_bytes(2) + vector(2, payload)


def records(message, size=16_384, kind=22):
    return b"".join(record(message[at : at + size], kind) for at in range(0, len(message), size))


def talk(address, data, to_end=False, seconds=10):
    """Sends bytes and says what comes first, with its payload: "server hello", "retry request", "alert NAME", "closed", "hang". With `to_end` what comes of the
    connection then, too."""
    with socket.create_connection(address, timeout=seconds) as connection:
        received, first = b"", None
        try:
            connection.sendall(data)
            while True:
                if not first and len(received) >= 5 and len(received) >= 5 + (size := int.from_bytes(received[3:5])):
                    first = said(received[0], received[5 : 5 + size])
                    if not to_end:
                        return first
                piece = connection.recv(65536)
                if not piece:
                    break
                received += piece
            outcome = "closed"
        except TimeoutError:
            outcome = "hang"
        except OSError:
            outcome = "closed"
    return (f"{first[0]}, {outcome}", first[1]) if first else (outcome, b"")


def said(kind, payload):
    if kind == 21:
        return f"alert {ALERTS.get(payload[1], payload[1])}", payload
    if kind == 22 and payload[0] == 2:
        return ("retry request" if payload[6:38] == HELLO_RETRY else "server hello"), payload
    if kind == 22:
        return f"handshake message {payload[0]}", payload
    return f"record {kind}", payload
