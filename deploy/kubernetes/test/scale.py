#!/usr/bin/env python3
"""How long changes take in a large cluster: scale.py WEIR GAUGE [FOLDER], with KUBECONFIG and KUBE_TMP of `scripts/kube shell`

1,000 HTTPRoutes to 1,000 Services with 10 endpoints each, and one Service with 10,000 endpoints in slices of 100. Under steady load an endpoint
and a route are changed again and again. A time runs from the moment when the change is sent to the API server to the first response that shows it,
so it has the write to etcd in it. Results go to FOLDER.
"""

import asyncio
import http.client
import json
import multiprocessing
import os
import resource
import select
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TMP = Path(os.environ["KUBE_TMP"])
API, PORT = "10.88.0.1", 16443
CONTEXT = ssl.create_default_context(cafile=TMP / "ca.crt")
GATEWAY, ADMIN, LISTEN = "10.88.1.0", "127.0.0.1:19901", "127.0.0.1:18080"
# All addresses of it are this machine; one process listens on all of them.
ENDPOINTS, ENDPOINT_PORT = "10.90.0.0/16", 9000
ROUTES, LARGE = int(os.environ.get("ROUTES", "1000")), int(os.environ.get("ENDPOINTS", "10000"))
PER_SERVICE, PER_SLICE = 10, 100
# Requests go to every tenth service, so that connections that are kept fit into the limit of files.
LOADED_EVERY, RATE = 10, 500
REPETITIONS = int(os.environ.get("REPETITIONS", "40"))
PAUSE = 0.3
DEADLINE = 120
NAMESPACE = "scale"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
GATEWAY_API = "/apis/gateway.networking.k8s.io/v1"
HTTP_ROUTES = f"{GATEWAY_API}/namespaces/{NAMESPACE}/httproutes"


class Api:
    """One connection to the API server, as the administrator."""

    def __init__(self):
        self.connection = http.client.HTTPSConnection(API, PORT, context=CONTEXT, timeout=60)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, method, path, body=None, media="application/json"):
        headers = {"Authorization": "Bearer admin-token", "Content-Type": media}
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)

    def receive(self):
        response = self.connection.getresponse()
        body = response.read()
        if response.status >= 300:
            sys.exit(f"the API server: {response.status} {body.decode()[:500]}")
        return json.loads(body)

    def call(self, *request, **more):
        self.send(*request, **more)
        return self.receive()

    def has_response(self):
        return bool(self.connection.sock.pending() or select.select([self.connection.sock], [], [], 0)[0])


def serve():
    """Endpoints: every response says which address it came from."""

    class Endpoint(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.rest = transport, b""
            address = transport.get_extra_info("sockname")[0]
            self.response = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Address: {address}\r\n\r\nok".encode()

        def data_received(self, data):
            self.rest += data
            while b"\r\n\r\n" in self.rest:
                self.rest = self.rest.split(b"\r\n\r\n", 1)[1]
                self.transport.write(self.response)

    async def run():
        server = await asyncio.get_running_loop().create_server(Endpoint, "0.0.0.0", ENDPOINT_PORT, backlog=4096)
        await server.serve_forever()

    raise_limit()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(run())


def raise_limit():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def address(block, number):
    """Endpoint `number` of a block: 0 are those of the 1,000 services, 1 those of the large one, 2 spare ones."""
    return f"10.90.{block * 64 + number // 250}.{number % 250 + 1}"


def service(name):
    ports = [{"name": "http", "port": 80, "targetPort": ENDPOINT_PORT}]
    spec = {"clusterIP": "None", "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def endpoint(ip):
    return {"addresses": [ip], "conditions": {"ready": True, "serving": True, "terminating": False}}


def endpoint_slice(name, of, ips):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": of}},
        "ports": [{"name": "http", "port": ENDPOINT_PORT}],
        "endpoints": [endpoint(ip) for ip in ips],
    }


def rules(path, backend, version):
    header = {
        "type": "ResponseHeaderModifier",
        "responseHeaderModifier": {"set": [{"name": "X-Version", "value": version}]},
    }
    match = {"path": {"type": "PathPrefix", "value": path}}
    return [{"matches": [match], "filters": [header], "backendRefs": [{"name": backend, "port": 80}]}]


def route(name, backend):
    spec = {"parentRefs": [{"name": "gateway"}], "rules": rules(f"/{name}", backend, "0")}
    kind = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def objects():
    """Every object with the path where it is created."""
    for number in range(ROUTES):
        name, of_service = f"r{number:04}", f"s{number:04}"
        yield SERVICES, service(of_service)
        ips = [address(0, number * PER_SERVICE + one) for one in range(PER_SERVICE)]
        yield SLICES, endpoint_slice(f"{of_service}-1", of_service, ips)
        yield HTTP_ROUTES, route(name, of_service)
    yield SERVICES, service("large")
    for number in range(LARGE // PER_SLICE):
        ips = [address(1, number * PER_SLICE + one) for one in range(PER_SLICE)]
        yield SLICES, endpoint_slice(f"large-{number:03}", "large", ips)
    yield HTTP_ROUTES, route("large", "large")
    # One endpoint that shows at the first request when it is another.
    yield SERVICES, service("probe")
    yield SLICES, endpoint_slice("probe-1", "probe", [address(2, 0)])
    yield HTTP_ROUTES, route("probe", "probe")


def fill():
    """Writes everything; how many objects."""
    api = Api()
    api.call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kind = {"apiVersion": "gateway.networking.k8s.io/v1"}
    class_ = {
        **kind,
        "kind": "GatewayClass",
        "metadata": {"name": "weir"},
        "spec": {"controllerName": "weir.dev/gateway"},
    }
    api.call("POST", f"{GATEWAY_API}/gatewayclasses", class_)
    spec = {"gatewayClassName": "weir", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]}
    gateway = {**kind, "kind": "Gateway", "metadata": {"name": "gateway"}, "spec": spec}
    api.call("POST", f"{GATEWAY_API}/namespaces/{NAMESPACE}/gateways", gateway)
    all_objects = list(objects())

    def write(part):
        own = Api()
        for path, one in part:
            own.call("POST", path, one)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, [all_objects[start::4] for start in range(4)]))
    return len(all_objects)


class Client:
    """One connection to Weir; the fields of each response."""

    def __init__(self, host, port):
        self.connection = http.client.HTTPConnection(host, port, timeout=10)
        self.host = host
        self.failed = 0

    def get(self, path):
        try:
            self.connection.request("GET", path)
            response = self.connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.failed += 1
            return None
        if response.status != 200:
            self.failed += 1
        return response


def wait_until(what, is_so):
    end = time.monotonic() + DEADLINE
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {DEADLINE} s")
        time.sleep(0.02)


@dataclass
class Row:
    """What was measured of one kind of change."""

    name: str
    bar_ms: float
    # From sending the change, and from the response of the API server, which may come later than the change is in force.
    sent_ms: list[float] = field(default_factory=list)
    written_ms: list[float] = field(default_factory=list)
    load: dict = field(default_factory=dict)
    probes_failed: int = 0
    cpu_ms: float = 0


class Weir:
    """The process, and what it needs."""

    def __init__(self, *command, env=None):
        self.log = (TMP / "scale-weir.log").open("a")
        self.started = time.monotonic()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=env)

    def memory_mib(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return round(int(text.split("VmRSS:")[1].split()[0]) / 1024, 1)

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def measure(row, weir, gauge, targets, client, change, is_in_force):
    """Changes something again and again under load."""
    report = TMP / "load.json"
    duration = REPETITIONS * (PAUSE + 0.25) + 3
    # A client of its own: what it counts as errors are failed requests.
    load = subprocess.Popen(
        [
            gauge,
            "load",
            "--targets",
            str(targets),
            "-r",
            str(RATE),
            "-c",
            "64",
            "-d",
            f"{duration:.0f}s",
            "-q",
            "--json",
            str(report),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(2)
    failed_before, cpu, api = client.failed, weir.cpu_s(), Api()
    for number in range(REPETITIONS):
        begun = time.monotonic()
        change(api, number)
        written, force = None, None
        while force is None:
            response = client.get(is_in_force.path)
            now = time.monotonic()
            if written is None and api.has_response():
                written = now
            if is_in_force(response, number):
                force = now
            elif now - begun > DEADLINE:
                sys.exit(f"{row.name}: change {number} is not in force after {DEADLINE} s")
            else:
                time.sleep(0.0005)
        api.receive()
        written = written or time.monotonic()
        row.sent_ms.append(round((force - begun) * 1000, 2))
        row.written_ms.append(round(max(0.0, force - written) * 1000, 2))
        time.sleep(PAUSE)
    row.cpu_ms = round((weir.cpu_s() - cpu) / REPETITIONS * 1000, 1)
    row.probes_failed = client.failed - failed_before
    load.wait()
    total = json.loads(report.read_text())["total"]
    row.load = {
        "requests": total["requests"]["sent"],
        "no_response": total["requests"]["no_response"],
        "errors": total["errors"]["total"],
    }
    row.load |= {f"latency_{key}": total["latency"][key] for key in ("p50_ms", "p99_ms", "max_ms")}
    print(line(row), flush=True)
    return row


class InForce:
    """A field of a response has the value that was written."""

    def __init__(self, path, name, value):
        self.path, self.name, self.value = path, name, value

    def __call__(self, response, number):
        return response is not None and response.getheader(self.name) == self.value(number)


MERGE = "application/merge-patch+json"


def controller(weir_program, gauge):
    """`weir kubernetes` in bare mode."""
    settings = TMP / "settings.yaml"
    settings.write_text(f"admin: {ADMIN}\n")
    weir = Weir(
        weir_program, "kubernetes", "--config", str(settings), "--server", f"https://{API}:{PORT}", "--ca", str(TMP / "ca.crt"),
        "--token", str(TMP / "weir.token"), "--addresses", "10.88.1.0/24", "--lease", "weir/weir",
    )  # fmt: skip
    rows, facts = [], {}
    try:
        api = Api()
        of_gateway = f"{GATEWAY_API}/namespaces/{NAMESPACE}/gateways/gateway"
        host = None

        def serves():
            nonlocal host
            if weir.process.poll() is not None:
                sys.exit(f"weir ended: {(TMP / 'scale-weir.log').read_text()[-2000:]}")
            addresses = api.call("GET", of_gateway).get("status", {}).get("addresses", [])
            host = addresses[0]["value"] if addresses else None
            return host is not None

        wait_until("the address of the Gateway", serves)
        client = Client(host, 80)
        last = f"/r{ROUTES - 1:04}"
        wait_until("the last route", lambda: getattr(client.get(last), "status", 0) == 200)
        facts["start_s"] = round(time.monotonic() - weir.started, 2)

        def has_statuses():
            listed = api.call("GET", HTTP_ROUTES)["items"]
            return all(one.get("status", {}).get("parents") for one in listed)

        wait_until("statuses of all routes", has_statuses)
        facts["statuses_s"] = round(time.monotonic() - weir.started, 2)
        time.sleep(2)
        facts["memory_mib"], facts["cpu_start_s"] = weir.memory_mib(), round(weir.cpu_s(), 2)
        targets = TMP / "targets.txt"
        paths = [f"/r{number:04}" for number in range(0, ROUTES, LOADED_EVERY)] + ["/large"]
        targets.write_text("".join(f"GET http://{host}{path}\n" for path in paths))
        other = lambda number: address(2, 1 + number % 2)  # noqa: E731

        def change_endpoint(api, number):
            api.send("PATCH", f"{SLICES}/probe-1", {"endpoints": [endpoint(other(number))]}, MERGE)

        seen = InForce("/probe", "X-Address", other)
        rows.append(measure(Row("endpoint", 50), weir, gauge, targets, client, change_endpoint, seen))

        def change_large(api, number):
            # Slices are followed in the order of their changes: when the second is in force, the first is.
            ips = [address(1, one) for one in range(PER_SLICE - 1)] + [address(2, 10 + number)]
            api.call("PATCH", f"{SLICES}/large-000", {"endpoints": [endpoint(ip) for ip in ips]}, MERGE)
            change_endpoint(api, number)

        rows.append(measure(Row("endpoint of the large Service", 50), weir, gauge, targets, client, change_large, seen))

        middle = f"r{ROUTES // 2:04}"

        def change_route(api, number):
            body = {"spec": {"rules": rules(f"/{middle}", f"s{middle[1:]}", str(number + 1))}}
            api.send("PATCH", f"{HTTP_ROUTES}/{middle}", body, MERGE)

        seen = InForce(f"/{middle}", "X-Version", lambda number: str(number + 1))
        rows.append(measure(Row("HTTPRoute", 100), weir, gauge, targets, client, change_route, seen))
        facts["memory_after_mib"] = weir.memory_mib()
    finally:
        weir.stop()
    return rows, facts


def targets_of_service(weir_program, gauge):
    """`targets: {kubernetes: ...}`: the 10,000 endpoints of the large Service in one upstream, hashed, so that one key shows one endpoint."""
    kubeconfig, config = TMP / "weir.kubeconfig", TMP / "scale.yaml"
    kubeconfig.write_text(
        Path(os.environ["KUBECONFIG"]).read_text().replace("token: admin-token", "tokenFile: weir.token")
    )
    config.write_text(
        f"listen: {LISTEN}\nadmin: {ADMIN}\n"
        f"upstreams: {{u: {{targets: {{kubernetes: {NAMESPACE}/large:http}}, balance: {{hash: path}}}}}}\n"
        "routes: [{match: {path: /*}, upstream: u}]\n"
    )
    weir = Weir(weir_program, "--config", str(config), env={**os.environ, "KUBECONFIG": str(kubeconfig)})
    rows, facts = [], {}
    try:
        host, port = LISTEN.split(":")
        client = Client(host, int(port))

        def serves():
            if weir.process.poll() is not None:
                sys.exit(f"weir ended: {(TMP / 'scale-weir.log').read_text()[-2000:]}")
            try:
                with socket.create_connection((host, int(port)), 1):
                    return getattr(client.get("/key"), "status", 0) == 200
            except OSError:
                return False

        wait_until("the endpoints", serves)
        facts["start_s"] = round(time.monotonic() - weir.started, 2)
        time.sleep(2)
        facts["memory_mib"] = weir.memory_mib()
        targets = TMP / "targets.txt"
        targets.write_text("".join(f"GET http://{LISTEN}/{number}\n" for number in range(200)))
        home = client.get("/key").getheader("X-Address")
        slices = {one["metadata"]["name"]: one for one in Api().call("GET", SLICES)["items"]}
        name, ips = next(
            (name, [one["addresses"][0] for one in found["endpoints"]])
            for name, found in slices.items()
            if name.startswith("large-") and home in [one["addresses"][0] for one in found["endpoints"]]
        )

        def change(api, number):
            # The endpoint of this key is not ready any more, and ready again.
            body = [endpoint(ip) for ip in ips]
            body[ips.index(home)]["conditions"]["ready"] = bool(number % 2)
            api.send("PATCH", f"{SLICES}/{name}", {"endpoints": body}, MERGE)

        def moved(response, number):
            return response is not None and (response.getheader("X-Address") == home) == bool(number % 2)

        moved.path = "/key"
        rows.append(measure(Row("targets: {kubernetes: ...}", 50), weir, gauge, targets, client, change, moved))
        facts["memory_after_mib"] = weir.memory_mib()
    finally:
        weir.stop()
    return rows, facts


def figures(times):
    ordered = sorted(times)
    return {
        "median": statistics.median(ordered),
        "p99": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
        "max": ordered[-1],
    }


def line(row):
    sent, written = figures(row.sent_ms), figures(row.written_ms)
    failed = row.load["errors"] + row.load["no_response"] + row.probes_failed
    met = "yes" if sent["max"] <= row.bar_ms and not failed else "no"
    return (
        f"| {row.name} | {len(row.sent_ms)} | {sent['median']:.1f} | {sent['p99']:.1f} | {sent['max']:.1f} | {written['median']:.1f} | {written['max']:.1f} "
        f"| {row.bar_ms:g} | {met} | {failed} of {row.load['requests']} | {row.load['latency_p99_ms']:.1f} | {row.cpu_ms:g} |"
    )


HEAD = """| change | n | median ms | p99 ms | max ms | after the write: median | max | bar ms | met | failed requests | p99 of requests ms | CPU of Weir per change ms |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def main():
    weir, gauge = sys.argv[1], sys.argv[2]
    folder = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    raise_limit()
    subprocess.run(["ip", "route", "add", "local", ENDPOINTS, "dev", "lo"], check=True)
    backend = multiprocessing.get_context("fork").Process(target=serve, daemon=True)
    backend.start()
    busy = os.getloadavg()[0]
    begun = time.monotonic()
    count = fill()
    print(f"{count} objects written in {time.monotonic() - begun:.1f} s", flush=True)
    rows, facts = controller(weir, gauge)
    print(json.dumps(facts), flush=True)
    of_targets, facts_of_targets = targets_of_service(weir, gauge)
    print(json.dumps(facts_of_targets), flush=True)
    rows += of_targets
    backend.terminate()
    sys.path.insert(0, str(ROOT / "benches/gateway"))
    import record

    summary = f"""# Changes in a large cluster

A real kube-apiserver v1.36.3 and etcd v3.6.8 with {ROUTES} HTTPRoutes to {ROUTES} Services of {PER_SERVICE} endpoints each, and one Service with {LARGE} endpoints in slices of {PER_SLICE}; all on one machine of two cores with Weir,
the endpoints and `gauge load` ({RATE} requests/s). Times run from sending the change to the API server to the first response that shows it: the write is in them. A bar is met if the longest time is within it and no request failed.
CPU time per change has that of the requests in between. The load average before the run was {busy:.1f}; the processes ran at nice {os.nice(0)}.

{HEAD}
{chr(10).join(map(line, rows))}

`weir kubernetes`: {facts["start_s"]} s from its start to the first response of the last route, {facts["statuses_s"]} s until all statuses were written, {facts["memory_mib"]} MiB then and {facts["memory_after_mib"]} MiB at the end, {facts["cpu_start_s"]} s of CPU time for the start.
`targets: {{kubernetes: ...}}` with {LARGE} endpoints: {facts_of_targets["start_s"]} s to the first response, {facts_of_targets["memory_mib"]} MiB, {facts_of_targets["memory_after_mib"]} MiB at the end.
"""
    results = {
        "environment": record.environment(),
        "rows": [vars(row) for row in rows],
        "load_average_before": round(busy, 2),
        "nice": os.nice(0),
        "controller": facts,
        "targets": facts_of_targets,
    }
    record.save(folder, results, summary)


if __name__ == "__main__":
    main()
