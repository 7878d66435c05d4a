"""Requests through the gateway, read by three parsers: run_requests.py WEIR FOLDER --reader NAME=URL ... [--seed N] [--cases N] [--only PART/NUMBER].

Clients send requests in frames of HTTP/2, and in HTTP/1.1; what arrives at the upstream is read by each reader. All must read exactly the requests
that the documents say (model.py), each once, and the gateway's client gets an end.
"""

import collections
import contextlib
import dataclasses
import pathlib
import re
import sys

import published
import workers
from cases import Generator, is_plain_http1
from clients import DEADLINE, send_frames, send_http1, send_http2
from gateway import Capture, Gateway, request_length
from model import METHODS, Expected, judge_http1, judge_http2, reading
from readers import Reader

# Streams that one connection of HTTP/2 carries at once.
BATCHES = [1, 1, 1, 1, 1, 3, 6]
# Where only what arrives is compared, clients that say nothing more are not waited for.
IMPATIENT = "server: {head_timeout: 100ms, body_idle_timeout: 100ms, keep_alive: 100ms}\n"
ONCE_FOR_NGINX = b"authorization if-match if-modified-since if-none-match if-range if-unmodified-since range".split()
COMMON = METHODS - {b"CONNECT", b"TRACE"}
FENCE = Expected("forward", reading(b"GET", b"/fence", b"fence", [], b""))
READABLE = {"go": rb".+", "nginx": rb"[A-Z_-]+", "node": rb"[A-Z-]+"}


@dataclasses.dataclass
class Case:
    name: str
    # Sends the case; returns what is wrong with what the client got.
    send: object
    expected: list
    note: str = ""
    # Whether nothing is known but that all readings are alike.
    agreement: bool = False
    # Whether its client does not wait for the end of what it has sent.
    may_be_late: bool = False


class Rig:
    """A gateway with its upstream, and the readers of what arrives there."""

    def __init__(self, weir, folder, readers, extra=""):
        self.capture = Capture()
        self.readers = readers
        self.may_be_late = False
        self.gateway = Gateway(weir, folder, CONFIGURATION.format(port=self.capture.port, extra=extra))

    def run(self, case):
        """What is wrong with a case."""
        early, wrong = self.capture.take(), []
        if self.may_be_late:
            # The client of the case before has closed its connection: the rest of a request that breaks off comes when it comes.
            early = {number: data for number, data in early.items() if case.agreement or whole_requests(data)[0]}
        if early and not (case.agreement and self.may_be_late):
            wrong = [f"bytes behind the end of the case before: {early}"]
        self.may_be_late = case.may_be_late
        wrong += case.send(self.gateway.address)
        has_arrived = bool(self.capture.received)
        expected = case.expected
        if case.agreement or any(one.kind != "forward" for one in expected):
            # What the gateway may still have sent is there before this; and what it left on a connection that it uses again is seen.
            wrong += send_http1(b"GET /fence HTTP/1.1\r\nHost: fence\r\n\r\n", FENCE)(self.gateway.address)
            expected = [*expected, FENCE]
        taken = self.capture.take()
        for number, data in early.items():
            taken[number] = data + taken.get(number, b"")
        wrong += self.compare(case, expected, taken)
        if self.gateway.has_panicked():
            wrong.append("the gateway panicked")
        return wrong, taken, has_arrived

    def compare(self, case, expectations, taken):
        whole, broken, wrong = {}, {}, []
        for number, data in taken.items():
            # Half a request becomes a whole one, or its connection is closed.
            while whole_requests(data)[1] and (more := self.capture.wait_for_more(number, DEADLINE)):
                data += more
            if whole_requests(data)[1] and more is False:
                wrong.append(f"the gateway keeps connection {number} with half a request")
            (broken if whole_requests(data)[1] else whole)[number] = data
        if broken and not case.agreement and all(expected.kind != "broken" for expected in expectations):
            wrong.append(f"half a request arrived: {broken}")
        found = {}
        for reader in self.readers:
            results = []
            for data in whole.values():
                got = reader.read(data)
                if got[-1:] == ["sentinel"]:
                    got.pop()
                elif not is_refused_by_rule(reader, data, got):
                    wrong.append(f"{reader.name} did not read the next request: {got}")
                results += got
            for data in broken.values():
                results += [result for result in reader.read(data, is_whole=False) if not isinstance(result, int)]
            found[reader.name] = results
        return wrong + (agree(found) if case.agreement else meet(expectations, found))


def whole_requests(data):
    """The requests that the gateway wrote one after the other, and what is left."""
    requests = []
    with contextlib.suppress(ValueError):
        while data and (length := request_length(data)) is not None:
            requests.append(data[:length])
            data = data[length:]
    return requests, data


def is_refused_by_rule(reader, data, got):
    """Whether a reader has refused a request by a rule of its own: nginx and llhttp know some methods only, and nginx refuses some fields that come
    twice. That is not a different reading."""
    if not got or not isinstance(got[-1], int) or not 400 <= got[-1] <= 501:
        return False
    for request in whole_requests(data)[0]:
        method = request.split(b" ", 1)[0]
        if re.fullmatch(READABLE[reader.name], method) is None or (reader.name == "node" and method not in COMMON):
            return True
        names = [line.split(b":", 1)[0].lower() for line in request.partition(b"\r\n\r\n")[0].split(b"\r\n")]
        if reader.name == "nginx" and any(names.count(name) > 1 for name in ONCE_FOR_NGINX):
            return True
    return False


def plain(reading, reader):
    """A reading as this reader gives it: nginx passes no trailers on."""
    return dataclasses.replace(reading, trailers=()) if reader == "nginx" else reading


def meet(expectations, found):
    wrong = []
    for reader, results in found.items():
        counts = collections.Counter(result for result in results if not isinstance(result, int))
        refused = sum(isinstance(result, int) for result in results)
        for expected in expectations:
            if expected.reading is None:
                continue
            one = plain(expected.reading, reader)
            if counts[one]:
                counts[one] -= 1
            elif expected.kind == "forward" and not refused:
                wrong.append(f"{reader} did not read {one}")
        wrong += [f"{reader} read {one}" for one in counts.elements()]
    return wrong


def agree(found):
    """All readers read the same; trailers aside, which not all of them show."""
    if any(isinstance(result, int) for results in found.values() for result in results):
        return []
    readings = {
        name: sorted(map(repr, (dataclasses.replace(one, trailers=()) for one in results)))
        for name, results in found.items()
    }
    first = next(iter(readings.values()))
    return [] if all(one == first for one in readings.values()) else [f"readings differ: {readings}"]


def http2_case(seed, number, judge=judge_http2):
    generator = Generator(seed, "h2", number)
    requests = [generator.http2() for _ in range(generator.pick(BATCHES))]
    if any(dict(request.fields).get(b":method") not in COMMON for request in requests):
        # A method that a parser does not know ends what it reads of a connection.
        requests = [request for request in requests if dict(request.fields).get(b":method") not in COMMON][:1]
    expected = [judge(request) for request in requests]
    note = ", ".join(filter(None, [request.note for request in requests]))
    return Case(f"h2/{number}", send_http2(requests, expected, generator.random), expected, f"{note}: {requests}")


def http1_case(seed, number, judge=judge_http1):
    generator = Generator(seed, "h1", number)
    request = generator.http1()
    while not is_plain_http1(request):
        request = generator.http1()
    expected = judge(request)
    text = request.text()
    return Case(
        f"h1/{number}", send_http1(text, expected, request.method), [expected], f"{request.note}: {text[:3000]}"
    )


PIECES = [b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b"0\r\n\r\n", b";", b",", b":", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close, Host, Content-Length\r\n", b"\r\n\r\n", b"\xff", b"\x0b", published.SMUGGLED]  # fmt: skip


def tampered_case(seed, number):
    """A request of HTTP/1.1, or a published one, of which bytes were lost, changed or added: whatever arrives is read alike."""
    generator = Generator(seed, "tampered", number)
    text = generator.http1().text() if generator.some(0.6) else generator.pick(published.REFUSED_HTTP1)[1]
    text = bytearray(text[:2000] + (published.SMUGGLED if generator.some(0.5) else b""))
    generator.tamper(text, 3, len(text), PIECES)
    return Case(f"tampered/{number}", send_http1(bytes(text)), [], repr(bytes(text)), agreement=True, may_be_late=True)


def tampered_http2_case(seed, number):
    """The same with frames: what is lost of them, or changed, is in a frame's head, in HPACK or in what it carries."""
    generator = Generator(seed, "frames", number)
    random = generator.random
    items = [item for stream in (1, 3) for item in generator.http2().frames(stream)]
    data = bytearray(b"".join(items)[:40_000])
    for _ in range(random.randrange(1, 4)):
        # Mostly in the first head.
        at = random.randrange(min(len(data), generator.pick([60, 300, 40_000])))
        kind = random.randrange(3)
        if kind == 0:
            data[at : at + 1] = bytes([data[at] ^ 1 << random.randrange(8)])
        elif kind == 1:
            del data[at : at + random.randrange(1, 3)]
        else:
            data[at : at + 1] = random.randbytes(1)
    return Case(f"frames/{number}", send_frames(bytes(data)), [], repr(bytes(data)), agreement=True, may_be_late=True)


def table_cases(seen=lambda expected: expected, has_frames=True):
    """Published attacks; `seen` changes what is expected where the gateway does not speak clear text."""
    import random

    for name, kind, request in published.HTTP2:
        expected = judge_http2(request)
        assert expected.kind == kind, f"the model says {expected.kind} of: {name}"
        expected = seen(expected)
        yield Case(f"table/{name}", send_http2([request], [expected], random.Random(0)), [expected], repr(request))
    for name, kind, data in published.FRAMES if has_frames else []:
        yield Case(f"table/{name}", send_frames(data), [Expected(kind)], repr(data), may_be_late=True)
    for name, request, before, behind in published.HTTP1:
        expected = judge_http1(request)
        assert expected.kind == "forward", f"the model says {expected.kind} of: {name}"
        expected = seen(expected)
        text = before + request.text() + behind
        yield Case(f"table/{name}", send_http1(text, expected, request.method), [expected], repr(text))


def refused_cases():
    for name, data in published.REFUSED_HTTP1:
        # Of a body that turns out to be malformed, its beginning may have been forwarded: what arrives is never whole.
        kind = "broken" if name.startswith("chunk") else "nothing"
        yield Case(f"refused/{name}", send_http1(data), [Expected(kind)], repr(data))


CONFIGURATION = """\
listen: [{{bind: 127.0.0.1:0, http2: prior_knowledge}}]
workers: 1
{extra}upstreams:
  u: {{targets: ["http://127.0.0.1:{port}"], eject: none, retry: {{extra_attempts: 0}}}}
routes:
  - {{match: {{path: /*}}, upstream: u}}
  - {{match: {{path: /trailers/*}}, trailers: forward, upstream: u}}
"""


def run_worker(chosen, index):
    readers = [Reader(*reader.split("=", 1), DEADLINE) for reader in chosen.reader]
    folder = pathlib.Path(chosen.folder)
    patient = Rig(chosen.weir, folder / f"patient-{index}", readers)
    impatient = Rig(chosen.weir, folder / f"impatient-{index}", readers, IMPATIENT)

    def generated(make, count):
        return (make(chosen.seed, number) for number in range(index, count, chosen.workers))

    groups = [
        (patient, "h2", generated(http2_case, chosen.cases)),
        (patient, "h1", generated(http1_case, chosen.cases // 2)),
        (patient, "table", list(table_cases())[index :: chosen.workers]),
        (impatient, "table", list(refused_cases())[index :: chosen.workers]),
        (impatient, "tampered", generated(tampered_case, chosen.cases // 2)),
        (impatient, "tampered-h2", generated(tampered_http2_case, chosen.cases // 2)),
    ]
    try:
        for rig, group, cases in groups:
            for case in cases:
                if chosen.only and case.name != chosen.only:
                    continue
                wrong, taken, has_arrived = rig.run(case)
                kinds = collections.Counter(expected.kind for expected in case.expected) or {"alike": 1}
                details = {"case": case.note, "expected": case.expected, "arrived": taken} if wrong else {}
                yield case.name, wrong, details, (group, dict(kinds), has_arrived)
    finally:
        patient.gateway.stop()
        impatient.gateway.stop()


def main():
    chosen = workers.arguments(4000, reader={"action": "append", "help": "NAME=URL"})
    passed, failed, counts, arrived = collections.Counter(), 0, collections.Counter(), collections.Counter()
    for (group, kinds, has_arrived), has_passed in workers.run(chosen, run_worker):
        counts.update({(group, kind): count for kind, count in kinds.items()})
        arrived[group] += has_arrived
        passed[group] += has_passed
        failed += not has_passed
    for group in sorted(passed):
        kinds = ", ".join(f"{count} {kind}" for (of, kind), count in sorted(counts.items()) if of == group)
        print(f"ok {group}: {passed[group]} cases ({kinds}); bytes arrived in {arrived[group]}")
    if not chosen.only and not failed and not all(arrived[group] for group in ("h1", "h2", "tampered", "tampered-h2")):
        print("FAIL nothing arrived: the suite has compared nothing")
        failed += 1
    print(f"{sum(passed.values())} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
