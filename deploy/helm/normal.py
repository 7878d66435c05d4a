#!/usr/bin/env python3
"""What helm renders, read from standard input, without what is compared elsewhere (dashboards, rules).

--configuration: the configuration of Weir in it; --rules: what its roles allow.
"""

import re
import sys


def documents(text):
    """The documents of a rendering, each with its kind and name."""
    for document in re.split(r"^---$", text, flags=re.MULTILINE):
        kind = re.search(r"^kind: (\S+)$", document, re.MULTILINE)
        name = re.search(r"^(?:metadata: \{|  )name: ([^,}\s]+)", document, re.MULTILINE)
        if kind and name:
            yield kind[1], name[1], document.strip("\n") + "\n"


def configuration(document):
    """The block of text under `weir.yaml`, without its indentation."""
    block = document.split("  weir.yaml: |\n", 1)[1]
    lines = []
    for line in block.splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line[4:])
    return "\n".join(lines) + "\n"


def main():
    found = list(documents(sys.stdin.read()))
    if sys.argv[1:] == ["--configuration"]:
        text = next(document for kind, _, document in found if kind == "ConfigMap" and "weir.yaml: |" in document)
        sys.stdout.write(configuration(text))
        return
    if sys.argv[1:] == ["--rules"]:
        for kind in ("ClusterRole", "Role"):
            text = next(document for found_kind, _, document in found if found_kind == kind)
            sys.stdout.write(f"{kind}\n{text.split('rules:', 1)[1].strip()}\n")
        return
    for kind, name, document in found:
        if kind == "PrometheusRule":
            document = document.split("\nspec:", 1)[0] + "\n"
        if name.endswith("-dashboards"):
            document = re.sub(r'^(  \S+\.json): ".*"$', r"\1: (left out)", document, flags=re.MULTILINE)
        sys.stdout.write("---\n" + document)


main()
