#!/usr/bin/env python3
"""`targets: {kubernetes: ...}` against a real API server: targets.py WEIR, with KUBECONFIG and KUBE_TMP of `scripts/kube shell`

Writes EndpointSlices as the administrator, and waits until Weir, which has the rights of rbac.yaml only, has their ready endpoints as targets.
"""

import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

WEIR, TMP = sys.argv[1], Path(os.environ["KUBE_TMP"])
ADDRESS, SERVER = "10.88.0.1", "https://10.88.0.1:16443"
ADMIN = "127.0.0.1:19901"
CONTEXT = ssl.create_default_context(cafile=TMP / "ca.crt")
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
DEADLINE = 60


def call(method, path, body=None, media="application/json"):
    headers = {"Authorization": "Bearer admin-token", "Content-Type": media}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(SERVER + path, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, context=CONTEXT, timeout=20) as response:
        return json.load(response)


def serve():
    """A target of its own port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer((ADDRESS, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def endpoints(is_ready):
    conditions = {"ready": is_ready, "serving": True, "terminating": not is_ready}
    return [{"addresses": [ADDRESS], "conditions": conditions}]


def create(name, port):
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "orders"}},
        "ports": [{"name": "http", "port": port}],
        "endpoints": endpoints(True),
    }
    call("POST", SLICES, slice_)


def upstream():
    with urllib.request.urlopen(f"http://{ADMIN}/upstreams", timeout=5) as response:
        return json.load(response)[0]


def wait_for(ports):
    expected = [f"{ADDRESS}:{port}" for port in sorted(ports)]
    end = time.monotonic() + DEADLINE
    while True:
        try:
            found = upstream()
            if [target["address"] for target in found["targets"]] == expected and not found["sources"][0]["error"]:
                break
        except OSError as error:
            found = error
        if time.monotonic() > end:
            sys.exit(f"targets: not {expected}: {found}")
        time.sleep(0.05)
    print(f"targets: {expected}", flush=True)


def status():
    try:
        with urllib.request.urlopen("http://127.0.0.1:18080/", timeout=5) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def main():
    kubeconfig = TMP / "weir.kubeconfig"
    admin = Path(os.environ["KUBECONFIG"]).read_text()
    kubeconfig.write_text(admin.replace("token: admin-token", "tokenFile: weir.token"))
    config = TMP / "targets.yaml"
    config.write_text(
        f"listen: 127.0.0.1:18080\nadmin: {ADMIN}\n"
        "upstreams: {u: {targets: {kubernetes: shop/orders:http}}}\n"
        "routes: [{match: {path: /*}, upstream: u}]\n"
    )
    call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    a, b = serve(), serve()
    weir = subprocess.Popen([WEIR, "--config", str(config)], env={**os.environ, "KUBECONFIG": str(kubeconfig)})
    try:
        wait_for([])
        assert status() == 503
        create("orders-a", a)
        wait_for([a])
        assert status() == 200
        create("orders-b", b)
        wait_for([a, b])
        call("PATCH", f"{SLICES}/orders-a", {"endpoints": endpoints(False)}, "application/merge-patch+json")
        wait_for([b])
        assert status() == 200
        call("DELETE", f"{SLICES}/orders-b")
        wait_for([])
        assert status() == 503
    finally:
        weir.terminate()
        weir.wait()


main()
