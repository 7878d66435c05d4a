"""gateway.py WEIR FOLDER: large public descriptions as `apis:` of Weir, through `weir check` and `weir routes`. What has to be
refused, and which routes there have to be, is read from the description itself, here. Prints a table with routes, time and memory and,
last, "gateway PASSED FAILED"."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Each scheme of the description is an authenticator of the file: {SCHEME: NAME}.
APIS = {
    "github": {},
    "stripe": {"basicAuth": "keys", "bearerAuth": "keys"},
    "kubernetes": {"BearerToken": "keys"},
}
# Routes whose bodies are checked.
HELD = re.compile(r"not streamed, on (\d+) routes")
COST = re.compile(r"loading took (\d+) ms and (\d+) KiB of memory")

passed = failed = 0


def result(ok, what):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what}")


def operations(document):
    """(operationId, path, parameters, security) of each operation."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                operation = item[method]
                parameters = [
                    resolved(document, one) for one in item.get("parameters", []) + operation.get("parameters", [])
                ]
                yield (
                    operation["operationId"],
                    path,
                    parameters,
                    operation.get("security", document.get("security", [])),
                )


def resolved(document, value):
    while "$ref" in value:
        target = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        value = target
    return value


def has_no_route(path, parameters):
    """Whether a parameter is a part of a segment, or may hold slashes and is not the last segment."""
    if any("{" in segment and not re.fullmatch(r"\{[^{}]*\}", segment) for segment in path.split("/")):
        return True
    names = [one["name"] for one in parameters if one["in"] == "path" and one.get("x-multi-segment")]
    return any(f"{{{name}}}" in path and not path.endswith(f"/{{{name}}}") for name in names)


def run(weir, folder, command, name, auth, skip):
    api = {
        "spec": f"{name}.json",
        "upstream": "u",
        "auth": auth,
        "skip": sorted(skip),
        "validate": {"request": "enforce"},
    }
    config = {
        "listen": "127.0.0.1:0",
        "upstreams": {"u": {"targets": ["http://127.0.0.1:9"]}},
        "auth": {"keys": {"api_key": {"store": {"file": str(folder / "keys.yaml")}}}},
        "apis": {"api": api},
        "routes": [],
    }
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(config))
    return subprocess.run([weir, command, file], capture_output=True, text=True)


def refused(weir, folder, name, auth):
    """The operations that a refusal names, whole: twenty at a time are shown, so that those are skipped in the next call."""
    named = set()
    while True:
        answer = run(weir, folder, "check", name, auth, named)
        if answer.returncode == 0:
            return named
        more = set(re.findall(r"operation `([^`]+)`", answer.stderr)) - named
        if not more:
            print(answer.stderr[:2000])
            return None
        named |= more


def main():
    weir, documents = sys.argv[1], pathlib.Path(sys.argv[2])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "keys.yaml").write_text("[]\n")
        for name, auth in APIS.items():
            (folder / f"{name}.json").write_bytes((documents / f"{name}.json").read_bytes())
            document = json.loads((documents / f"{name}.json").read_text())
            every = list(operations(document))
            refusals = {operation for operation, path, parameters, _ in every if has_no_route(path, parameters)}
            result(
                refused(weir, folder, name, auth) == refusals,
                f"{name}: another set of operations than these is refused: {sorted(refusals)}",
            )
            # A described protection without an authenticator is a refusal, never a route that is open.
            if any(security and {} not in security for _, _, _, security in every):
                answer = run(weir, folder, "check", name, {}, refusals)
                result(
                    answer.returncode == 64 and "has no authenticator" in answer.stderr,
                    f"{name}: loads without its authenticators",
                )
            answer = run(weir, folder, "check", name, auth, refusals)
            cost = COST.search(answer.stdout)
            result(answer.returncode == 0 and cost is not None, f"{name}: does not load: {answer.stderr[:500]}")
            routes = run(weir, folder, "routes", name, auth, refusals).stdout.splitlines()[1:]
            names = {line.split()[0] for line in routes}
            wanted = {operation for operation, *_ in every} - refusals
            result(
                len(routes) == len(every) - len(refusals) and names == wanted,
                f"{name}: routes {sorted(names ^ wanted)[:10]}",
            )
            held = HELD.search(answer.stdout)
            if cost is not None:
                rows.append(
                    (name, len(every), len(routes), len(refusals), held.group(1) if held else 0, *cost.groups())
                )
    print("| description | operations | routes | refused | routes with a checked body | load, ms | memory, KiB |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print(f"gateway {passed} {failed}")
    sys.exit(failed > 0)


main()
