#!/usr/bin/env python3
"""A real OpenTelemetry Collector takes traces and metrics of a real Weir: what it writes must be what docs/telemetry.md says.

observe.py WEIR COLLECTOR FOLDER starts both, upstreams and a provider of models, sends requests of every kind, and reads the collector's files.
Then the collector is killed and started again.
"""

import http.client
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

DEADLINE = 30
SERVER, CLIENT = 2, 3
UNSET, ERROR = 0, 2
CUMULATIVE = 2
PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
# So few may wait that a collector that is not there costs spans at once.
QUEUE = 40


class Backend(http.server.BaseHTTPRequestHandler):
    """Upstream and provider of models; the first request of /flaky fails, and the response of /cut breaks off."""

    protocol_version = "HTTP/1.1"
    seen, contexts = set(), {}

    def do_GET(self):
        path = self.path.split("?")[0]
        self.contexts.setdefault(path, []).append(self.headers.get("traceparent"))
        if path == "/cut":
            # Less than the head says.
            self.close_connection = True
            return self.respond(200, b"hello", length=10)
        if path == "/flaky" and path not in self.seen:
            self.seen.add(path)
            return self.respond(503, b"")
        status = int(path.rsplit("/", 1)[-1]) if path.startswith("/status/") else 200
        return self.respond(status, b"hello")

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
        body = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "large",
            "choices": [choice],
            "usage": usage,
        }
        self.respond(200, json.dumps(body).encode(), "application/json")

    def respond(self, status, body, kind="text/plain", length=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def free_port():
    with http.server.HTTPServer(("127.0.0.1", 0), Backend) as free:
        return free.server_port


class Collector:
    """The process, on the same port whenever it is started, and what it has written."""

    def __init__(self, program, folder):
        self.program, self.folder, self.port = program, folder, free_port()
        self.files = {signal: folder / f"{signal}.json" for signal in ("traces", "metrics")}
        pipelines = ", ".join(f"{signal}: {{receivers: [otlp], exporters: [lines/{signal}]}}" for signal in self.files)
        exporters = ", ".join(f"lines/{signal}: {{path: '{file}'}}" for signal, file in self.files.items())
        (folder / "collector.yaml").write_text(
            f"receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{self.port}'}}}}}}}}\n"
            f"exporters: {{{exporters}}}\n"
            f"service: {{telemetry: {{metrics: {{level: none}}}}, pipelines: {{{pipelines}}}}}\n"
        )
        self.process = None

    def start(self):
        with (self.folder / "collector.out").open("a") as out:
            command = [self.program, "--config", str(self.folder / "collector.yaml")]
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        wait_for("collector", self.responds)

    def responds(self):
        if self.process.poll() is not None:
            sys.exit(f"the collector ended: {(self.folder / 'collector.out').read_text()[-2000:]}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def stop(self, kill=False):
        if self.process:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait()

    def lines(self, signal):
        """What was written, without a line that a kill cut."""
        file = self.files[signal]
        for line in file.read_text().splitlines() if file.exists() else []:
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def spans(self):
        """Spans, each once, with their attributes as a mapping and those of their resource."""
        found = {}
        for line in self.lines("traces"):
            for resource in line["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        span["at"] = attributes(span)
                        span["resource"], span["scope"] = attributes(resource["resource"]), scope["scope"]
                        found[span["spanId"]] = span
        return list(found.values())

    def metrics(self):
        """The metrics of the last call, by name, and the attributes of their resource."""
        calls = list(self.lines("metrics"))
        if not calls:
            return {}, {}
        resource = calls[-1]["resourceMetrics"][0]
        return {one["name"]: one for one in resource["scopeMetrics"][0]["metrics"]}, attributes(resource["resource"])


def attributes(of):
    """Attributes as a mapping; whole numbers are texts in this form of OTLP."""
    values = {one["key"]: next(iter(one["value"].values())) for one in of.get("attributes", [])}
    return {key: str(value) for key, value in values.items()}


def wait_for(what, find):
    end = time.monotonic() + DEADLINE
    while (found := find()) is None:
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {DEADLINE} s")
        time.sleep(0.05)
    return found


class Checks:
    """Counts what holds, and says what does not."""

    def __init__(self):
        self.passed = self.failed = 0

    def equal(self, name, found, expected):
        if found == expected:
            self.passed += 1
        else:
            self.failed += 1
            print(f"{name}: {found!r} is not {expected!r}")

    def holds(self, name, is_so, found=""):
        self.equal(f"{name} {found}", bool(is_so), True)


def configuration(backend, dead, collector):
    return f"""
listen: 127.0.0.1:0
admin: 127.0.0.1:0
workers: 1
telemetry:
  resource: {{deployment.environment.name: test}}
  traces: {{endpoint: "http://127.0.0.1:{collector}/v1/traces", sample: 100%, every: 50ms, queue: {QUEUE}, batch: 10, timeout: 2s}}
  metrics: {{every: 200ms}}
upstreams:
  app: {{targets: ["http://127.0.0.1:{backend}"], retry: {{on: [connect, 503], extra_attempts: 1, budget: 100%}}, eject: none}}
  dead: {{targets: ["http://127.0.0.1:{dead}"], retry: {{extra_attempts: 0}}, eject: none}}
  empty: {{targets: {{file: targets.yaml}}}}
providers: {{one: {{api: openai, upstream: app}}}}
models: {{m: {{candidates: [{{provider: one, model: large}}]}}}}
routes:
  - {{name: ai, match: {{path: /v1/*}}, ai: {{}}}}
  - {{name: items, match: {{path: "/items/{{id}}"}}, upstream: app}}
  - {{name: flaky, match: {{path: /flaky}}, upstream: app}}
  - {{name: status, match: {{path: /status/*}}, upstream: app}}
  - {{name: cut, match: {{path: /cut}}, upstream: app}}
  - {{name: dead, match: {{path: /dead}}, upstream: dead}}
  - {{name: empty, match: {{path: /empty}}, upstream: empty}}
"""


class Gateway:
    """Weir, its listeners and its counters."""

    def __init__(self, program, folder, variables):
        self.out = folder / "weir.out"
        with self.out.open("w") as out:
            command = [program, "--config", "weir.yaml"]
            self.process = subprocess.Popen(
                command, cwd=folder, stdout=out, stderr=out, env={**os.environ, **variables}
            )

        def said(pattern):
            text = self.out.read_text()
            if self.process.poll() is not None:
                sys.exit(f"weir ended: {text}")
            return re.search(pattern, text)

        self.port = int(wait_for("weir", lambda: said(r"listening on http://127.0.0.1:(\d+)"))[1])
        self.admin = int(wait_for("weir", lambda: said(r"console on http://127.0.0.1:(\d+)"))[1])

    def send(self, method, path, body=None, **fields):
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data=body, headers=fields, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                # One that closes before the end is a client that disconnected.
                response.read()
                return response.status
        except urllib.error.HTTPError as error:
            error.read()
            return error.code
        except (http.client.IncompleteRead, ConnectionResetError):
            return None

    def exposition(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=5) as response:
            return response.read().decode()

    def counter(self, name, *labels):
        """The sum of a family's values with these labels."""
        lines = self.exposition().splitlines()
        of_family = [
            line for line in lines if re.match(rf"{name}[{{ ]", line) and all(label in line for label in labels)
        ]
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in of_family)

    def spans(self):
        """Spans that are accounted for: accepted and dropped ones."""
        return self.counter("telemetry_spans_total"), self.counter("telemetry_dropped_total", 'signal="traces"')


def requests(checks, gateway):
    """One request of each kind, in order; statuses as clients see them, none of a response that breaks off."""
    context = {"traceparent": f"00-{PARENT[0]}-{PARENT[1]}-01", "tracestate": "a=1"}
    chat = json.dumps({"model": "m", "messages": [{"role": "user", "content": "canary"}]}).encode()
    for expected, method, path, body, fields in [
        (200, "GET", "/items/7?page=2&token=canary", None, {**context, "User_Agent": "test/1"}),
        (200, "GET", "/flaky", None, {}),
        (404, "GET", "/nothing", None, {}),
        (404, "GET", "/status/404", None, {}),
        (None, "GET", "/cut", None, {}),
        (502, "GET", "/dead", None, {}),
        (503, "GET", "/empty", None, {}),
        (200, "POST", "/v1/chat/completions", chat, {"Content_Type": "application/json"}),
    ]:
        checks.equal(f"{method} {path}", gateway.send(method, path, body, **fields), expected)


# Of each request: name, status and attributes of its server span, and the same of its client spans in order.
ROWS = {
    "/items/7": (
        (
            "GET /items/{id}",
            UNSET,
            {"http.response.status_code": "200", "http.route": "/items/{id}", "weir.route": "items"},
        ),
        [("GET", UNSET, {"http.response.status_code": "200", "weir.upstream": "app"})],
    ),
    "/flaky": (
        ("GET /flaky", UNSET, {"http.response.status_code": "200"}),
        [
            ("GET", ERROR, {"http.response.status_code": "503", "error.type": "503"}),
            ("GET", UNSET, {"http.response.status_code": "200", "http.request.resend_count": "1"}),
        ],
    ),
    "/nothing": (("GET", UNSET, {"http.response.status_code": "404", "error.type": "not_found"}), []),
    "/status/404": (
        ("GET /status/*", UNSET, {"http.response.status_code": "404"}),
        [("GET", ERROR, {"http.response.status_code": "404", "error.type": "404"})],
    ),
    "/cut": (
        ("GET /cut", UNSET, {"http.response.status_code": "200", "error.type": "body_truncated"}),
        [("GET", ERROR, {"http.response.status_code": "200", "error.type": "body_truncated"})],
    ),
    "/dead": (
        (
            "GET /dead",
            ERROR,
            {"http.response.status_code": "502", "error.type": "connect_failed", "weir.upstream": "dead"},
        ),
        [("GET", ERROR, {"weir.upstream": "dead"})],
    ),
    "/empty": (("GET /empty", ERROR, {"http.response.status_code": "503", "error.type": "unavailable"}), []),
    "/v1/chat/completions": (
        ("POST /v1/*", UNSET, {"http.response.status_code": "200", "weir.route": "ai"}),
        [
            (
                "chat large",
                UNSET,
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "openai",
                    "gen_ai.request.model": "large",
                    "gen_ai.usage.input_tokens": "5",
                    "gen_ai.usage.output_tokens": "7",
                    "weir.provider": "one",
                },
            )
        ],
    ),
}
OF_ALL_SERVERS = {
    "http.request.method": None,
    "url.scheme": "http",
    "server.address": "127.0.0.1",
    "server.port": None,
    "client.address": "127.0.0.1",
    "network.peer.address": "127.0.0.1",
    "network.protocol.version": "1.1",
    "user_agent.original": None,
    "weir.request_id": None,
}


def check_spans(checks, spans, backend, dead):
    resource = {"service.name": "weir", "deployment.environment.name": "test"}
    checks.holds("resource", all(span["resource"].items() >= resource.items() for span in spans), spans[0]["resource"])
    checks.holds("scope", all(span["scope"].get("name") == "weir" for span in spans), spans[0]["scope"])
    checks.holds("no credential and no prompt", "canary" not in json.dumps(spans))
    servers = {span["at"]["url.path"]: span for span in spans if span["kind"] == SERVER}
    checks.equal("server spans", sorted(servers), sorted(ROWS))
    checks.equal("spans", len(spans), sum(1 + len(clients) for _, clients in ROWS.values()))
    for path, (expected, expected_clients) in ROWS.items():
        server = servers.get(path)
        if not server:
            continue
        check_span(checks, f"{path}: server", server, expected)
        for key, value in OF_ALL_SERVERS.items():
            found = server["at"].get(key)
            checks.holds(f"{path}: {key}", found is not None and value in (None, found), found)
        clients = [span for span in spans if span.get("parentSpanId") == server["spanId"]]
        clients.sort(key=lambda span: int(span["startTimeUnixNano"]))
        checks.equal(f"{path}: attempts", len(clients), len(expected_clients))
        for client, of_client in zip(clients, expected_clients, strict=False):
            check_span(checks, f"{path}: attempt", client, of_client)
            checks.equal(f"{path}: kind of the attempt", client["kind"], CLIENT)
            checks.equal(f"{path}: trace of the attempt", client["traceId"], server["traceId"])
            port = str(dead if path == "/dead" else backend)
            target = client["at"].get("server.address"), client["at"].get("server.port")
            checks.equal(f"{path}: target", target, ("127.0.0.1", port))
            times = [
                int(span[f"{at}TimeUnixNano"])
                for span, at in [(server, "start"), (client, "start"), (client, "end"), (server, "end")]
            ]
            checks.equal(f"{path}: times", times, sorted(times))
    items = servers["/items/7"]
    checks.equal("the client's trace", (items["traceId"], items["parentSpanId"]), PARENT)
    checks.equal("the client's state", items.get("traceState"), "a=1")
    checks.equal("the query", items["at"].get("url.query"), "page=2&token=[redacted]")
    checks.equal("the user agent", items["at"].get("user_agent.original"), "test/1")
    roots = [span for path, span in servers.items() if path != "/items/7"]
    checks.holds("all other traces begin here", not any(span.get("parentSpanId") for span in roots))
    checks.equal("each trace is its own", len({span["traceId"] for span in servers.values()}), len(servers))
    for path in ("/items/7", "/flaky"):
        attempts = [
            span for span in spans if span["kind"] == CLIENT and span.get("parentSpanId") == servers[path]["spanId"]
        ]
        told = {f"00-{span['traceId']}-{span['spanId']}-01" for span in attempts}
        checks.equal(f"{path}: what upstreams were told", set(Backend.contexts[path]), told)


def check_span(checks, name, span, expected):
    of_name, status, values = expected
    checks.equal(f"{name}: name", span["name"], of_name)
    checks.equal(f"{name}: status", span.get("status", {}).get("code", UNSET), status)
    found = span["at"]
    for key, value in values.items():
        checks.equal(f"{name}: {key}", found.get(key), value)
    if "error.type" not in values and status == UNSET:
        checks.equal(f"{name}: error.type", found.get("error.type"), None)


# What OpenTelemetry's conventions advise, in seconds.
ADVISED = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]


def check_durations(checks, metrics):
    """One series for each kind of request and attempt, with the attributes of the conventions."""

    def counts(name, *keys):
        points = metrics.get(name, {}).get("histogram", {}).get("dataPoints", [])
        found = [(*(attributes(point).get(key) for key in keys), int(point["count"])) for point in points]
        return sorted(found, key=str)

    server = counts("http.server.request.duration", "http.route", "http.response.status_code", "error.type")
    expected = [
        ("/items/{id}", "200", None, 1),
        ("/flaky", "200", None, 1),
        (None, "404", "not_found", 1),
        ("/status/*", "404", None, 1),
        ("/cut", "200", "body_truncated", 1),
        ("/dead", "502", "connect_failed", 1),
        ("/empty", "503", "unavailable", 1),
        ("/v1/*", "200", None, 1),
    ]
    checks.equal("http.server.request.duration", server, sorted(expected, key=str))
    keys = "http.request.method", "http.response.status_code", "error.type", "network.protocol.version"
    expected = [
        ("GET", "200", None, "1.1", 2),
        ("GET", "503", "503", "1.1", 1),
        ("GET", "404", "404", "1.1", 1),
        ("GET", "200", "body_truncated", "1.1", 1),
        ("GET", None, "connect_failed", None, 1),
        ("POST", "200", None, "1.1", 1),
    ]
    checks.equal(
        "http.client.request.duration", counts("http.client.request.duration", *keys), sorted(expected, key=str)
    )


def check_metrics(checks, gateway, collector, spans):
    def of_route(name, route):
        metric = collector.metrics()[0].get(name, {})
        kind = next((key for key in ("sum", "histogram", "gauge") if key in metric), None)
        points = metric.get(kind, {}).get("dataPoints", []) if kind else []
        return next((point for point in points if attributes(point).get("route") == route), None)

    # A later call has what an earlier one could not have yet.
    wait_for("the metrics of the last request", lambda: of_route("request_duration_seconds", "ai"))
    metrics, resource = collector.metrics()
    checks.equal("service.name of metrics", resource.get("service.name"), "weir")
    checks.equal("environment of metrics", resource.get("deployment.environment.name"), "test")
    families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", gateway.exposition(), re.MULTILINE))
    conventions = ["http.client.request.duration", "http.server.request.duration"]
    checks.equal("names that /metrics does not have", sorted(set(metrics) - set(families)), conventions)
    for name in conventions:
        families[name] = "histogram"
        points = metrics.get(name, {}).get("histogram", {}).get("dataPoints", [])
        checks.equal(f"{name}: unit", metrics.get(name, {}).get("unit"), "s")
        checks.holds(f"{name}: bounds", points and all(point["explicitBounds"] == ADVISED for point in points), points)
    check_durations(checks, metrics)
    checks.holds("most families of /metrics", len(metrics) >= 0.5 * len(families), f"{len(metrics)} of {len(families)}")
    kinds = {"counter": "sum", "histogram": "histogram", "gauge": "gauge"}
    for name, metric in metrics.items():
        kind = kinds[families.get(name, "gauge")]
        checks.holds(f"{name} is a {kind}", kind in metric, sorted(metric))
        if kind != "gauge":
            checks.equal(f"{name}: temporality", metric[kind].get("aggregationTemporality"), CUMULATIVE)
        if kind == "sum":
            checks.equal(f"{name}: monotonic", metric[kind].get("isMonotonic"), True)
    for route in ("items", "flaky", "status", "cut", "dead", "empty", "ai"):
        point = of_route("http_requests_total", route)
        checks.equal(f"http_requests_total of {route}", point and int(point["asInt"]), 1)
    point = of_route("request_duration_seconds", "items")
    checks.equal(
        "request_duration_seconds: count", point and (int(point["count"]), sum(map(int, point["bucketCounts"]))), (1, 1)
    )
    bounds = re.findall(
        r'^request_duration_seconds_bucket\{.*route="items".*le="([^"]+)"', gateway.exposition(), re.MULTILINE
    )
    checks.equal(
        "request_duration_seconds: bounds",
        point and point["explicitBounds"],
        [float(one) for one in bounds if one != "+Inf"],
    )
    traces = {span["traceId"] for span in spans}
    exemplars = point.get("exemplars", []) if point else []
    checks.holds(
        "request_duration_seconds: exemplars lead to traces",
        exemplars and all(one["traceId"] in traces for one in exemplars),
        exemplars,
    )


def check_kill(checks, gateway, collector):
    """A collector that is killed costs spans, which are counted, and no request."""
    made = sum(gateway.spans())
    collector.stop(kill=True)
    count = 0

    def dropped():
        nonlocal count
        for _ in range(20):
            # A request of this path makes two spans.
            checks.equal("a request without a collector", gateway.send("GET", "/items/1"), 200)
            count += 1
        return True if gateway.counter("telemetry_dropped_total", 'reason="queue_full"') else None

    wait_for("spans that are dropped and counted", dropped)
    checks.holds("failed calls are counted", gateway.counter("telemetry_export_failures_total", 'signal="traces"'))
    wait_for(
        "calls with metrics that fail",
        lambda: True if gateway.counter("telemetry_export_failures_total", 'signal="metrics"') else None,
    )
    collector.start()
    for _ in range(5):
        checks.equal("a request after the restart", gateway.send("GET", "/items/restarted"), 200)
        count += 1

    def is_accounted_for():
        # Every span is accepted or dropped at last; a collector that was killed may have taken some without saying so.
        return True if sum(gateway.spans()) == made + 2 * count else None

    wait_for("every span is accounted for", is_accounted_for)
    checks.passed += 1
    # What waited fills the queue, so that spans of the first requests may be lost as well.
    checks.equal("a request at last", gateway.send("GET", "/items/last"), 200)

    def arrived():
        last = [span for span in collector.spans() if span["at"].get("url.path") == "/items/last"]
        return last or None

    wait_for("spans after the restart", arrived)
    checks.passed += 1
    requests_then = gateway.counter("http_requests_total", 'route="items"')

    def metrics_go_on():
        points = collector.metrics()[0]["http_requests_total"]["sum"]["dataPoints"]
        of_items = sum(int(point["asInt"]) for point in points if attributes(point).get("route") == "items")
        return True if of_items == requests_then else None

    wait_for("metrics after the restart, with the requests in between", metrics_go_on)
    checks.passed += 1


def main():
    weir, program, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    collector, gateway, checks, dead = Collector(program, folder), None, Checks(), free_port()
    try:
        collector.start()
        (folder / "targets.yaml").write_text("[]\n")
        (folder / "weir.yaml").write_text(configuration(backend.server_port, dead, collector.port))
        # The file leaves these keys out.
        base = f"http://127.0.0.1:{collector.port}"
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
        gateway = Gateway(weir, folder, variables)
        requests(checks, gateway)
        expected = sum(1 + len(clients) for _, clients in ROWS.values())
        spans = wait_for("the spans", lambda: found if len(found := collector.spans()) >= expected else None)
        check_spans(checks, spans, backend.server_port, dead)
        check_metrics(checks, gateway, collector, spans)
        checks.equal("accepted and dropped", gateway.spans(), (expected, 0))
        check_kill(checks, gateway, collector)
        # What waits when the process ends is sent.
        gateway.send("GET", "/items/end")
        gateway.process.terminate()
        checks.equal("weir ends", gateway.process.wait(DEADLINE), 0)
        ended = lambda: [span for span in collector.spans() if span["at"].get("url.path") == "/items/end"] or None  # noqa: E731
        wait_for("spans of the end", ended)
        checks.passed += 1
    finally:
        if gateway and gateway.process.poll() is None:
            gateway.process.kill()
            gateway.process.wait()
        collector.stop()
    print(f"{checks.passed} passed, {checks.failed} failed, 0 skipped")
    return min(checks.failed, 1)


if __name__ == "__main__":
    sys.exit(main())
