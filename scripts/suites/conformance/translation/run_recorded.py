"""Requests through the gateway to upstreams over HTTP/2, and over TLS on both sides: run_recorded.py WEIR FOLDER --peers PROGRAM --tls FOLDER
[--seed N] [--cases N] [--only UPSTREAM/PART/NUMBER].

The same cases as those of run_requests.py; an upstream that reads them itself keeps what it has read (recorders.py). It must be exactly the requests that
the documents say, each once, whole or not at all.
"""

import collections
import dataclasses
import pathlib
import sys

import workers
from clients import send_http1
from gateway import Gateway
from model import Expected, judge_http1, judge_http2, nothing, reading
from recorders import GoRecorder, StrictRecorder
from run_requests import http1_case, http2_case, meet, table_cases

HOST = b"a.example"
FENCE = Expected("forward", reading(b"GET", b"/fence", HOST, [], b""))
# Names of the certificate (70-translation.sh); a request for another host is misdirected.
COVERED = {b"a.example", b"b.example", b"a"}
CONFIGURATION = """\
listen: [{listen}]
workers: 1
upstreams:
  u:
    targets: ["{scheme}://localhost:{port}"]
    eject: none
    retry: {{extra_attempts: 0}}
    {upstream}
routes:
  - {{match: {{path: /*}}, upstream: u}}
  - {{match: {{path: /trailers/*}}, trailers: forward, upstream: u}}
"""


def host_of(authority):
    return authority if authority.startswith(b"[") else authority.partition(b":")[0].lower()


def over_tls(expected):
    """What is expected of a case where both sides speak TLS."""
    if expected.reading is None:
        return expected
    host = host_of(expected.reading.host)
    if host.removesuffix(b".") not in COVERED:
        return nothing("421: the certificate does not cover the host")
    fields = tuple(
        (name, (b"https",) if name == b"x-forwarded-proto" else values) for name, values in expected.reading.fields
    )
    kind = "either" if host.endswith(b".") and expected.kind == "forward" else expected.kind
    return dataclasses.replace(expected, kind=kind, reading=dataclasses.replace(expected.reading, fields=fields))


class Rig:
    """A gateway and an upstream that records."""

    def __init__(self, name, chosen, index, recorder, protocol, tls=None):
        self.name, self.recorder, self.tls = name, recorder, tls
        listen, upstream = "{bind: 127.0.0.1:0, http2: prior_knowledge}", f"protocol: {protocol}"
        if tls:
            certificate = f"{{cert: {tls}/translation.pem, key: {tls}/translation.key, default: true}}"
            listen = f"{{bind: 127.0.0.1:0, tls: {{certificates: [{certificate}]}}}}"
            upstream += f"\n    tls: {{roots: {tls}/ca.pem}}"
        scheme = "https" if tls else "http"
        yaml = CONFIGURATION.format(listen=listen, scheme=scheme, port=recorder.port, upstream=upstream)
        self.gateway = Gateway(chosen.weir, pathlib.Path(chosen.folder) / f"{name}-{index}", yaml, scheme)
        self.address = (*self.gateway.address, f"{tls}/ca.pem", "a.example") if tls else self.gateway.address

    def run(self, case):
        """What is wrong with a case, and what was read of it."""
        early, _, wrong = self.recorder.take()
        if early:
            wrong = [*wrong, f"requests behind the end of the case before: {early}"]
        wrong += case.send(self.address)
        fence = self.seen(FENCE)
        wrong += send_http1(b"GET /fence HTTP/1.1\r\nHost: a.example\r\n\r\n", fence)(self.address)
        whole, broken, odd = self.recorder.take()
        expected = [self.shown(one) for one in [*case.expected, fence]]
        wrong += odd + meet(expected, {self.recorder.name: [self.plain(one) for one in whole]})
        if broken and all(one.kind in ("forward", "nothing") for one in case.expected):
            wrong.append(f"{broken} requests arrived that were not whole")
        if self.gateway.has_panicked():
            wrong.append("the gateway panicked")
        return wrong, whole

    def seen(self, expected):
        return over_tls(expected) if self.tls else expected

    def plain(self, one):
        if self.recorder.shows_trailers:
            return one
        # net/http joins the crumbs of a cookie over HTTP/2, as a recipient has to (RFC 9113 section 8.2.3).
        joins = self.recorder.protocol == "HTTP/2.0"
        fields = tuple(
            (name, (b"; ".join(values),) if joins and name == b"cookie" else values) for name, values in one.fields
        )
        return dataclasses.replace(one, fields=fields, trailers=())

    def shown(self, expected):
        return (
            expected
            if expected.reading is None
            else dataclasses.replace(expected, reading=self.plain(expected.reading))
        )

    def cases(self, chosen, index):
        """Those of a worker. Each rig makes its own: what a client does is decided as it sends."""
        judge = self.seen
        for number in range(index, chosen.cases, chosen.workers):
            yield http2_case(chosen.seed, number, lambda request: judge(judge_http2(request)))
        for number in range(index, chosen.cases // 2, chosen.workers):
            yield http1_case(chosen.seed, number, lambda request: judge(judge_http1(request)))
        yield from list(table_cases(judge, has_frames=not self.tls))[index :: chosen.workers]

    def stop(self):
        self.gateway.stop()
        self.recorder.stop()


def rigs(chosen, index):
    tls = ["-cert", f"{chosen.tls}/localhost.pem", "-key", f"{chosen.tls}/localhost.key"]
    yield Rig("h2-go", chosen, index, GoRecorder(chosen.peers, "HTTP/2.0"), "http2")
    yield Rig("h2-strict", chosen, index, StrictRecorder(), "http2")
    yield Rig("tls-h2", chosen, index, GoRecorder(chosen.peers, "HTTP/2.0", tls), "http2", chosen.tls)
    yield Rig("tls-h1", chosen, index, GoRecorder(chosen.peers, "HTTP/1.1", tls), "http1", chosen.tls)


def run_worker(chosen, index):
    for rig in rigs(chosen, index):
        try:
            for case in rig.cases(chosen, index):
                name = f"{rig.name}/{case.name}"
                if chosen.only and name != chosen.only:
                    continue
                wrong, whole = rig.run(case)
                kinds = collections.Counter(expected.kind for expected in case.expected)
                details = {"case": case.note, "expected": case.expected, "arrived": whole} if wrong else {}
                yield name, wrong, details, (rig.name, dict(kinds), len(whole) - 1)
        finally:
            rig.stop()


def main():
    chosen = workers.arguments(1000, peers={"required": True}, tls={"required": True})
    passed, failed, counts, arrived = collections.Counter(), 0, collections.Counter(), collections.Counter()
    for (rig, kinds, count), has_passed in workers.run(chosen, run_worker):
        counts.update({(rig, kind): count for kind, count in kinds.items()})
        arrived[rig] += count
        passed[rig] += has_passed
        failed += not has_passed
    for rig in sorted(passed):
        kinds = ", ".join(f"{count} {kind}" for (of, kind), count in sorted(counts.items()) if of == rig)
        print(f"ok {rig}: {passed[rig]} cases ({kinds}); {arrived[rig]} requests arrived")
    if not chosen.only and not failed and (len(passed) < 4 or not all(arrived.values())):
        print("FAIL nothing arrived: the suite has compared nothing")
        failed += 1
    print(f"{sum(passed.values())} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
