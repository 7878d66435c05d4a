"""Responses through the gateway: run_responses.py WEIR FOLDER [--seed N] [--cases N] [--only response/NAME].

An HTTP/1.1 upstream sends them byte by byte as responses.py says; a client of HTTP/2 (frames.py) and one of HTTP/1.1 (h11) request each. Both get the
same head, body and trailers, or both an error that cannot pass for a whole response; and the next response on their connection is the next one.
"""

import contextlib
import pathlib
import socket
import sys
import threading
import time

import h11
import workers
from frames import END_HEADERS, END_STREAM, HEADERS, Connection, block, frame
from gateway import Gateway
from responses import Generator, Outcome, passed, table

DEADLINE = 20
CONFIGURATION = """\
listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]
workers: 1
upstreams:
  u: {{targets: ["http://127.0.0.1:{port}"], eject: none, retry: {{extra_attempts: 0}}, timeouts: {{first_byte: 400ms, idle: 400ms}}}}
routes: [{{match: {{path: /*}}, trailers: forward, upstream: u}}]
"""
# A gateway in front of that one, which gets the responses over HTTP/2.
FRONT = """\
listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]
workers: 1
upstreams:
  u: {{targets: ["http://127.0.0.1:{port}"], protocol: http2, eject: none, retry: {{extra_attempts: 0}}}}
routes: [{{match: {{path: /*}}, trailers: forward, upstream: u}}]
"""


class Origin:
    """An upstream that sends the bytes it was given."""

    def __init__(self):
        self.response = None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        data = b""
        with connection, contextlib.suppress(OSError):
            while True:
                while b"\r\n\r\n" not in data:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    data += piece
                head, _, data = data.partition(b"\r\n\r\n")
                path = head.split(b" ")[1]
                if path == b"/case":
                    response = self.response
                    connection.sendall(response.data[: response.cut])
                    connection.sendall(response.data[response.cut :])
                    if response.closes:
                        return
                else:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(path), path))


def fetch_http2(address, method, path, reuse=None):
    connection = reuse or Connection(address, DEADLINE)
    number = 2 * len(connection.streams) + 1
    fields = [
        (b":method", method),
        (b":scheme", b"http"),
        (b":authority", b"a"),
        (b":path", path),
        (b"te", b"trailers"),
    ]
    connection.send(frame(HEADERS, END_HEADERS | END_STREAM, number, block(fields)))
    if not connection.wait([number]):
        return "hang", connection
    response = connection.stream(number)
    if response.broken:
        return f"broken: {response.broken}", connection
    if response.status == 502 or response.status == 504:
        return "error", connection
    if not response.has_ended or response.reset is not None:
        return "error", connection
    interim = tuple((status, passed(fields)) for status, fields in response.interim)
    length = dict(response.fields).get(b"content-length")
    has_none = method == b"HEAD" or response.status in (204, 304)
    if not has_none and length is not None and int(length) != len(response.body):
        return "broken: DATA is not of its length", connection
    forbidden = {name for name, _ in response.fields} & {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"}
    if forbidden:
        return f"broken: {forbidden} in HTTP/2", connection
    outcome = Outcome(
        response.status,
        interim,
        passed(response.fields),
        response.body,
        tuple(sorted(response.trailers)),
        length if has_none else None,
    )
    return outcome, connection


def fetch_http1(address, method, path, reuse=None):
    """By h11, which refuses what is not valid. The connection is None where it ended."""
    client, connection = reuse or (
        h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20),
        socket.create_connection(address, timeout=DEADLINE),
    )
    if reuse:
        client.start_next_cycle()
    body = b"TE: trailers\r\nConnection: TE\r\n"
    client.send(
        h11.Request(method=method, target=path, headers=[("Host", "a"), ("TE", "trailers"), ("Connection", "TE")])
    )
    client.send(h11.EndOfMessage())
    end, interim, head, content, trailers = time.monotonic() + DEADLINE, [], None, b"", ()
    try:
        connection.sendall(b"%s %s HTTP/1.1\r\nHost: a\r\n%s\r\n" % (method, path, body))
        while True:
            event = client.next_event()
            if event is h11.NEED_DATA:
                if time.monotonic() > end:
                    return "hang", None
                client.receive_data(connection.recv(65536))
            elif isinstance(event, h11.InformationalResponse):
                interim.append((event.status_code, passed(event.headers)))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                content += event.data
            elif isinstance(event, h11.EndOfMessage):
                trailers = tuple(sorted((bytes(name), bytes(value)) for name, value in event.headers))
                break
            else:
                return "error", None
    except TimeoutError:
        return "hang", None
    except (OSError, h11.RemoteProtocolError) as error:
        # A response that was cut short, unless the gateway has sent what is not valid.
        text = str(error)
        is_cut = (
            isinstance(error, OSError)
            or "without sending complete message body" in text
            or "unexpectedly" in text
            or "before" in text
        )
        return ("error" if is_cut else f"broken: {text}"), None
    if head.status_code in (502, 504):
        outcome = "error"
    else:
        has_none = method == b"HEAD" or head.status_code in (204, 304)
        length = dict(head.headers).get(b"content-length") if has_none else None
        outcome = Outcome(head.status_code, tuple(interim), passed(head.headers), content, trailers, length)
    is_open = client.our_state is h11.DONE and client.their_state is h11.DONE
    return outcome, (client, connection) if is_open else None


def judge(gateway, origin, response, number):
    origin.response = response
    wrong, outcomes = [], {}
    for name, fetch in (("HTTP/2", fetch_http2), ("HTTP/1.1", fetch_http1)):
        outcome, connection = fetch(gateway.address, response.method, b"/case")
        outcomes[name] = outcome
        if isinstance(outcome, str) and outcome != "error":
            wrong.append(f"{name}: {outcome}")
        if response.expected is not None and outcome != response.expected:
            wrong.append(f"{name} got {str(outcome)[:1500]}")
        # Twice: what was left on one connection to the upstream may show on the second request only.
        for turn in range(2):
            token = b"/next/%d/%d" % (number, turn)
            following, connection = fetch(gateway.address, b"GET", token, connection)
            if not isinstance(following, Outcome) or following.body != token:
                wrong.append(f"{name}: the next response is {following}")
        if connection is not None:
            (connection.close if isinstance(connection, Connection) else connection[1].close)()
    if outcomes["HTTP/2"] != outcomes["HTTP/1.1"]:
        wrong.append(f"the clients differ: {str(outcomes)[:2000]}")
    if gateway.has_panicked():
        wrong.append("the gateway panicked")
    return wrong, outcomes["HTTP/2"]


def cases(seed, count):
    for number, response in enumerate(table()):
        yield number, f"response/{response.name}", response
    for number in range(count):
        yield number, f"response/{number}", Generator(seed, "response", number).some_response()


def run_worker(chosen, index):
    origin = Origin()
    folder = pathlib.Path(chosen.folder)
    back = Gateway(chosen.weir, folder / f"{index}", CONFIGURATION.format(port=origin.port))
    gateways = [back]
    if chosen.hop == "http2":
        front = FRONT.format(port=back.address[1])
        gateways.append(Gateway(chosen.weir, folder / f"{index}-front", front))
    gateway = gateways[-1]
    try:
        for number, name, response in list(cases(chosen.seed, chosen.cases))[index :: chosen.workers]:
            if chosen.only and name != chosen.only:
                continue
            wrong, outcome = judge(gateway, origin, response, number)
            yield name, wrong, {"case": response} if wrong else {}, isinstance(outcome, Outcome)
    finally:
        for gateway in gateways:
            gateway.stop()


def main():
    chosen = workers.arguments(4000, hop={"choices": ["http1", "http2"], "default": "http1"})
    passed_cases, failed, whole = 0, 0, 0
    for is_whole, has_passed in workers.run(chosen, run_worker):
        passed_cases += has_passed
        failed += not has_passed
        whole += is_whole
    print(f"ok responses: {passed_cases} cases; clients got {whole} whole, {passed_cases + failed - whole} errors")
    print(f"{passed_cases} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
