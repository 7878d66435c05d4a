"""A gateway of one worker, and an upstream that keeps every byte it gets."""

import contextlib
import re
import socket
import subprocess
import threading
import time


class Gateway:
    """Weir with this configuration; ended with `stop`."""

    def __init__(self, program, folder, yaml, scheme="http"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "weir.yaml").write_text(yaml)
        self.log = folder / "weir.out"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen([program, "--config", folder / "weir.yaml"], stdout=out, stderr=out)
        end = time.monotonic() + 60
        while (found := re.search(rf"listening on {scheme}://(\S+):(\d+)", self.log.read_text())) is None:
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the gateway did not start:\n{self.log.read_text()}")
            time.sleep(0.02)
        self.address = found[1], int(found[2])

    def has_panicked(self):
        return "panicked" in self.log.read_text(errors="replace")

    def stop(self):
        self.process.kill()
        self.process.wait()


def request_length(data):
    """Length of the request that `data` begins with; None while it is not complete. Only for requests that the gateway writes: what is odd in
    them is for the other parsers to find."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    head, at = data[:end].lower(), end + 4
    if found := re.search(rb"\r\ncontent-length: *(\d+)", head):
        length = at + int(found[1])
        return length if len(data) >= length else None
    if b"\r\ntransfer-encoding:" not in head:
        return at
    while (line := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line].split(b";")[0] or b"0", 16)
        at = line + 2
        if size == 0:
            end = data.find(b"\r\n\r\n", line)
            return None if end < 0 else end + 4
        at += size + 2
    return None


class Capture:
    """Responds to each request, and keeps what came on each connection."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        # By connection: what has come since the last `take`, and whether the gateway has closed it.
        self.received, self.closed, self.count = {}, set(), 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.count += 1
                number = self.count
            threading.Thread(target=self.serve, args=(number, connection), daemon=True).start()

    def serve(self, number, connection):
        data = b""
        with connection, contextlib.suppress(OSError):
            while piece := connection.recv(65536):
                with self.changed:
                    self.received[number] = self.received.get(number, b"") + piece
                    self.changed.notify_all()
                data += piece
                try:
                    while data and (length := request_length(data)) is not None:
                        data = data[length:]
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Captured: yes\r\n\r\nok")
                except ValueError:
                    # No request that the gateway may write; the parsers see it.
                    break
        with self.changed:
            self.closed.add(number)
            self.changed.notify_all()

    def take(self):
        """What came since the last call, by connection."""
        with self.lock:
            taken, self.received = self.received, {}
        return taken

    def wait_for_more(self, number, seconds):
        """What comes next on a connection: more bytes, or None when the gateway closes it, or False when neither happens in so many seconds."""
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.received or number in self.closed, seconds):
                return False
            return self.received.pop(number, None)
