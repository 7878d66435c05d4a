"""Attacks of frames on running gateways: attacks.py PLAIN-URL SECURE-URL PID BOUNDED-PLAIN-URL BOUNDED-PID.

Each attack runs for some seconds on many connections, again on a new one as soon as one has ended. Meanwhile h2load sends ordinary requests.
Held to it: every ordinary request succeeds; each connection of the attack ends with the stated code, or is still open where nothing wrong was sent;
the memory of the gateway stays within 64 MiB of what it was.

Then it runs alone, against this gateway and against one with `server.http2.abuse_per_client`. Held to that: the attacker's address gets as many connections as
its points allow, and no further one a byte; other addresses are served. CPU time, from the third second on, is printed, not judged.
"""

import contextlib
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading
import time

from hpack import Encoder

SECONDS = 4
CONNECTIONS = 8
MEMORY = 64 << 20
plain, secure, pid, bounded, bounded_pid = sys.argv[1:]
# What the bounded gateway allows an address (60-attacks.sh), and a connection.
POINTS, POINTS_OF_CONNECTION = 6000, 200
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
ENHANCE_YOUR_CALM = 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def block(path="/", method="GET"):
    fields = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)]
    return Encoder().encode(fields)


def streams(count):
    return range(1, 2 * count, 2)


def rapid_reset():
    return b"".join(
        frame(HEADERS, END_HEADERS | END_STREAM, n, block()) + frame(RST_STREAM, 0, n, struct.pack(">I", 8))
        for n in streams(1000)
    )


def made_you_reset():
    zero = struct.pack(">I", 0)
    post = block(method="POST")
    return b"".join(frame(HEADERS, END_HEADERS, n, post) + frame(WINDOW_UPDATE, 0, n, zero) for n in streams(300))


def continuation_flood():
    return frame(HEADERS, END_STREAM, 1, block()) + frame(CONTINUATION, 0, 1, b"\x82") * 2000


def hpack_bomb():
    # A field of 4,000 bytes goes into the dynamic table; one byte names it again, 16,000 times in each head.
    large = b"\x40\x01x" + b"\x7f\xa1\x1e" + b"a" * 4000
    bomb = block() + large + b"\xbe" * 12_000
    return b"".join(frame(HEADERS, END_HEADERS | END_STREAM, n, bomb) for n in streams(20))


def ping_flood():
    return frame(PING, 0, 0, b"8 bytes.") * 5000


def settings_flood():
    return frame(SETTINGS, 0, 0) * 5000


def priority_flood():
    return frame(PRIORITY, 0, 1, b"\0\0\0\3\x10") * 5000


def empty_data_flood():
    return frame(HEADERS, END_HEADERS, 1, block(method="POST")) + frame(DATA, 0, 1) * 5000


def window_update_flood():
    return frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 5000


def zero_window():
    """A hundred large responses that nobody takes a byte of."""
    asks = b"".join(frame(HEADERS, END_HEADERS | END_STREAM, n, block("/bytes/10000000")) for n in streams(90))
    return frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) + asks


def one_byte_windows():
    """The same, and each stream gets a byte of credit."""
    one = struct.pack(">I", 1)
    return zero_window() + b"".join(frame(WINDOW_UPDATE, 0, n, one) for n in streams(90))


def slow_bodies():
    """Ninety requests whose bodies do not come."""
    post = block("/sum", "POST")
    return b"".join(frame(HEADERS, END_HEADERS, n, post) + frame(DATA, 0, n, b"x") for n in streams(90))


def code_at_end(connection):
    """The code of the last GOAWAY; None while the connection is open."""
    data, code = b"", None
    try:
        while piece := connection.recv(65536):
            data += piece
            while len(data) >= 9 and len(data) >= 9 + (size := int.from_bytes(data[:3])):
                if data[3] == GOAWAY:
                    code = int.from_bytes(data[13:17])
                data = data[9 + size :]
    except TimeoutError:
        return None
    except OSError:
        return code if code is not None else "reset"
    return code if code is not None else "end"


def address(url):
    host, port = url.split("//")[1].split(":")
    return host, int(port)


def flood(attack, ends, stop, found, url=None, source="127.0.0.1"):
    while not stop.is_set():
        with socket.create_connection(address(url or plain), timeout=5, source_address=(source, 0)) as connection:
            # It may end before all is sent; the GOAWAY is there then.
            with contextlib.suppress(OSError):
                connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + attack)
            found.append(code_at_end(connection) if ends else hold(connection, stop))


def hold(connection, stop):
    """Keeps a connection until the attack is over; None if it is open then."""
    stop.wait(60)
    connection.settimeout(0.1)
    return code_at_end(connection)


def handshakes(_attack, _ends, stop, found, *_):
    """TLS: a hundred connections that stop in their ClientHello, and, one after the other, connections whose ClientHello is not valid."""
    half = bytes([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]) + bytes(100)
    held = []
    while not stop.is_set():
        held.append(socket.create_connection(address(secure), timeout=5))
        held[-1].sendall(half)
        if len(held) > 100:
            held.pop(0).close()
        with socket.create_connection(address(secure), timeout=5) as connection, contextlib.suppress(OSError):
            connection.sendall(b"\x16\x03\x01\x00\x05hello")
            while connection.recv(64):
                pass
    found.append(None)


def memory():
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


def cpu(of=pid):
    fields = pathlib.Path(f"/proc/{of}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def ordinary(url):
    """How many of 500 requests did not get their response."""
    command = ["h2load", "-n", "500", "-c", "2", "-m", "5", f"{url}/bytes/1000"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout
    succeeded = re.search(r"(\d+) succeeded.*\n.*status codes: (\d+) 2xx", said)
    return said if succeeded is None else 500 - min(int(succeeded[1]), int(succeeded[2]))


def run(name, attack, ends, attacker=flood):
    base, used, started = memory(), cpu(), time.monotonic()
    stop, found, peak, wrong, sent = threading.Event(), [], base, [], 0
    threads = [threading.Thread(target=attacker, args=(attack, ends, stop, found)) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    while time.monotonic() - started < SECONDS:
        for url in (plain, secure):
            missing = ordinary(url)
            sent += 500
            peak = max(peak, memory())
            if missing:
                wrong.append(f"{missing} of 500 ordinary requests failed at {url}")
    stop.set()
    for thread in threads:
        thread.join()
    peak = max(peak, memory())
    if peak - base > MEMORY:
        wrong.append(f"memory grew by {(peak - base) >> 20} MiB")
    # A socket that is closed with bytes unread resets the connection, and the GOAWAY can be lost with it.
    expected = (ENHANCE_YOUR_CALM, "reset") if ends else (None,)
    if unexpected := {code for code in found if code not in expected}:
        wrong.append(f"connections ended with {unexpected}")
    if ends and ENHANCE_YOUR_CALM not in found:
        wrong.append("no connection saw ENHANCE_YOUR_CALM")
    seconds = time.monotonic() - started
    share = f"{100 * (cpu() - used) / seconds:.0f} % CPU with the ordinary load"
    print(
        f"{'FAIL' if wrong else 'ok'} {name}: {len(found)} connections, {sent} ordinary requests, +{(peak - base) >> 10} KiB, {share}"
    )
    for line in wrong:
        print(f"     {line}")
    return not wrong


def alone(attack, ends, attacker, url, process, source):
    """Runs an attack without anything beside it. Returns CPU seconds of the gateway by second, from the third on, and how the connections have ended."""
    stop, found = threading.Event(), []
    arguments = (attack, ends, stop, found, url, source)
    threads = [threading.Thread(target=attacker, args=arguments) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    used, started = cpu(process), time.monotonic()
    time.sleep(SECONDS - 2)
    share = (cpu(process) - used) / (time.monotonic() - started)
    stop.set()
    for thread in threads:
        thread.join()
    return share, found


def run_alone(number, name, attack, ends, attacker=flood):
    """The same attack alone, and where an address has a budget; each from an address of its own."""
    wrong, source = [], f"127.0.1.{number + 1}"
    share, found = alone(attack, ends, attacker, plain, pid, source)
    text = f"alone {100 * share:.0f} % CPU, {len(found)} connections"
    if ends:
        before, refused = alone(attack, ends, attacker, bounded, bounded_pid, source)
        # A refused connection is closed without a byte; of those that were begun at the same time some may have been admitted.
        admitted = sum(code in (ENHANCE_YOUR_CALM, 0) for code in refused)
        text += f"; with a budget {100 * before:.0f} % CPU, {admitted} of {len(refused)} connections were admitted"
        if not 1 <= admitted <= POINTS // POINTS_OF_CONNECTION + CONNECTIONS or len(refused) < 2 * admitted:
            wrong.append("not as many as the budget allows")
        if missing := ordinary(bounded):
            wrong.append(f"{missing} of 500 ordinary requests failed beside a refused address")
    print(f"{'FAIL' if wrong else 'ok'} {name}: {text}")
    for line in wrong:
        print(f"     {line}")
    return not wrong


ATTACKS = [
    (rapid_reset, True),
    (made_you_reset, True),
    (continuation_flood, True),
    (hpack_bomb, True),
    (ping_flood, True),
    (settings_flood, True),
    (priority_flood, True),
    (empty_data_flood, True),
    (window_update_flood, True),
    (zero_window, False),
    (one_byte_windows, False),
    (slow_bodies, False),
]
results = [run(attack.__name__, attack(), ends) for attack, ends in ATTACKS]
results.append(run("handshakes", b"", False, handshakes))
results += [run_alone(number, attack.__name__, attack(), ends) for number, (attack, ends) in enumerate(ATTACKS)]
results.append(run_alone(len(ATTACKS), "handshakes", b"", False, handshakes))
print(f"{sum(results)} passed, {len(results) - sum(results)} failed, 0 skipped")
sys.exit(not all(results))
