#!/usr/bin/env python3
"""A real Prometheus scrapes a real Weir: every expression of the rules and of the dashboards must return data.

observe.py WEIR REDIS_PORT FOLDER starts both, an upstream, a provider of models and a collector, sends requests of every kind, and
evaluates. An alert that is silent returns nothing, so of alerts every selector is evaluated instead.
"""

import http.client
import http.server
import json
import re
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEADLINE = 20
EXEMPLARS = ("exemplars", "request_duration_seconds_bucket")
WORDS = "and or unless by without on ignoring group_left group_right bool offset inf nan".split()


class Backend(http.server.BaseHTTPRequestHandler):
    """Upstream, provider of models and collector in one."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status = int(self.path.rsplit("/", 1)[-1]) if "/status/" in self.path else 200
        self.respond(status, b"hello")

    def do_POST(self):
        question = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "completions" not in self.path:
            self.respond(200, b"")
        elif self.headers.get("Authorization") == "Bearer sk-broken-provider-key":
            self.respond(500, b"{}")
        else:
            streams = b'"stream"' in question
            usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
            message = {"role": "assistant", "content": "hi"}
            choice = {"index": 0, "delta" if streams else "message": message, "finish_reason": "stop"}
            kind = "chat.completion.chunk" if streams else "chat.completion"
            sent = json.dumps(
                {"id": "1", "object": kind, "created": 1, "model": "m", "choices": [choice], "usage": usage}
            )
            if streams:
                self.respond(200, f"data: {sent}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")
            else:
                self.respond(200, sent.encode(), "application/json")

    def respond(self, status, body, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def configuration(folder, backend, redis):
    """A gateway with everything that rules and dashboards look at."""
    live = f"http://127.0.0.1:{backend}"
    (folder / "prices.yaml").write_text(
        "currency: USD\nper: 1M\nmodels:\n  broken/m: {input: 1000, output: 1000}\n  good/m: {input: 1000, output: 1000}\n"
    )
    (folder / "api.yaml").write_text(
        "openapi: 3.1.0\ninfo: {title: T, version: '1'}\npaths:\n"
        "  /described: {get: {operationId: described, parameters: [{name: q, in: query, required: true}]}}\n"
    )
    (folder / "targets.yaml").write_text("[]\n")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost"
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return f"""
listen:
  - {{bind: 127.0.0.1:0, http2: prior_knowledge}}
  - {{bind: 127.0.0.1:0, tls: {{certificates: [{{cert: cert.pem, key: key.pem, default: true}}]}}}}
admin: 127.0.0.1:0
workers: 1
access_log: {{path: {folder}/access.log}}
redis: {{url: "redis://127.0.0.1:{redis}", secret: "0123456789abcdef0123456789abcdef"}}
telemetry: {{traces: {{endpoint: "{live}/v1/traces", sample: 100%, every: 100ms}}}}
prices: prices.yaml
upstreams:
  app:
    targets: ["{live}"]
    health: {{path: /health}}
    breaker: {{failures: 99%}}
    balance: ewma
    max_in_flight: 10
    queue: {{size: 10}}
    retry: {{on: [connect, 503], extra_attempts: 1}}
  dead: {{targets: ["http://127.0.0.1:9"], retry: {{extra_attempts: 0}}}}
  models: {{targets: ["{live}"]}}
  listed: {{targets: {{file: targets.yaml}}}}
providers:
  broken: {{api: openai, upstream: models, keys: [sk-broken-provider-key]}}
  good: {{api: openai, upstream: models}}
models:
  m: {{candidates: [{{provider: broken, model: m}}, {{provider: good, model: m, tier: 2}}]}}
limits:
  shared: {{rate: 1000/s, burst: 1000, store: redis}}
  tight: {{algorithm: fixed_window, quota: 1, window: 1h}}
  tokens: {{unit: tokens, algorithm: fixed_window, quota: 100000, window: day}}
caches: {{pages: {{mode: ttl, ttl: 2s, store: [memory, redis]}}}}
auth:
  strict: {{forward: {{url: "http://127.0.0.1:9/", on_failure: deny}}}}
  open: {{forward: {{url: "http://127.0.0.1:9/", on_failure: allow}}}}
  checked: {{forward: {{url: "{live}/ok"}}}}
apis: {{api: {{spec: api.yaml, upstream: app}}}}
routes:
  - {{name: ai, match: {{path: /v1/*}}, ai: {{}}, limits: [tokens]}}
  - {{name: cached, match: {{path: /cached/*}}, upstream: app, cache: pages, limits: [shared]}}
  - {{name: tight, match: {{path: /tight}}, upstream: app, limits: [tight]}}
  - {{name: broken, match: {{path: /broken}}, upstream: dead}}
  - {{name: strict, match: {{path: /strict}}, upstream: app, auth: strict}}
  - {{name: open, match: {{path: /open}}, upstream: app, auth: open}}
  - {{name: checked, match: {{path: /checked}}, upstream: app, auth: checked}}
  - {{name: rest, match: {{path: /*}}, upstream: app}}
"""


def traffic(plain, secure, stop):
    """Requests of every kind, again and again, until the gateway is stopped."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    paths = "/a /cached/1 /cached/2 /tight /broken /strict /open /checked /described /status/500 /status/503".split()
    question = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    while not stop.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", plain, timeout=10)
        for path in paths:
            connection.request("GET", path)
            connection.getresponse().read()
        for body in (question, question | {"stream": True}):
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            connection.getresponse().read()
        connection.close()
        connection = http.client.HTTPSConnection("127.0.0.1", secure, timeout=10, context=context)
        connection.request("GET", "/a")
        connection.getresponse().read()
        connection.close()
        subprocess.run(
            ["curl", "-s", "--http2-prior-knowledge", f"http://127.0.0.1:{plain}/a"], stdout=subprocess.DEVNULL
        )
        stop.wait(0.2)


def wait_for(what, find):
    end = time.monotonic() + DEADLINE
    while (found := find()) is None:
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {DEADLINE} s")
        time.sleep(0.2)
    return found


def get(url):
    """The JSON at a URL; None while nobody responds."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        return json.load(error) if error.code == 400 else None
    except OSError:
        return None


def selectors(expression):
    """Vector selectors of an expression, without their ranges."""
    expression = re.sub(r"\[[^]]*\]", "", expression)
    expression = re.sub(r"\b(by|on|without|ignoring|group_left|group_right) ?\([^)]*\)", " ", expression)
    found = re.finditer(r'([a-zA-Z_:][\w:]*)(\{(?:[^}"]|"[^"]*")*\})?(?![\w:]* *\()', expression)
    return [m[0] for m in found if m[1] not in WORDS and not m[1].isdigit()]


def expressions(prometheus):
    """Name and expression of everything that must return data."""
    for group in get(f"{prometheus}/api/v1/rules")["data"]["groups"]:
        for rule in group["rules"]:
            if rule["type"] == "recording":
                yield f"record {rule['name']}", rule["name"]
            else:
                yield from ((f"alert {rule['name']}", selector) for selector in selectors(rule["query"]))
    for file in sorted((HERE.parent / "grafana").glob("*.json")):
        dashboard = json.loads(file.read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$__rate_interval", "1m")
                yield f"{dashboard['title']}: {panel['title']}", re.sub(r"\$\w+", ".*", expression)


def main():
    weir, redis, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (folder / "weir.yaml").write_text(configuration(folder, server.server_port, redis))
    processes, threads, stop = [], [], threading.Event()
    try:
        with (folder / "weir.out").open("w") as out:
            processes.append(subprocess.Popen([weir, "--config", "weir.yaml"], cwd=folder, stdout=out, stderr=out))
        said = lambda pattern: re.search(pattern, (folder / "weir.out").read_text())  # noqa: E731
        plain = int(wait_for("weir", lambda: said(r"listening on http://127.0.0.1:(\d+)"))[1])
        secure = int(wait_for("weir", lambda: said(r"listening on https://[^:]+:(\d+)"))[1])
        admin = int(wait_for("weir", lambda: said(r"console on http://127.0.0.1:(\d+)"))[1])
        threads.append(threading.Thread(target=traffic, args=(plain, secure, stop), daemon=True))
        threads[0].start()
        scrape = f"{{job_name: weir, scrape_interval: 500ms, scrape_timeout: 500ms, static_configs: [{{targets: ['127.0.0.1:{admin}']}}]}}"
        (folder / "prometheus.yaml").write_text(
            f"global: {{evaluation_interval: 500ms}}\nrule_files: [{HERE}/rules.yaml]\nscrape_configs: [{scrape}]\n"
        )
        # Prometheus does not say which port it got, so it is given one that was free.
        with http.server.HTTPServer(("127.0.0.1", 0), Backend) as free:
            port = free.server_port
        prometheus = f"http://127.0.0.1:{port}"
        arguments = [
            f"--config.file={folder}/prometheus.yaml",
            f"--storage.tsdb.path={folder}/data",
            "--enable-feature=exemplar-storage",
        ]
        with (folder / "prometheus.out").open("w") as out:
            command = ["prometheus", *arguments, f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
            processes.append(subprocess.Popen(command, stdout=out, stderr=out))
        wait_for("prometheus", lambda: get(f"{prometheus}/api/v1/query?query=weir:overhead_seconds:p99"))
        return evaluate(prometheus)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for process in processes:
            process.terminate()
            process.wait()


def evaluated(prometheus, expression):
    """Whether an expression returns data, and what it returned."""
    response = get(f"{prometheus}/api/v1/query?query={urllib.parse.quote(expression)}") or {}
    result = response.get("data", {}).get("result", [])
    # A ratio of nothing is no data either.
    return any(sample["value"][1] != "NaN" for sample in result), response.get("error", result)


def exemplars(prometheus):
    """Whether buckets of durations lead to traces, and what was found."""
    query = urllib.parse.urlencode({"query": EXEMPLARS[1], "start": time.time() - 600, "end": time.time() + 60})
    found = (get(f"{prometheus}/api/v1/query_exemplars?{query}") or {}).get("data", [])
    of_trace = lambda one: re.fullmatch("[0-9a-f]{32}", one["labels"].get("trace_id", ""))  # noqa: E731
    return any(of_trace(one) for series in found for one in series["exemplars"]), found


def evaluate(prometheus):
    """Evaluates until every expression has returned data, or time is over; the number of those that did not."""
    open_ones = [*dict.fromkeys(expressions(prometheus)), EXEMPLARS]
    count, end, last = len(open_ones), time.monotonic() + DEADLINE, {}
    while open_ones and time.monotonic() < end:
        for one in list(open_ones):
            found, last[one] = exemplars(prometheus) if one == EXEMPLARS else evaluated(prometheus, one[1])
            if found:
                open_ones.remove(one)
        time.sleep(0.5)
    for one in open_ones:
        print(f"no data: {one[0]}: {one[1]}: {last[one]}")
    print(f"{count - len(open_ones)} passed, {len(open_ones)} failed, 0 skipped")
    return min(len(open_ones), 1)


if __name__ == "__main__":
    sys.exit(main())
