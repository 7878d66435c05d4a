"""Instructions of a chat call, by callgrind: what a change costs, without the noise of a machine. The kernel's part is not counted."""

import sys
from argparse import Namespace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "instructions"))

import stage as on
from count import Request, per_request
from cpu import AI_ROWS, PATH
from rig import need, say


def measure(stage: on.Stage, options: Namespace) -> dict:
    need("valgrind", "apt-get install valgrind")
    stage.provider()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, _, size, model, _ in AI_ROWS:
        request = request_of(on.chat(size, model))
        found[name] = {}
        for kind in ("plain", "ai"):
            keep = options.keep / f"{name.replace(' ', '-')}-{kind}.callgrind" if options.keep else Path("/dev/null")
            found[name][kind] = per_request(
                stage.weir, lambda port, kind=kind: stage.configured(kind, port), request, keep
            )
        say(f"{name}: {found[name]}")
    return {"rows": found}


def request_of(operation: dict) -> Request:
    """A chat call as bytes."""
    body = operation["body"]["text"].encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in operation["headers"].items())
    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{{port}}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return Request(PATH, head.encode(), body)


def summary(found: dict) -> str:
    lines = [
        "## Instructions of a chat call, without the kernel's",
        "",
        "| call | plain | AI route | more |",
        "|---|---|---|---|",
    ]
    for name, what, _, _, _ in AI_ROWS:
        plain, ai = found["rows"][name]["plain"], found["rows"][name]["ai"]
        lines.append(f"| {what} | {plain:,.0f} | {ai:,.0f} | {ai - plain:,.0f} |")
    return "\n".join(lines)
