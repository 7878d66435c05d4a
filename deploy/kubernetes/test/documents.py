#!/usr/bin/env python3
"""Splits a file of objects: documents.py FILE FOLDER; FOLDER/list has each document with the path where objects of its kind are."""

import re
import sys
from pathlib import Path

PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
}


def main():
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir()
    lines = []
    for number, text in enumerate(re.split(r"^---$", source.read_text(), flags=re.MULTILINE)):
        kind = re.search(r"^kind: (\S+)$", text, re.MULTILINE)[1]
        namespace = re.search(r"^metadata: .*namespace: ([^,} ]+)", text, re.MULTILINE)
        file = folder / f"{number}.yaml"
        file.write_text(text)
        lines.append(f"{file} {PATHS[kind].format(namespace=namespace[1] if namespace else '')}\n")
    (folder / "list").write_text("".join(lines))


main()
