#!/usr/bin/env python3
"""Plays kubelet and controller-manager for the conformance suite: fixture.py SERVER CA TOKEN ECHO_BASIC

For each Deployment it starts its replicas of `echo-basic` on addresses of their own (10.88.2.N), with the environment of the manifest and its
mounted Secrets as files, and writes the Pods as ready. For each Service with a selector it writes the EndpointSlices. Deployments that are
deleted lose their processes. It knows of manifests what those of the suite use.
"""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

SERVER, CA, TOKEN, ECHO = sys.argv[1:5]
CONTEXT = ssl.create_default_context(cafile=CA)


def call(method, path, body=None, media="application/json"):
    """One request; the parsed response, or None where there is no such object."""
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": media}
    request = urllib.request.Request(SERVER + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, context=CONTEXT, timeout=20) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code in (404, 409):
            return None
        raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()[:300]}") from error


class Pod:
    """A process of its own address."""

    count = 0

    def __init__(self, deployment, index):
        Pod.count += 1
        self.address = f"10.88.2.{Pod.count}"
        self.link = f"pod{Pod.count}"
        meta = deployment["metadata"]
        self.namespace, self.name = meta["namespace"], f"{meta['name']}-fixture-{index}"
        self.labels = deployment["spec"]["template"]["metadata"]["labels"]
        spec = deployment["spec"]["template"]["spec"]
        container = spec["containers"][0]
        self.folder = tempfile.mkdtemp()
        mounts = self.mount(spec, container)
        self.start(self.environment(container, mounts))
        self.write(spec)

    def start(self, environment):
        """In a network namespace of its own, at the bridge: every pod listens on the same ports."""
        wait = f"while ! ip link set eth0 up 2>/dev/null; do sleep 0.02; done; ip link set lo up; ip addr add {self.address}/16 dev eth0; exec {ECHO}"
        self.process = subprocess.Popen(
            ["unshare", "--net", "setpriv", "--pdeathsig", "KILL", "sh", "-c", wait],
            env=environment,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        time.sleep(0.05)
        for command in (
            f"ip link add {self.link} type veth peer name eth0 netns {self.process.pid}",
            f"ip link set {self.link} master br0",
            f"ip link set {self.link} up",
        ):
            subprocess.run(command.split(), check=True)

    def mount(self, spec, container):
        """Secrets and ConfigMaps as files; the folders by the paths that the manifest has for them."""
        folders = {}
        for mount in container.get("volumeMounts", []):
            volume = next(one for one in spec["volumes"] if one["name"] == mount["name"])
            folder = Path(self.folder) / mount["name"]
            folder.mkdir(parents=True, exist_ok=True)
            folders[mount["mountPath"]] = str(folder)
            data = {}
            if "secret" in volume:
                found = (
                    call("GET", f"/api/v1/namespaces/{self.namespace}/secrets/{volume['secret']['secretName']}") or {}
                )
                data = {name: base64.b64decode(value) for name, value in found.get("data", {}).items()}
                items = volume["secret"].get("items")
            else:
                found = (
                    call("GET", f"/api/v1/namespaces/{self.namespace}/configmaps/{volume['configMap']['name']}") or {}
                )
                data = {name: value.encode() for name, value in found.get("data", {}).items()}
                items = volume["configMap"].get("items")
            for item in items or [{"key": name, "path": name} for name in data]:
                (folder / item["path"]).write_bytes(data.get(item["key"], b""))
        return folders

    def environment(self, container, mounts):
        fields = {"metadata.name": self.name, "metadata.namespace": self.namespace, "status.podIP": self.address}
        found = {"PATH": os.environ["PATH"], "HTTP_PORT": "3000", "SERVICE_NAME": self.labels.get("app", "")}
        for variable in container.get("env", []):
            value = variable.get("value")
            if value is None:
                value = fields.get(variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", ""), "")
            for path, folder in mounts.items():
                value = value.replace(path, folder)
            found[variable["name"]] = value
        return found

    def write(self, spec):
        containers = [{"name": one["name"], "image": one["image"]} for one in spec["containers"]]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": self.labels},
            "spec": {"nodeName": "fixture", "containers": containers, "automountServiceAccountToken": False},
        }
        call("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady", "PodScheduled", "Initialized")
        ]
        status = {
            "phase": "Running",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": conditions,
            "startTime": now,
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/status"
        call("PATCH", path, {"status": status}, "application/merge-patch+json")

    def end(self):
        self.process.terminate()
        call("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{self.name}?gracePeriodSeconds=0")


PODS = {}


def follow_deployments():
    listed = call("GET", "/apis/apps/v1/deployments")["items"]
    there = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in listed}
    for key in [key for key in PODS if key not in there]:
        for pod in PODS.pop(key):
            pod.end()
    for key, deployment in there.items():
        if key not in PODS:
            replicas = deployment["spec"].get("replicas", 1)
            PODS[key] = [Pod(deployment, index) for index in range(replicas)]
            status = {
                "replicas": replicas,
                "readyReplicas": replicas,
                "availableReplicas": replicas,
                "observedGeneration": deployment["metadata"]["generation"],
            }
            call(
                "PATCH",
                f"/apis/apps/v1/namespaces/{key[0]}/deployments/{key[1]}/status",
                {"status": status},
                "application/merge-patch+json",
            )


def port_of(service_port, pods):
    target = service_port.get("targetPort", service_port["port"])
    return target if isinstance(target, int) and pods else service_port["port"]


WRITTEN = {}


def follow_services():
    pods = [pod for of_one in PODS.values() for pod in of_one]
    for service in call("GET", "/api/v1/services")["items"]:
        meta, spec = service["metadata"], service["spec"]
        selector = spec.get("selector")
        if not selector:
            continue
        chosen = [pod for pod in pods if pod.namespace == meta["namespace"] and selector.items() <= pod.labels.items()]
        ports = [
            {
                "name": one.get("name", ""),
                "port": port_of(one, chosen),
                "protocol": one.get("protocol", "TCP"),
                **({"appProtocol": one["appProtocol"]} if "appProtocol" in one else {}),
            }
            for one in spec.get("ports", [])
        ]
        endpoints = [
            {
                "addresses": [pod.address],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": "fixture",
                "targetRef": {"kind": "Pod", "name": pod.name, "namespace": pod.namespace},
            }
            for pod in chosen
        ]
        path = f"/apis/discovery.k8s.io/v1/namespaces/{meta['namespace']}/endpointslices"
        name = f"{meta['name']}-fixture"
        slice_ = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "addressType": "IPv4",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {"kubernetes.io/service-name": meta["name"]},
            },
            "ports": ports,
            "endpoints": endpoints,
        }
        key = (meta["namespace"], name)
        if WRITTEN.get(key) == slice_:
            continue
        if call("POST", path, slice_) is None:
            call("PATCH", f"{path}/{name}", {"ports": ports, "endpoints": endpoints}, "application/merge-patch+json")
        WRITTEN[key] = slice_


def main():
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.is_set():
        try:
            follow_deployments()
            follow_services()
        except (OSError, RuntimeError) as error:
            print(f"fixture: {error}", file=sys.stderr, flush=True)
        stopped.wait(0.5)
    for pods in PODS.values():
        for pod in pods:
            pod.process.terminate()


main()
