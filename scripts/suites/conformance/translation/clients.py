"""Clients of the gateway: each function makes one that sends its case, waits for the end, and returns what is wrong with what it got."""

import contextlib
import re
import socket
import time

from frames import Connection, connect

DEADLINE = 20


def send_http2(requests, expectations, random):
    def send(address):
        connection = Connection(address, DEADLINE)
        with contextlib.closing(connection):
            queues = {2 * index + 1: request.frames(2 * index + 1) for index, request in enumerate(requests)}
            # Streams begin in order, and their frames are mixed.
            data = b"".join(queue.pop(0) for queue in queues.values())
            while waiting := [queue for queue in queues.values() if queue]:
                data += random.choice(waiting).pop(0)
            cut = random.choice([0, random.randrange(len(data))])
            connection.send(data[:cut])
            connection.send(data[cut:])
            if not connection.wait(queues):
                return [f"the client hangs: {connection.streams}"]
            return [
                problem
                for number, expected in zip(queues, expectations, strict=True)
                for problem in judge_end(connection, number, expected)
            ]

    return send


def judge_end(connection, number, expected):
    response = connection.stream(number)
    # A response that is complete before its request may be followed by RST_STREAM(NO_ERROR) (RFC 9113 section 8.1).
    is_success = response.has_ended and response.reset in (None, 0) and response.status == 200
    if response.broken:
        return [f"stream {number}: {response.broken}"]
    if expected.kind == "forward" and not is_success:
        return [f"stream {number} did not get its response: {response}, GOAWAY {connection.goaway}"]
    if is_success and (expected.kind == "nothing" or (expected.kind == "broken" and expected.reading is None)):
        return [f"stream {number} got a success: {response}"]
    if response.status >= 500 and response.status not in (501, 505):
        return [f"stream {number}: {response}"]
    return []


def send_frames(data):
    def send(address):
        connection = Connection(address, DEADLINE)
        with contextlib.closing(connection):
            connection.send(data)
            connection.socket.shutdown(socket.SHUT_WR)
            # Whatever comes of it, the connection ends.
            return [] if connection.wait([1]) else [f"the client hangs: {connection.streams}"]

    return send


def send_http1(data, expected=None, method=b"GET"):
    """Sends a request; without an expectation whatever comes until the gateway closes is read."""

    def send(address):
        received = b""
        with connect(address, DEADLINE, "http/1.1") as connection:
            with contextlib.suppress(OSError):
                connection.sendall(data)
            end = time.monotonic() + DEADLINE
            try:
                while piece := connection.recv(65536):
                    received += piece
                    if expected is not None and is_whole(received, method):
                        break
                    if time.monotonic() > end:
                        return ["the client hangs"]
            except TimeoutError:
                return [f"the client hangs: {received}"]
            except OSError:
                pass
        if expected is None:
            return []
        # Interim responses come before the final one.
        statuses = [int(status) for status in re.findall(rb"(?:^|\r\n\r\n)HTTP/1\.1 (\d+)", received)]
        final = [status for status in statuses if status >= 200]
        is_success = final == [200]
        if (expected.kind == "forward") != is_success and expected.kind != "either":
            return [f"{expected.kind}, but the client got {received[:300]}"]
        if any(status >= 500 and status not in (501, 505) for status in statuses):
            return [f"the client got {received[:300]}"]
        return []

    return send


def is_whole(received, method):
    """Whether a final response is complete; the gateway's have a length here."""
    while received.startswith(b"HTTP/1.1 1"):
        received = received.partition(b"\r\n\r\n")[2]
    head, separator, rest = received.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
    return bool(separator) and (method == b"HEAD" or length is None or len(rest) >= int(length[1]))
