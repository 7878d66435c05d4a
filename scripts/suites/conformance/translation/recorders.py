"""Upstreams that read requests as they come and keep the readings: Go's net/http (peers recorder), and the Python library h2, which is strict."""

import contextlib
import json
import re
import socket
import subprocess
import threading
import urllib.request

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from model import Reading, body_of, by_name
from readers import compared_fields, reading_of

DEADLINE = 20


class GoRecorder:
    """net/http, over HTTP/1.1 and HTTP/2, also with TLS. Of trailers it shows those that were announced, and not all others."""

    name, shows_trailers = "go", False

    def __init__(self, peers, protocol, options=()):
        self.protocol = protocol
        self.process = subprocess.Popen([peers, "recorder", *options], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port, self.control = (int(port) for port in re.findall(r":(\d+)", line))

    def take(self):
        """What was read since the last call: whole requests, and how many were not; and what is wrong with any."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.control}/", timeout=DEADLINE) as response:
            records = json.load(response)
        wrong = [f"a request over {one['protocol']}" for one in records if one["protocol"] != self.protocol]
        whole = [reading_of(one) for one in records if one["whole"]]
        return whole, len(records) - len(whole), wrong

    def stop(self):
        self.process.kill()
        self.process.wait()


class StrictRecorder:
    """The library h2, which refuses heads that RFC 9113 does not allow, in clear text."""

    name, shows_trailers = "h2", True

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.whole, self.broken, self.wrong = [], 0, []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, socket):
        config = h2.config.H2Configuration(client_side=False, header_encoding=None, normalize_inbound_headers=False)
        connection, streams = h2.connection.H2Connection(config), {}
        connection.initiate_connection()
        with socket, contextlib.suppress(OSError):
            socket.sendall(connection.data_to_send())
            while data := socket.recv(65536):
                try:
                    for event in connection.receive_data(data):
                        self.handle(connection, streams, event)
                except h2.exceptions.ProtocolError as error:
                    with self.lock:
                        self.wrong.append(f"h2 refuses what came: {error!r}")
                    return
                socket.sendall(connection.data_to_send())

    def handle(self, connection, streams, event):
        match event:
            case h2.events.RequestReceived():
                streams[event.stream_id] = [event.headers, bytearray(), []]
            case h2.events.DataReceived():
                streams[event.stream_id][1] += event.data
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.TrailersReceived():
                streams[event.stream_id][2] = event.headers
            case h2.events.StreamReset():
                with self.lock:
                    self.broken += streams.pop(event.stream_id, None) is not None
            case h2.events.StreamEnded():
                headers, body, trailers = streams.pop(event.stream_id)
                self.end(headers, body, trailers)
                is_head = (b":method", b"HEAD") in headers
                head = [(b":status", b"200"), (b"content-length", b"2")]
                connection.send_headers(event.stream_id, head, end_stream=is_head)
                if not is_head:
                    connection.send_data(event.stream_id, b"ok", end_stream=True)

    def end(self, headers, body, trailers):
        plain = [(bytes(name), bytes(value)) for name, value in headers]
        pseudo = [(name, value) for name, value in plain if name.startswith(b":")]
        fields = [(name, value) for name, value in plain if not name.startswith(b":")]
        length, sha256 = body_of(bytes(body))
        found = dict(pseudo)
        with self.lock:
            names = [name for name, _ in plain[:4]]
            if sorted(names) != [b":authority", b":method", b":path", b":scheme"] or found.get(b":scheme") != b"http":
                self.wrong.append(f"pseudo-fields {pseudo}")
            if any(name == b"host" for name, _ in fields):
                self.wrong.append("Host beside :authority")
            reading = (found.get(b":method"), found.get(b":path"), found.get(b":authority"))
            tail = [(bytes(name), bytes(value)) for name, value in trailers]
            self.whole.append(Reading(*reading, by_name(compared_fields(fields)), (length, sha256), by_name(tail)))

    def take(self):
        with self.lock:
            taken = self.whole, self.broken, self.wrong
            self.whole, self.broken, self.wrong = [], 0, []
        return taken

    def stop(self):
        self.listener.close()
