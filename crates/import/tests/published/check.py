"""check.py WEIR FOLDER CONVERTER: configurations that others published (files.json), imported, checked, started and called. FOLDER has the
files, CONVERTER the node_modules with Kong's converter. `--write` writes expected.json anew, `--table` prints the table of docs/import.md,
and a NAME such as `nginx-minio` runs that file alone. Prints, last, "configurations PASSED FAILED"."""

import http.client
import http.server
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading

import fetch

HERE = pathlib.Path(__file__).parent
EXPECTED = HERE / "expected.json"
REQUESTS = HERE / "requests.json"
# How long a gateway may take to listen, with the routes of the largest file in a build without optimisation.
START_S = 30
# Of what a finding is about, as many words as are the original program's own; what follows is somebody's.
TWO_WORDS = {"handler", "plugin", "apps"}

passed = failed = 0


def result(ok, what):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what}")


class Stub(http.server.BaseHTTPRequestHandler):
    """Every upstream: responds with what it was sent, and, as a service that decides, with 401 to requests without credentials."""

    protocol_version = "HTTP/1.1"
    decides = re.compile(r"/(oauth2/auth|auth|api/authz/forward-auth|api/verify)\b")

    def do(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_refused = self.decides.match(self.path) and not self.headers.get("Authorization")
        told = {"fields": dict(self.headers.items())}
        if self.path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": "yes"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            told |= {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [choice],
                "usage": usage,
            }
        body = json.dumps(told).encode()
        self.send_response(401 if is_refused else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Upstream-Path", self.path)
        self.send_header("X-Upstream-Host", self.headers.get("Host", ""))
        self.send_header("Remote-User", "somebody")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


class Upstreams:
    """A server of this process for each address that a configuration names."""

    def __init__(self):
        self.by_address = {}

    def local(self, address):
        if address not in self.by_address:
            server = Server(("127.0.0.1", 0), Stub)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.by_address[address] = server
        return f"http://127.0.0.1:{self.by_address[address].server_address[1]}"

    def close(self):
        for server in self.by_address.values():
            server.shutdown()
            server.server_close()


def local(text, upstreams):
    """The configuration with one listener on a free port, and with upstreams of this process."""
    lines, section, is_skipped = [], "", False
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")):
            section = line.split(":")[0]
            is_skipped = section == "listen"
            if is_skipped:
                lines.append("listen: 127.0.0.1:0")
        if is_skipped:
            continue
        if section in ("upstreams", "auth"):
            # Targets here speak no TLS.
            if re.match(r"    (tls|health): ", line):
                continue
            if not line.lstrip().startswith("#"):
                line = re.sub(r"https?://[^/\s,\]}\"]+", lambda found: upstreams.local(found[0]), line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def environment(text, upstreams):
    """A value for each variable of a file: a key, or where a provider is."""
    variables = dict(os.environ)
    for name in re.findall(r"\$\{([A-Z_a-z0-9]+)", text):
        is_place = name.endswith(("BASE", "URL"))
        variables[name] = f"{upstreams.local(name)}/v1" if is_place else "test"
    return variables


def supporting_files(text, folder):
    """The files with credentials, which the importer names and does not write."""
    for name in re.findall(r"file: \"?([^\s,}\"]+)", text):
        path = folder / name
        if not path.exists() and not name.startswith("/"):
            empty = "[]\n" if path.suffix == ".yaml" else "nobody:$2y$04$" + "a" * 53 + "\n"
            path.write_text(empty)


def keyword(what):
    """The part of a finding that is the original program's word."""
    words = what.split(":")[0].split()
    return " ".join(words[: 2 if words[0] in TWO_WORDS else 1])


def silent(source, findings):
    """Directives of nginx that no finding names: each has to be one that was translated, or that needs no translation."""
    told = " ".join(f"{finding['what']} {finding['how']}" for finding in findings)
    named = set()
    for file in [source, *source.parent.glob("sites-enabled/*")]:
        text = re.sub(r"(^|\s)#.*", "", file.read_text())
        text = re.sub(r"\"[^\"]*\"|'[^']*'", "''", text)
        named |= set(re.findall(r"(?:^|[;{}])\s*([a-z_0-9]+)\b", text))
    # The comments of what is written contain `server`, `http` and the like.
    return sorted(name for name in named if not re.search(rf"\b{name}\b", told))


def summary(report, source, form):
    left_out = {}
    for finding in report["findings"]:
        if finding["kind"] == "left_out":
            left_out[keyword(finding["what"])] = left_out.get(keyword(finding["what"]), 0) + 1
    out = {"exact": report["exact"], "differs": report["differs"], "left_out": dict(sorted(left_out.items()))}
    if form == "nginx":
        out["not_told"] = silent(source, report["findings"])
    return out


class Gateway:
    def __init__(self, weir, config, folder, variables):
        command = [weir, "--config", config]
        self.lines = queue.Queue()
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def address(self):
        """Where it listens; what it said if it does not."""
        said = []
        while True:
            try:
                line = self.lines.get(timeout=START_S)
            except queue.Empty:
                line = None
            if line is None:
                return None, "".join(said)
            said.append(line)
            if found := re.search(r"listening on http://([0-9.:]+)", line):
                return found[1], ""

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)


def call(address, request):
    """What became of `METHOD HOST/PATH`, with further fields and a body: the status, and the path that an upstream saw."""
    method, target = request["send"].split(" ", 1)
    host, path = target.split("/", 1)
    connection = http.client.HTTPConnection(address, timeout=20)
    fields = {"Host": host or "unnamed.example"} | request.get("fields", {})
    connection.putrequest(method, f"/{path}", skip_host=True, skip_accept_encoding=True)
    body = json.dumps(request["body"]).encode() if "body" in request else b""
    if body:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    for name, value in fields.items():
        connection.putheader(name, value)
    connection.endheaders(body or None)
    response = connection.getresponse()
    text = response.read()
    got = {"status": response.status}
    if seen := response.getheader("X-Upstream-Path"):
        expected = request.get("path")
        # Where several upstreams share the requests, any of their paths.
        is_one = isinstance(expected, list) and seen in expected
        got["path"] = expected if is_one else seen
    for name in request.get("upstream", {}):
        received = {key.lower(): value for key, value in json.loads(text).get("fields", {}).items()}
        got.setdefault("upstream", {})[name] = received.get(name.lower())
    for name in request.get("response", {}):
        got.setdefault("response", {})[name] = response.getheader(name)
    connection.close()
    return got


def check(weir, file, cache, converter, requests):
    label = f"{file['format']}-{file['name']}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "source").mkdir()
        source = fetch.prepare(file, cache, folder / "source", converter)
        written = folder / "weir.yaml"
        command = [weir, "import", file["format"], source, "-o", written, "--report", "json"]
        done = subprocess.run(command, capture_output=True, text=True)
        result(done.returncode in (0, 3), f"{label}: exit code {done.returncode}: {done.stderr[:500]}")
        if not written.exists():
            return None
        # What `weir check` says of the file follows the report.
        report, _ = json.JSONDecoder().raw_decode(done.stderr)
        has_left_out = report["left_out"] > 0
        result(
            (done.returncode == 3) == has_left_out,
            f"{label}: exit code {done.returncode}, {report['left_out']} left out",
        )
        text = written.read_text()
        supporting_files(text, folder)
        upstreams = Upstreams()
        variables = environment(text, upstreams)
        checked = subprocess.run([weir, "check", written], capture_output=True, text=True, cwd=folder, env=variables)
        result(checked.returncode == 0, f"{label}: weir check: {checked.stderr[:1000]}")
        config = folder / "local.yaml"
        config.write_text(local(text, upstreams))
        gateway = Gateway(weir, config, folder, variables)
        try:
            address, said = gateway.address()
            result(address is not None, f"{label}: it does not start: {said[:1000]}")
            for request in requests if address else []:
                got = call(address, request)
                wanted = {key: value for key, value in request.items() if key not in ("send", "fields", "body", "why")}
                result(got == wanted, f"{label}: {request['send']}: {got}, not {wanted}")
        finally:
            gateway.stop()
            upstreams.close()
        return summary(report, source, file["format"])


def main():
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    weir, cache, converter = arguments[0], pathlib.Path(arguments[1]), pathlib.Path(arguments[2]).resolve()
    requests = json.loads(REQUESTS.read_text())
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    rows = []
    files = json.loads(fetch.FILES.read_text())
    known = {f"{file['format']}-{file['name']}" for file in files}
    result(set(requests) <= known, f"requests.json names {sorted(set(requests) - known)}")
    for file in files:
        label = f"{file['format']}-{file['name']}"
        if arguments[3:] and label not in arguments[3:]:
            continue
        got = check(weir, file, cache, converter, requests.get(label, []))
        if got is None:
            continue
        if "--write" in sys.argv:
            expected[label] = got
        result(
            got == expected.get(label),
            f"{label}: the report is {json.dumps(got)}, not {json.dumps(expected.get(label))}",
        )
        left_out = sum(got["left_out"].values())
        rows.append(
            (file["format"], f"{file['package'].split(' ')[1]}, {file['path']}", got["exact"], got["differs"], left_out)
        )
    if "--write" in sys.argv:
        lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(expected.items())]
        EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if "--table" in sys.argv:
        for row in rows:
            print("| " + " | ".join(map(str, row)) + " |")
    print(f"configurations {passed} {failed}")
    sys.exit(failed > 0)


main()
