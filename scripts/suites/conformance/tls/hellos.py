"""What a server says to a ClientHello, and to what comes in place of one: name, bytes, and what RFC 8446, 5246 or 6066 allow. docs/testing.md lists where rustls
deviates."""

import os

from wire import (
    ALPN,
    EARLY_DATA,
    GREASE,
    HEARTBEAT,
    HYBRID,
    KEY_SHARE,
    P256,
    PSK,
    PSK_MODES,
    RENEGOTIATION,
    SUITES12,
    SUITES13,
    TLS12,
    TLS13,
    X25519,
    extensions,
    hello,
    numbers,
    point,
    protocols,
    record,
    records,
    server_name,
    share,
    tls12_extensions,
    vector,
)

HELLO, RETRY = {"server hello"}, {"retry request"}
DECODE = {"alert decode_error"}
ILLEGAL = {"alert illegal_parameter"}
UNEXPECTED = {"alert unexpected_message"}
FAILURE = {"alert handshake_failure"}
# A rule that says "MUST NOT be sent", and not which alert it gets.
SOME_ALERT = DECODE | ILLEGAL | UNEXPECTED | FAILURE
# What is too large is not read to its end, so that the alert may be lost with a reset.
TOO_LARGE = {"alert record_overflow", "closed"}


def of(**changes):
    return records(hello(extensions(**changes)))


def of_p256(key):
    return of(groups=vector(2, numbers([P256])), key_share=vector(2, share(P256, key)))


def tls12(listed=(), **options):
    names = {kind for kind, _ in listed}
    usual = [one for one in tls12_extensions() if one[0] not in names]
    return records(hello([*usual, *listed], **{"suites": SUITES12, **options}))


def binders(count=1, size=32):
    identities = b"".join(vector(2, os.urandom(200)) + b"\0\0\0\1" for _ in range(count))
    return vector(2, identities) + vector(2, b"".join(vector(1, bytes(size)) for _ in range(count)))


# The alert is behind a ServerHello, so that only who has the keys can read it; the connection ends.
PROTECTED = {"server hello, closed"}


def cases():
    usual = extensions()
    good = hello()
    yield "as usual", records(good), HELLO
    yield "in records of one byte", records(good, 1), HELLO
    yield "in records of 17 bytes", records(good, 17), HELLO
    yield "TLS 1.2", tls12(), HELLO
    yield "session id of 32 bytes", records(hello(session=os.urandom(32))), HELLO
    yield (
        "unknown suites and extensions beside known ones",
        records(hello([(GREASE, b""), *usual, (0xBEEF, b"x" * 500)], suites=(GREASE, 0x00FF, *SUITES13))),
        HELLO,
    )
    yield "unknown versions beside 1.3", of(versions=vector(1, numbers([GREASE, 0x0305, TLS13]))), HELLO
    yield (
        "unknown group and share beside a known one",
        of(
            groups=vector(2, numbers([GREASE, X25519])),
            key_share=vector(2, share(GREASE, b"x") + share(X25519, os.urandom(32))),
        ),
        HELLO,
    )
    yield "10,000 bytes of padding", records(hello([*usual, (21, bytes(10_000))])), HELLO
    yield "extensions in another order", records(hello(usual[::-1])), HELLO

    # Vectors.
    yield "no suite", records(hello(suites=())), DECODE | ILLEGAL | FAILURE
    yield (
        "suites of an odd length",
        records(b"\1" + vector(3, b"\3\3" + bytes(32) + b"\0" + vector(2, b"\x13\x01\x13") + b"\1\0" + vector(2, b""))),
        DECODE,
    )
    yield "session id of 33 bytes", records(hello(session=os.urandom(33))), DECODE
    yield "no compression method", records(hello(compression=b"")), DECODE | ILLEGAL
    yield "without the null compression", records(hello(compression=b"\1")), ILLEGAL
    yield "bytes behind the extensions", records(hello(tail=b"\0")), DECODE
    yield (
        "no extensions for TLS 1.3",
        records(hello(block=b"", suites=SUITES13)),
        SOME_ALERT | {"alert protocol_version"},
    )
    yield "extensions longer than the message", records(hello(block=b"\xff\xff\0\0")), DECODE
    yield "an extension longer than the block", records(hello(block=vector(2, b"\0\x10\0\xff\0"))), DECODE
    yield "a message of length 0", records(b"\1\0\0\0"), DECODE
    yield "a message of two bytes", records(b"\1\0\0\2\3\3"), DECODE
    yield "an extension twice", records(hello([*usual, usual[0]])), SOME_ALERT
    yield "an unknown extension twice", records(hello([*usual, (0xBEEF, b""), (0xBEEF, b"")])), SOME_ALERT | HELLO
    yield "60,000 bytes", records(hello([*usual, (21, bytes(60_000))])), SOME_ALERT | TOO_LARGE
    yield (
        "a message that says 16 MiB",
        records(b"\1\xff\xff\xff" + bytes(16_000)),
        SOME_ALERT | TOO_LARGE,
    )

    # Versions.
    yield "TLS 1.1 only", tls12(version=0x0302), {"alert protocol_version"}
    yield "TLS 1.0 only", tls12(version=0x0301), {"alert protocol_version"}
    yield "SSL 3.0 only", records(hello(block=b"", version=0x0300, suites=SUITES12)), {"alert protocol_version"}
    yield "supported_versions with 1.1 only", of(versions=vector(1, numbers([0x0302]))), {"alert protocol_version"}
    yield "empty supported_versions", of(versions=b"\0"), DECODE | {"alert protocol_version"}
    yield "supported_versions of an odd length", of(versions=vector(1, b"\3\4\3")), DECODE
    yield "version 3.4 in the old field", tls12(version=0x0304), HELLO
    yield (
        "an old version of records",
        records(good).replace(b"\x16\3\1", b"\x16\3\0", 1),
        HELLO | SOME_ALERT | {"alert protocol_version"},
    )

    # Groups, shares and signatures.
    yield "no share", of(key_share=vector(2, b"")), RETRY
    yield (
        "a share of a group that is not offered here",
        of(groups=vector(2, numbers([30, X25519])), key_share=vector(2, share(30, os.urandom(56)))),
        RETRY,
    )
    yield "no group in common", of(groups=vector(2, numbers([30])), key_share=vector(2, share(30, bytes(56)))), FAILURE
    yield "without key_share", of(key_share=None), {"alert missing_extension"} | FAILURE | ILLEGAL
    yield "without groups", of(groups=None), {"alert missing_extension"} | FAILURE | ILLEGAL
    yield "without signature algorithms", of(signature_algorithms=None), {"alert missing_extension"} | FAILURE
    yield "RSA signatures only", of(signature_algorithms=vector(2, numbers([0x0804, 0x0401]))), PROTECTED
    yield "empty signature algorithms", of(signature_algorithms=vector(2, b"")), DECODE | FAILURE | ILLEGAL
    yield "a share of zeros", of(key_share=vector(2, share(X25519, bytes(32)))), ILLEGAL
    yield "a share of 31 bytes", of(key_share=vector(2, share(X25519, bytes(31)))), ILLEGAL | DECODE
    yield "a share of no bytes", of(key_share=vector(2, share(X25519, b""))), ILLEGAL | DECODE
    yield (
        "two shares of one group",
        of(key_share=vector(2, share(X25519, os.urandom(32)) + share(X25519, os.urandom(32)))),
        ILLEGAL,
    )
    yield "a point of P-256", of_p256(point()), HELLO
    yield "a point that is not on P-256", of_p256(point()[:-1] + b"\0"), ILLEGAL
    yield "a compressed point", of_p256(b"\3" + point()[1:33]), ILLEGAL | DECODE
    yield "the point at infinity", of_p256(b"\0"), ILLEGAL | DECODE
    for what, key in (
        ("too short", bytes(1215)),
        ("whose ML-KEM key has coefficients above the modulus", b"\xff" * 1184 + os.urandom(32)),
        ("whose share of X25519 is of zeros", bytes(1216)),
    ):
        yield (
            f"a share of X25519MLKEM768 {what}",
            of(groups=vector(2, numbers([HYBRID, X25519])), key_share=vector(2, share(HYBRID, key))),
            ILLEGAL | DECODE,
        )
    yield "no suite in common", records(hello(suites=(0x1304, 0x002F))), FAILURE

    # Names and protocols.
    yield "no name", of(server_name=None), HELLO
    yield "an unknown name", of(server_name=server_name(b"nobody.example")), HELLO
    yield "an empty list of names", of(server_name=vector(2, b"")), DECODE | ILLEGAL
    yield "an empty name", of(server_name=server_name(b"")), DECODE | ILLEGAL
    yield "a name with NUL", of(server_name=server_name(b"localhost\0.example")), DECODE | ILLEGAL
    yield "a name with a blank", of(server_name=server_name(b"local host")), DECODE | ILLEGAL
    yield (
        "two names",
        of(server_name=vector(2, b"\0" + vector(2, b"localhost") + b"\0" + vector(2, b"other.example.com"))),
        DECODE | ILLEGAL,
    )
    yield "an unknown kind of name", of(server_name=server_name(b"localhost", 7)), DECODE | ILLEGAL | HELLO
    yield "a name longer than its list", of(server_name=b"\0\4\0\0\x40a"), DECODE
    yield "HTTP/2 and HTTP/1.1", records(hello([*usual, (ALPN, protocols(b"h2", b"http/1.1"))])), HELLO
    yield "no protocol in common", records(hello([*usual, (ALPN, protocols(b"h3"))])), PROTECTED
    yield "an empty list of protocols", records(hello([*usual, (ALPN, protocols())])), DECODE | ILLEGAL
    yield "an empty protocol", records(hello([*usual, (ALPN, protocols(b""))])), DECODE | ILLEGAL
    yield "a protocol longer than its list", records(hello([*usual, (ALPN, b"\0\2\5h")])), DECODE

    # Sessions.
    yield "an unknown ticket", records(hello([*usual, (PSK, binders())])), HELLO
    yield "an unknown ticket and early data", records(hello([*usual, (EARLY_DATA, b""), (PSK, binders())])), HELLO
    yield "a ticket that is not the last extension", records(hello([(PSK, binders()), *usual])), ILLEGAL | DECODE
    yield "more tickets than binders", records(hello([*usual, (PSK, binders(2)[:-33])])), SOME_ALERT
    yield "a binder of no bytes", records(hello([*usual, (PSK, binders(1, 0))])), DECODE | ILLEGAL
    yield (
        "a ticket without modes",
        records(hello([one for one in usual if one[0] != PSK_MODES] + [(PSK, binders())])),
        HELLO | SOME_ALERT | {"alert missing_extension"},
    )
    yield "an unknown ticket of TLS 1.2", tls12(listed=[(35, os.urandom(150))]), HELLO
    yield (
        "renegotiation before there is anything",
        tls12(listed=[(RENEGOTIATION, vector(1, bytes(12)))]),
        FAILURE | HELLO,
    )
    yield "renegotiation that cannot be read", tls12(listed=[(RENEGOTIATION, b"")]), DECODE
    yield "heartbeats", records(hello([*usual, (HEARTBEAT, b"\1")])), HELLO

    # Records, and other messages.
    yield "a record of no bytes", record(b"") + records(good), UNEXPECTED | DECODE | ILLEGAL
    yield "a record of 16,385 bytes", record(bytes(16_385)), SOME_ALERT | TOO_LARGE
    yield "a record of 65,535 bytes", record(bytes(65_535)), SOME_ALERT | TOO_LARGE
    yield "an unknown kind of record", record(b"\1", 200), UNEXPECTED | DECODE
    yield "data", record(b"GET / HTTP/1.1\r\n\r\n", 23), UNEXPECTED | DECODE
    yield "a heartbeat", record(b"\1\x40\0", 24), UNEXPECTED | DECODE
    yield "change_cipher_spec", record(b"\1", 20), UNEXPECTED | DECODE | {"hang"}
    yield "an alert", record(b"\2\x28", 21), {"closed"}
    yield "close_notify", record(b"\1\0", 21), {"closed", "alert close_notify"}
    yield (
        "half a ClientHello and another record",
        record(good[:60]) + record(b"\1\0", 21),
        UNEXPECTED | {"closed"} | DECODE,
    )
    for name, kind in (("HelloRequest", 0), ("ServerHello", 2), ("Certificate", 11), ("Finished", 20), ("KeyUpdate", 24), ("an unknown message", 99)):  # fmt: skip
        yield f"{name} in place of ClientHello", records(bytes([kind]) + vector(3, bytes(32))), UNEXPECTED | DECODE
    yield (
        "a ClientHello of SSL 2.0",
        b"\x80\x2e\1\0\2\0\x15\0\0\0\x10" + bytes(37),
        SOME_ALERT
        | {
            "closed",
            "alert protocol_version",
        },
    )
    yield "compression in TLS 1.3", records(hello(compression=b"\0\1")), ILLEGAL
    yield "the version in the old field only", tls12(version=TLS12), HELLO
    yield (
        "key_share that cannot be read",
        records(hello([*extensions(key_share=None), (KEY_SHARE, b"\0\xff\0")])),
        DECODE,
    )
