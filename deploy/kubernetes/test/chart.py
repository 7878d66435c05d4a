#!/usr/bin/env python3
"""Every variant of the Helm chart as dry runs of server-side apply: chart.py TOOL, with KUBE_TMP of `scripts/kube shell`"""

import sys

from api import NAMESPACE, OTHERS, Refused, apply, create_namespace, render

VARIANTS = [
    ("defaults", []),
    ("defaults", ["networkPolicy.enabled=true"]),
    ("defaults", ["service.type=NodePort", "topologySpread=false", "pdb.enabled=false"]),
    ("everything", []),
    ("gateway", []),
    ("gateway", ["networkPolicy.enabled=true", "gateway.serviceType=ClusterIP"]),
    ("gateway", ["serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboards.enabled=true"]),
    ("gateway-everything", []),
    ("aks", []),
    ("eks", []),
    ("gke", []),
]


def is_refused(document):
    """Whether the API server refuses an object that is wrong: it does look."""
    try:
        apply("Deployment", "shop-weir", document, dry_run=True)
    except Refused as refused:
        return refused.code in (400, 422, 500)
    return False


def main():
    tool = sys.argv[1]
    create_namespace(NAMESPACE)
    accepted, left_out, bad = 0, [], 0
    for values, settings in VARIANTS:
        for kind, name, document in render(tool, values, *settings):
            if kind in OTHERS:
                left_out.append(kind)
                continue
            try:
                apply(kind, name, document, dry_run=True)
                accepted += 1
            except Refused as refused:
                bad += 1
                print(f"{values} {settings}: {kind} {name}: {refused}", flush=True)
    deployment = next(document for kind, _, document in render(tool, "gateway") if kind == "Deployment")
    for wrong in ("  replicas: many", "  replica: 2"):
        if not is_refused(deployment.replace("  replicas: 2", wrong)):
            bad += 1
            print(f"a Deployment with `{wrong.strip()}` is not refused")
    print(f"chart: {len(VARIANTS)} variants, {accepted} objects accepted, {bad} wrong")
    kinds = ", ".join(sorted(set(left_out)))
    print(f"chart: {len(left_out)} not sent, as the API server does not know their kinds ({kinds})")
    sys.exit(bool(bad))


main()
