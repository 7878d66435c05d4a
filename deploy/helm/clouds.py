#!/usr/bin/env python3
"""What must hold of the chart as it is rendered for a cloud: clouds.py aks|eks|gke, with the rendering on standard input

Kubernetes and the controllers of clouds ignore annotations and labels whose names are wrong, so names are compared with those that the
documentation of each controller has.
"""

import re
import sys

# Documented names: cloud-provider-azure, AWS Load Balancer Controller, GKE's LoadBalancer Services; workload identities of each.
AKS = "service.beta.kubernetes.io/azure-load-balancer-"
EKS = "service.beta.kubernetes.io/aws-load-balancer-"
SERVICE = {
    "aks": {
        AKS + name
        for name in (
            "internal internal-subnet ipv4 ipv6 resource-group tcp-idle-timeout health-probe-interval "
            "health-probe-num-of-probe health-probe-request-path"
        ).split()
    },
    "eks": {
        EKS + name
        for name in (
            "type name scheme nlb-target-type proxy-protocol attributes target-group-attributes ip-address-type subnets "
            "eip-allocations private-ipv4-addresses ssl-cert ssl-ports ssl-negotiation-policy backend-protocol alpn-policy "
            "additional-resource-tags security-groups healthcheck-protocol healthcheck-port healthcheck-path "
            "healthcheck-interval healthcheck-healthy-threshold healthcheck-unhealthy-threshold healthcheck-success-codes"
        ).split()
    },
    "gke": {
        "cloud.google.com/l4-rbs",
        "networking.gke.io/load-balancer-type",
        "networking.gke.io/load-balancer-ip-addresses",
        "networking.gke.io/weighted-load-balancing",
    },
}
ACCOUNT = {
    "aks": "azure.workload.identity/client-id",
    "eks": "eks.amazonaws.com/role-arn",
    "gke": "iam.gke.io/gcp-service-account",
}
# Labels of nodes that the cloud takes away at short notice, and their values.
SPOT = {
    "aks": {"kubernetes.azure.com/scalesetpriority": "spot"},
    "eks": {"eks.amazonaws.com/capacityType": "SPOT", "karpenter.sh/capacity-type": "spot"},
    "gke": {"cloud.google.com/gke-spot": '"true"'},
}
# Seconds that the balancer may take to learn that a pod ends: less than `preStop` waits.
NOTICE = {"aks": 10, "eks": 30, "gke": 24}


def objects(text):
    """The objects of a rendering by kind."""
    found = {}
    for document in re.split(r"^---$", text, flags=re.MULTILINE):
        kind = re.search(r"^kind: (\S+)$", document, re.MULTILINE)
        if kind:
            found[kind[1]] = document
    return found


def block(text, key):
    """The lines below `key:` that are indented further."""
    match = re.search(rf"^( *){key}:\n((?:\1 +.*\n?)+)", text, re.MULTILINE)
    return match[2] if match else ""


def entries(text, key):
    """The names and values of a mapping of texts."""
    return dict(re.findall(r"^ *([^\s:]+): (.*)$", block(text, key), re.MULTILINE))


def number(text, pattern):
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


def wrong_service(cloud, service, config):
    """What is wrong with the Service, and with the listeners behind it."""
    names = entries(service, "annotations")
    for name in sorted(set(names) - SERVICE[cloud]):
        yield f"no controller of {cloud} knows the annotation {name}"
    if "  type: LoadBalancer" not in service:
        yield "the Service has no load balancer"
    is_local = "externalTrafficPolicy: Local" in service
    if EKS + "proxy-protocol" in names:
        items = re.search(r"^    listen:\n((?:    - .*\n|      .*\n)+)", config, re.MULTILINE)
        listeners = re.split(r"^    - ", items[1], flags=re.MULTILINE)[1:] if items else []
        if not listeners or any("proxy_protocol: v2" not in listener for listener in listeners):
            yield "the balancer sends PROXY headers, and a listener does not read them"
        port = number(service, rf"{re.escape(EKS)}healthcheck-port: \"(\d+)\"")
        if not re.search(rf"bind: 0\.0\.0\.0:{port}$", config, re.MULTILINE):
            yield f"no listener at the port of the health checks, {port}"
        if "    trusted_proxies:\n    - " not in config:
            yield "no listener takes PROXY headers of networks that are not in trusted_proxies"
    elif not is_local:
        yield "neither externalTrafficPolicy: Local nor the PROXY protocol: Weir does not see who the client is"


def wrong_pods(cloud, deployment):
    """What is wrong with the pods: their nodes, and how they end."""
    for label, value in SPOT[cloud].items():
        if not re.search(rf"- key: {re.escape(label)}\n +operator: NotIn\n +values:\n +- {value}\n", deployment):
            yield f"pods may run on nodes with {label}: {value}"
    spread = block(deployment, "topologySpreadConstraints")
    if not re.search(r"topologyKey: topology.kubernetes.io/zone\n +whenUnsatisfiable: DoNotSchedule", spread):
        yield "the pods need not be in several zones"
    sleep = number(deployment, r"preStop: \{sleep: \{seconds: (\d+)\}\}")
    if sleep <= NOTICE[cloud]:
        yield f"pods go on serving for {sleep} s after they are told to end; the balancer may need {NOTICE[cloud]} s"
    if number(deployment, r"terminationGracePeriodSeconds: (\d+)") <= sleep + 30:
        yield "pods are killed before they have drained"
    if re.search(r"^ +limits:\n(?: +memory.*\n)* +cpu:", deployment, re.MULTILINE):
        yield "a limit of CPU holds requests back"


def wrong(cloud, text):
    found = objects(text)
    yield from wrong_service(cloud, found["Service"], found["ConfigMap"])
    yield from wrong_pods(cloud, found["Deployment"])
    if "access_log:\n      path: stdout" not in found["ConfigMap"]:
        yield "the access log does not go to standard output"
    if number(found.get("HorizontalPodAutoscaler", ""), r"minReplicas: (\d+)") < 3:
        yield "fewer than 3 pods: one for each zone"
    if "maxUnavailable: 1\n" not in found.get("PodDisruptionBudget", ""):
        yield "more than one pod may be away"
    accounts = entries(found["ServiceAccount"], "annotations")
    if set(accounts) != {ACCOUNT[cloud]}:
        yield f"the service account has no annotation {ACCOUNT[cloud]}, or another one"


def main():
    findings = list(wrong(sys.argv[1], sys.stdin.read()))
    for finding in findings:
        print(f"{sys.argv[1]}: {finding}")
    sys.exit(bool(findings))


main()
