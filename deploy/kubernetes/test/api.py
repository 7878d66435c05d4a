"""The API server of `scripts/kube shell`, as the administrator, and the objects that the chart renders for it."""

import json
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TMP = Path(os.environ["KUBE_TMP"])
SERVER = "https://10.88.0.1:16443"
CONTEXT = ssl.create_default_context(cafile=TMP / "ca.crt")
APPLY = "application/apply-patch+yaml"
# The release that deploy/helm/tool renders.
NAMESPACE = "edge"

CORE = "/api/v1"
GATEWAY_API = "/apis/gateway.networking.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
# Kinds of the chart with the paths of their groups, and whether they are in a namespace.
KINDS = {
    "ConfigMap": (CORE, "configmaps", True),
    "Service": (CORE, "services", True),
    "ServiceAccount": (CORE, "serviceaccounts", True),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers", True),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies", True),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "Role": (RBAC, "roles", True),
    "RoleBinding": (RBAC, "rolebindings", True),
    "ClusterRole": (RBAC, "clusterroles", False),
    "ClusterRoleBinding": (RBAC, "clusterrolebindings", False),
    "GatewayClass": (GATEWAY_API, "gatewayclasses", False),
}
# Kinds of the chart whose custom resources come with other programs.
OTHERS = ("PodMonitor", "PrometheusRule")


class Refused(Exception):
    """A status other than success."""

    def __init__(self, code, message):
        super().__init__(f"{code} {message}")
        self.code = code


def call(method, path, body=None, media="application/json"):
    """One request as the administrator; the body is an object or the text of one."""
    headers = {"Authorization": "Bearer admin-token", "Content-Type": media}
    data = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(SERVER + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, context=CONTEXT, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise Refused(error.code, error.read().decode()[:1000]) from error


def create_namespace(name):
    call("POST", f"{CORE}/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def render(tool, values, *settings):
    """The objects of the chart, each with its kind, name and text. `values` is that of a test, or the file of a cloud in the chart."""
    cloud = f"deploy/helm/weir/values-{values}.yaml"
    file = cloud if (ROOT / cloud).exists() else f"deploy/helm/tests/{values}.values.yaml"
    command = [tool, "template", "deploy/helm/weir", file, *settings]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for document in re.split(r"^---$", text, flags=re.MULTILINE):
        kind = re.search(r"^kind: (\S+)$", document, re.MULTILINE)
        if kind:
            yield kind[1], re.search(r"^  name: (\S+)$", document, re.MULTILINE)[1], document


def apply(kind, name, document, *, dry_run):
    """Sends an object of the chart by server-side apply; a field that its kind does not have is an error."""
    base, plural, is_namespaced = KINDS[kind]
    folder = f"{base}/namespaces/{NAMESPACE}/{plural}" if is_namespaced else f"{base}/{plural}"
    query = "fieldManager=helm&force=true&fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
    return call("PATCH", f"{folder}/{name}?{query}", document, APPLY)
