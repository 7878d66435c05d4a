"""Handshakes of TLS 1.2 and 1.3 in which one thing is wrong, by tlslite-ng: a message left out, twice, changed or too early, or a record changed."""

import contextlib
import io
import pathlib
import socket

from tlslite.api import HandshakeSettings, TLSConnection, X509CertChain, parsePEMKey
from tlslite.constants import ContentType
from tlslite.errors import BaseTLSException, TLSAbruptCloseError, TLSRemoteAlert
from tlslite.messages import Message
from wire import ALERTS, hello, tls12_extensions, vector

SERVED = {"served"}
MAC, UNEXPECTED, DECRYPT = {"alert bad_record_mac"}, {"alert unexpected_message"}, {"alert decrypt_error"}
DECODE, ILLEGAL = {"alert decode_error"}, {"alert illegal_parameter"}
# rustls ends these without an alert (RFC 8446 section 6.2: SHOULD).
RUSTLS = {"closed"}
REQUEST = b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
V12, V13 = (3, 3), (3, 4)
BOTH = (("TLS 1.2", V12), ("TLS 1.3", V13))


class Wire:
    """A socket whose records can be changed on their way out."""

    def __init__(self, connection, change):
        self.connection, self.change, self.count = connection, change, 0

    def send(self, data):
        self.sendall(data)
        return len(data)

    def sendall(self, data):
        stream, out = io.BytesIO(bytes(data)), b""
        while head := stream.read(5):
            out += self.change(self.count, head + stream.read(int.from_bytes(head[3:5])))
            self.count += 1
        # What a server that has closed said before is there to read.
        with contextlib.suppress(OSError):
            self.connection.sendall(out)

    def __getattr__(self, name):
        return getattr(self.connection, name)


class Client(TLSConnection):
    """`change` gets each message with the name of its class, and returns those that are sent in its place."""

    def __init__(self, connection, change):
        super().__init__(connection)
        self.change = change

    def _sendMsg(self, msg, randomizeFirstBlock=True, update_hashes=True):
        for number, changed in enumerate(self.change(type(msg).__name__, msg)):
            # This side's own transcript has one message of each.
            yield from super()._sendMsg(changed, randomizeFirstBlock, update_hashes and number == 0)

    def say(self, kind, payload):
        """Sends a message of any kind now, and nothing of it counts as one of the handshake."""
        for _ in TLSConnection._sendMsg(self, Message(kind, bytearray(payload)), update_hashes=False):
            pass


def as_it_is(_name, message):
    return [message]


def same_record(_number, record):
    return record


def converse(address, version, change=as_it_is, record=same_record, after=None, name="localhost", certificate=None, session=None, size=None):  # fmt: skip
    """A handshake and a request: what came of it, and the connection."""
    settings = HandshakeSettings()
    settings.minVersion = settings.maxVersion = version
    settings.keyShares = ["x25519"]
    # The library compresses its certificate also where the server has not said that it reads that.
    settings.certificate_compression_send = settings.certificate_compression_receive = []
    with socket.create_connection(address, timeout=10) as connection:
        client = Client(Wire(connection, record), change)
        client.ignoreAbruptClose = True
        if size:
            client.recordSize = size
        try:
            chain, key = certificate or (None, None)
            client.handshakeClientCert(chain, key, session=session, settings=settings, serverName=name)
            if after:
                after(client)
            client.sendall(REQUEST % name.encode())
            received = b""
            while piece := client.read(min=1, max=65536):
                received += piece
            if received:
                return ("served" if received.startswith(b"HTTP/1.1 200") else f"{received[:40]}"), client
            return "closed", client
        except TLSRemoteAlert as alert:
            return f"alert {ALERTS.get(alert.description, alert.description)}", client
        except TLSAbruptCloseError:
            return "closed", client
        except TimeoutError:
            return "hang", client
        except OSError:
            return "closed", client
        except BaseTLSException as error:
            return f"this client: {error!r}", client


def on(wanted, change):
    """Changes messages of one class only."""
    return lambda name, message: change(message) if name == wanted else [message]


def bytes_changed(change):
    """The same message with other bytes."""

    def changed(message):
        return [Message(message.contentType, change(bytearray(message.write())))]

    return changed


def flip(data, at=-1):
    data[at] ^= 1
    return data


def flip_record(number, at):
    """One bit of the record with this number; 0 is the ClientHello."""
    return lambda count, record: bytes(flip(bytearray(record), at)) if count == number else record


def cut_record(number, size):
    return lambda count, record: record[:3] + vector(2, record[5 : 5 + size]) if count == number else record


def handshake(kind, body=b""):
    return bytes([kind]) + vector(3, body)


def say(kind, payload, times=1):
    def after(client):
        for _ in range(times):
            client.say(kind, payload)

    return after


def cases(certificate):
    data, messages, ccs = ContentType.application_data, ContentType.handshake, ContentType.change_cipher_spec
    for name, version in BOTH:
        # In 1.2 the first record with a key is Finished; in 1.3 it is too, behind a change_cipher_spec in clear text.
        finished = 3 if version == V12 else 2
        usual = {"version": version}
        yield f"{name}: as usual", usual, SERVED
        yield f"{name}: in records of 20 bytes", {**usual, "size": 20}, SERVED
        yield f"{name}: Finished changed", {**usual, "change": on("Finished", bytes_changed(flip))}, DECRYPT
        yield (
            f"{name}: Finished of no bytes",
            {
                **usual,
                "change": on("Finished", bytes_changed(lambda _: handshake(20))),
            },
            DECRYPT | DECODE,
        )
        yield (
            f"{name}: Finished with a byte more",
            {
                **usual,
                "change": on("Finished", bytes_changed(lambda all: handshake(20, bytes(all[4:]) + b"\0"))),
            },
            DECRYPT | DECODE,
        )
        yield f"{name}: Finished twice", {**usual, "change": on("Finished", lambda one: [one, one])}, UNEXPECTED | MAC
        yield (
            f"{name}: data in place of Finished",
            {
                **usual,
                "change": on("Finished", lambda _: [Message(data, bytearray(b"GET / HTTP/1.1\r\n\r\n"))]),
            },
            UNEXPECTED,
        )
        yield (
            f"{name}: another message in place of Finished",
            {
                **usual,
                "change": on("Finished", lambda _: [Message(messages, bytearray(handshake(16, bytes(33))))]),
            },
            UNEXPECTED,
        )
        for what, at in (("first", 5), ("middle", 20), ("last", -1)):
            yield (
                f"{name}: the {what} byte of the first protected record",
                {
                    **usual,
                    "record": flip_record(finished, at),
                },
                MAC,
            )
            yield f"{name}: the {what} byte of data", {**usual, "record": flip_record(finished + 1, at)}, MAC
        yield (
            f"{name}: a protected record of no bytes",
            {**usual, "record": cut_record(finished + 1, 0)},
            MAC | DECODE | UNEXPECTED,
        )
        yield f"{name}: a protected record of 10 bytes", {**usual, "record": cut_record(finished + 1, 10)}, MAC | DECODE
        yield f"{name}: data of no bytes before data", {**usual, "after": say(data, b"")}, SERVED
        yield f"{name}: an unknown kind of record", {**usual, "after": say(99, b"x")}, UNEXPECTED | DECODE
        yield f"{name}: a heartbeat", {**usual, "after": say(24, b"\1\0\1x" + bytes(16))}, UNEXPECTED | DECODE
        yield (
            f"{name}: a message of the handshake behind it",
            {**usual, "after": say(messages, handshake(20, bytes(12)))},
            UNEXPECTED,
        )
        yield (
            f"{name}: an unknown message behind the handshake",
            {**usual, "after": say(messages, handshake(99))},
            UNEXPECTED | DECODE,
        )
        yield f"{name}: an alert of an unknown kind", {**usual, "after": say(21, b"\2\xff")}, {"closed"}
        yield f"{name}: 2,000 warnings", {**usual, "after": say(21, b"\1\x5a", 2000)}, UNEXPECTED | {"closed"}
        yield f"{name}: half an alert", {**usual, "after": say(21, b"\1")}, DECODE | UNEXPECTED
        yield f"{name}: a client certificate", {**usual, "name": "mesh.example.com", "certificate": certificate}, SERVED
        with_certificate = {**usual, "name": "mesh.example.com", "certificate": certificate}
        yield (
            f"{name}: CertificateVerify changed",
            {
                **with_certificate,
                "change": on("CertificateVerify", bytes_changed(lambda all: flip(all, -1))),
            },
            DECRYPT | {"alert bad_certificate"} | DECODE,
        )
        yield (
            f"{name}: CertificateVerify of another algorithm",
            {
                **with_certificate,
                "change": on("CertificateVerify", bytes_changed(lambda all: all[:4] + b"\x08\x07" + all[6:])),
            },
            ILLEGAL | DECRYPT | {"alert handshake_failure"} | {"alert bad_certificate"},
        )
        yield (
            f"{name}: without CertificateVerify",
            {**with_certificate, "change": on("CertificateVerify", lambda _: [])},
            UNEXPECTED,
        )
        yield (
            f"{name}: no client certificate",
            {**usual, "name": "mesh.example.com"},
            {
                "alert certificate_required",
                "alert handshake_failure",
            },
        )

    usual = {"version": V12}
    key_exchange = "ClientKeyExchange"
    yield "TLS 1.2: without ClientKeyExchange", {**usual, "change": on(key_exchange, lambda _: [])}, UNEXPECTED
    yield "TLS 1.2: ClientKeyExchange twice", {**usual, "change": on(key_exchange, lambda one: [one, one])}, UNEXPECTED
    for what, body in (("no bytes", b""), ("an empty share", b"\0"), ("a share of zeros", vector(1, bytes(32))), ("31 bytes", vector(1, bytes(31))), ("bytes behind it", vector(1, b"\x09" + bytes(31)) + b"\0")):  # fmt: skip
        yield (
            f"TLS 1.2: ClientKeyExchange with {what}",
            {
                **usual,
                "change": on(key_exchange, bytes_changed(lambda _, body=body: handshake(16, body))),
            },
            ILLEGAL | DECODE | RUSTLS,
        )
    early = Message(ccs, bytearray(b"\1"))
    # CVE-2014-0224.
    yield (
        "TLS 1.2: change_cipher_spec before the keys",
        {**usual, "change": on(key_exchange, lambda one: [early, one])},
        UNEXPECTED,
    )
    yield (
        "TLS 1.2: without change_cipher_spec",
        {**usual, "change": on("ChangeCipherSpec", lambda _: [])},
        UNEXPECTED | DECODE | MAC | RUSTLS,
    )
    yield (
        "TLS 1.2: change_cipher_spec twice",
        {**usual, "change": on("ChangeCipherSpec", lambda one: [one, one])},
        UNEXPECTED | MAC | DECODE,
    )
    yield (
        "TLS 1.2: change_cipher_spec of two bytes",
        {
            **usual,
            "change": on("ChangeCipherSpec", lambda _: [Message(ccs, bytearray(b"\1\1"))]),
        },
        UNEXPECTED | DECODE | ILLEGAL,
    )
    again = hello(tls12_extensions())
    yield "TLS 1.2: renegotiation", {**usual, "after": say(messages, again)}, {"alert no_renegotiation"} | UNEXPECTED
    yield (
        "TLS 1.2: renegotiation 1,000 times",
        {**usual, "after": say(messages, again, 1000)},
        {"alert no_renegotiation", "closed"} | UNEXPECTED,
    )
    yield "TLS 1.2: HelloRequest", {**usual, "after": say(messages, handshake(0))}, UNEXPECTED

    usual = {"version": V13}
    yield (
        "TLS 1.3: KeyUpdate that cannot be read",
        {**usual, "after": say(messages, handshake(24, b"\2"))},
        ILLEGAL | DECODE,
    )
    yield "TLS 1.3: KeyUpdate of no bytes", {**usual, "after": say(messages, handshake(24))}, DECODE
    yield (
        "TLS 1.3: half a KeyUpdate before data",
        {**usual, "after": say(messages, handshake(24, b"\0")[:3])},
        UNEXPECTED | DECODE | RUSTLS,
    )
    yield (
        "TLS 1.3: KeyUpdate and data in one record's keys",
        {
            **usual,
            "after": say(messages, handshake(24, b"\0") + handshake(24, b"\0")),
        },
        UNEXPECTED | MAC | DECODE,
    )
    for what, kind, body in (("ClientHello", 1, again[4:]), ("NewSessionTicket", 4, bytes(20)), ("EndOfEarlyData", 5, b""), ("Certificate", 11, bytes(4)), ("CertificateRequest", 13, bytes(10)), ("CertificateVerify", 15, bytes(8))):  # fmt: skip
        yield (
            f"TLS 1.3: {what} behind the handshake",
            {**usual, "after": say(messages, handshake(kind, body))},
            UNEXPECTED | DECODE,
        )
    yield "TLS 1.3: change_cipher_spec behind the handshake", {**usual, "after": say(ccs, b"\1")}, UNEXPECTED
    yield (
        "TLS 1.3: EndOfEarlyData before Finished",
        {
            **usual,
            "change": on("Finished", lambda one: [Message(messages, bytearray(handshake(5))), one]),
        },
        UNEXPECTED,
    )
    yield "TLS 1.3: keys updated, and requested", {**usual, "after": update_keys}, SERVED


def update_keys(client):
    for kind in (0, 1, 0):
        for _ in client.send_keyupdate_request(kind):
            pass


def resumed(address, version):
    """A second connection with the session of the first: what came of it, and whether it was resumed."""
    first, client = converse(address, version)
    second, again = converse(address, version, session=client.session)
    if (first, second) != ("served", "served"):
        return f"{first}, {second}"
    return "resumed" if again.resumed else "not resumed"


def changed_binder(address):
    """TLS 1.3: a ticket that is known with a binder that is not its own."""
    _, client = converse(address, V13)
    change = on("ClientHello", lambda one: [Message(one.contentType, flip(bytearray(one.write())))])
    return converse(address, V13, change, session=client.session)[0]


def load(folder):
    """The client's certificate and key."""
    folder, chain = pathlib.Path(folder), X509CertChain()
    chain.parsePemList((folder / "client.pem").read_text(encoding="ascii"))
    return chain, parsePEMKey((folder / "client.key").read_text(encoding="ascii"), private=True)
