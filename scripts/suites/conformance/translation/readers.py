"""Sends bytes that arrived at an upstream to other parsers, each of which says how it has read them."""

import base64
import contextlib
import json
import re
import socket
import time

from model import Reading, by_name

# A request behind the bytes: read as itself, or something of them was left over.
SENTINEL = b"GET /sentinel HTTP/1.1\r\nHost: sentinel\r\nConnection: close\r\n\r\n"
# Framing, which each reader has resolved, and what nginx writes anew for its own upstream.
NOT_COMPARED = set(b"host content-length transfer-encoding connection keep-alive te trailer".split())
REQUEST_ID = re.compile(rb"[0-9a-f]{32}")


class Reader:
    def __init__(self, name, url, deadline):
        host, port = url.split("//")[1].split(":")
        self.name, self.address, self.deadline = name, (host, int(port)), deadline

    def read(self, data, is_whole=True):
        """The readings of what `data` holds, then "sentinel" or the status that this reader refused it with."""
        received = b""
        with socket.create_connection(self.address, timeout=self.deadline) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(data + SENTINEL if is_whole else data)
                if not is_whole:
                    connection.shutdown(socket.SHUT_WR)
            end = time.monotonic() + self.deadline
            try:
                while piece := connection.recv(65536):
                    received += piece
                    if time.monotonic() > end:
                        return ["hang"]
            except TimeoutError:
                return ["hang"]
            except OSError:
                pass
        return self.results(received)

    def results(self, received):
        results = []
        while received:
            head, separator, received = received.partition(b"\r\n\r\n")
            if not separator or not head.startswith(b"HTTP/1."):
                # The body of an error.
                break
            status, fields = int(head[9:12]), {}
            for line in head.split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                fields[name.lower()] = value.strip()
            if b"x-reading" not in fields:
                results.append(status)
                break
            reading = reading_of(json.loads(base64.b64decode(fields[b"x-reading"])))
            results.append("sentinel" if reading.target == b"/sentinel" else reading)
        return results


def reading_of(found):
    """One reading of a parser, as it has written it in JSON."""
    text = {key: base64.b64decode(found[key]) for key in ("method", "target", "host")}
    pairs = [(base64.b64decode(name), base64.b64decode(value)) for name, value in found["fields"]]
    trailers = [(base64.b64decode(name), base64.b64decode(value)) for name, value in found["trailers"]]
    body = (found["length"], found["sha256"])
    fields = by_name(compared_fields(pairs))
    return Reading(text["method"], text["target"], text["host"], fields, body, by_name(trailers))


def compared_fields(pairs):
    """Fields but framing and an id of the gateway's."""
    fields = [(name, value) for name, value in pairs if name.lower() not in NOT_COMPARED | {b"x-request-id"}]
    ids = [value for name, value in pairs if name.lower() == b"x-request-id"]
    if len(ids) != 1 or REQUEST_ID.fullmatch(ids[0]) is None:
        # One that the gateway has made, or the readings differ from what was expected.
        fields += [(b"x-request-id", value) for value in ids or [b"none"]]
    return fields
