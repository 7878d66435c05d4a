#!/usr/bin/env python3
"""Services of Gateways on a real API server: services.py WEIR TOOL, with KUBE_TMP of `scripts/kube shell`

Applies what the chart renders with `mode: gateway`, and runs its command with a token that has the rights of the chart's service account and no
others. Gateways and the status of a load balancer are written by the administrator.
"""

import http.client
import re
import signal
import subprocess
import sys
import time

from api import CORE, GATEWAY_API, NAMESPACE, SERVER, TMP, apply, call, create_namespace, render

WEIR, TOOL = sys.argv[1:3]
SERVICES = f"{CORE}/namespaces/{NAMESPACE}/services"
GATEWAYS = f"{GATEWAY_API}/namespaces/shop/gateways"
ROUTES = f"{GATEWAY_API}/namespaces/shop/httproutes"
DEADLINE = 90
MERGE = "application/merge-patch+json"


class Replica:
    """A process with the command of the chart's pod, on an address of its own."""

    def __init__(self, number, arguments, configuration):
        self.address, self.log = f"127.0.0.{number}", TMP / f"weir-{number}.log"
        config = TMP / f"weir-{number}.yaml"
        config.write_text(configuration.replace("0.0.0.0:9901", f"{self.address}:9901"))
        arguments = [re.sub(r"^--config=.*", f"--config={config}", argument) for argument in arguments]
        access = ["--server", SERVER, "--ca", TMP / "ca.crt", "--token", TMP / "chart.token", "--bind", self.address]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([WEIR, *arguments, *access], stdout=log, stderr=log)

    def status(self, port):
        """Status of a request to a port of the pod; None: nothing listens there."""
        connection = http.client.HTTPConnection(self.address, port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        except ConnectionError:
            return None
        finally:
            connection.close()

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)


def until(what, holds):
    end = time.monotonic() + DEADLINE
    while True:
        found = holds()
        if found:
            print(f"services: {what}", flush=True)
            return found
        if time.monotonic() > end:
            sys.exit(f"services: not within {DEADLINE} s: {what}: {services()} {statuses()}")
        time.sleep(0.05)


def services():
    """Services of Gateways: ports by the name of the Gateway."""
    found = call("GET", f"{SERVICES}?labelSelector=app.kubernetes.io%2Fmanaged-by%3Dweir")["items"]
    name = "gateway.networking.k8s.io/gateway-name"
    ports = {one["metadata"]["labels"][name]: one["spec"]["ports"] for one in found}
    return {name: {one["port"]: one["targetPort"] for one in list_} for name, list_ in ports.items()}


def service(gateway):
    label = f"gateway.networking.k8s.io%2Fgateway-name%3D{gateway}"
    return call("GET", f"{SERVICES}?labelSelector={label}")["items"][0]


def statuses():
    """Reason of `Programmed`, and addresses, by the name of the Gateway."""

    def one(gateway):
        status = gateway.get("status", {})
        reasons = [one["reason"] for one in status.get("conditions", []) if one["type"] == "Programmed"]
        return (reasons or [None])[0], [address["value"] for address in status.get("addresses", [])]

    return {found["metadata"]["name"]: one(found) for found in call("GET", GATEWAYS)["items"]}


def class_conditions():
    status = call("GET", f"{GATEWAY_API}/gatewayclasses/weir").get("status", {})
    return {(one["type"], one["status"]) for one in status.get("conditions", [])}


def create_gateway(name, *ports):
    listeners = [{"name": f"p{port}", "port": port, "protocol": "HTTP"} for port in ports]
    spec = {
        "gatewayClassName": "weir",
        "listeners": listeners,
        "infrastructure": {"annotations": {"example.com/internal": "true"}},
    }
    meta = {"apiVersion": "gateway.networking.k8s.io/v1", "metadata": {"name": name}}
    call("POST", GATEWAYS, {**meta, "kind": "Gateway", "spec": spec})
    rule = {"filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": f"{name}.example.com"}}]}
    call("POST", ROUTES, {**meta, "kind": "HTTPRoute", "spec": {"parentRefs": [{"name": name}], "rules": [rule]}})


def start(number, rendered):
    deployment = next(document for kind, _, document in rendered if kind == "Deployment")
    arguments = re.search(r"^ +args:\n((?: +- .*\n)+)", deployment, re.MULTILINE)[1]
    arguments = [line.strip()[2:] for line in arguments.splitlines()]
    config = next(document for kind, _, document in rendered if kind == "ConfigMap").split("weir.yaml: |\n", 1)[1]
    return Replica(number, arguments, re.sub(r"^ {4}", "", config, flags=re.MULTILINE))


def run(rendered, replicas):
    first = start(11, rendered)
    replicas.append(first)
    wanted = {("Accepted", "True"), ("SupportedVersion", "True")}
    until("the class supports this release", lambda: class_conditions() == wanted)
    create_gateway("web", 80, 8080)
    until("a Gateway has a Service", lambda: services() == {"web": {80: 20000, 8080: 20001}})
    made = service("web")
    assert made["spec"]["type"] == "LoadBalancer", made
    assert made["spec"]["selector"] == {"app.kubernetes.io/name": "weir", "app.kubernetes.io/instance": "shop"}, made
    assert made["metadata"]["annotations"]["example.com/internal"] == "true", made
    until("its ports are served", lambda: first.status(20000) == 302 and first.status(20001) == 302)
    until("it has no address", lambda: statuses()["web"] == ("AddressNotAssigned", []))
    ingress = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}}
    call("PATCH", f"{SERVICES}/{made['metadata']['name']}/status", ingress, MERGE)
    until("the address of the load balancer", lambda: statuses()["web"] == ("Programmed", ["203.0.113.7"]))
    # What others set beside the fields of Weir stays.
    local = {"spec": {"externalTrafficPolicy": "Local"}}
    call("PATCH", f"{SERVICES}/{made['metadata']['name']}?fieldManager=somebody", local, MERGE)

    second = start(12, rendered)
    replicas.append(second)
    until("another replica has the same ports", lambda: second.status(20000) == 302 and second.status(20001) == 302)
    create_gateway("other", 80)
    until("another Gateway", lambda: services().get("other") == {80: 20002})
    until("at both replicas", lambda: first.status(20002) == 302 and second.status(20002) == 302)
    assert service("web")["spec"]["externalTrafficPolicy"] == "Local"
    before = services()

    first.end(signal.SIGKILL)
    create_gateway("late", 80)
    until("another leader writes", lambda: services() == {**before, "late": {80: 20003}})
    call("DELETE", f"{GATEWAYS}/web")
    until("a deleted Gateway has no Service", lambda: services() == {"other": {80: 20002}, "late": {80: 20003}})
    until("and no ports", lambda: second.status(20000) is None and second.status(20003) == 302)

    second.end()
    call("DELETE", f"{GATEWAYS}/other")
    third = start(13, rendered)
    replicas.append(third)
    until("what was deleted while no replica ran", lambda: services() == {"late": {80: 20003}})
    until("the same port after a restart", lambda: third.status(20003) == 302)
    call("PATCH", f"{GATEWAYS}/late", {"spec": {"infrastructure": {"annotations": None}}}, MERGE)
    until("an annotation is removed", lambda: "example.com/internal" not in service("late")["metadata"]["annotations"])


def main():
    for namespace in (NAMESPACE, "shop"):
        create_namespace(namespace)
    rendered = list(render(TOOL, "gateway"))
    for kind, name, document in rendered:
        apply(kind, name, document, dry_run=False)
    replicas = []
    try:
        run(rendered, replicas)
    finally:
        for replica in replicas:
            replica.end()
    for replica in replicas:
        # 403: a right that the chart does not give.
        refused = [
            line for line in replica.log.read_text().splitlines() if "responded with 403" in line or "ERROR" in line
        ]
        assert not refused, refused[:5]


main()
