#!/usr/bin/env python3
"""Instructions that Weir executes per request: what a change costs, without the noise of a machine.

    scripts/bench instructions [--baseline BINARY] [--rows get,hit,...] [--keep DIR]

Weir runs under callgrind with one worker, in front of nginx; one client sends requests over one connection, each after the response to the last.
The difference of a long and a short run, over the difference of their requests, leaves out starting and stopping. The kernel's part is not counted.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from count import LONG, SHORT, Request, per_request
from record import environment, save
from rig import KEY, Missing, Rig, need, output, say

# name: what is requested, the status of all responses but the first few, and the configuration
ROWS = {
    "get": ("proxied GET", "/", 200, "weir.yaml"),
    "hit": ("cache hit", "/hit", 200, "weir.yaml"),
    "refused": ("429 by a rate limit", "/refused", 429, "weir.yaml"),
    "gated": ("proxied GET, key, two limits and log", "/", 200, "weir-gated.yaml"),
}
# A request as HTTP clients of programming languages send it.
HEAD = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: instructions/1\r\nAccept: */*\r\n"
    "Accept-Encoding: gzip, deflate\r\nX-Request-Source: bench\r\n"
    f"X-API-Key: {KEY}\r\n\r\n"
)


def request_of(row: str) -> Request:
    _, path, status, _ = ROWS[row]
    return Request(path, HEAD.replace("{path}", path).encode(), status=status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the program to count")
    parser.add_argument("--baseline", help="an earlier build, beside it")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"some of {', '.join(ROWS)}")
    parser.add_argument("--out", type=Path, help="where the result is left")
    parser.add_argument("--keep", type=Path, help="a folder for callgrind's files, one a row")
    arguments = parser.parse_args()
    rows = arguments.rows.split(",")
    if unknown := set(rows) - set(ROWS):
        parser.error(f"unknown row: {', '.join(sorted(unknown))}; expected one of {', '.join(ROWS)}")
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    rig = Rig(arguments.weir, arguments.baseline)
    versions = [output([program, "--version"]) for program in (arguments.weir, arguments.baseline) if program]
    results = {"environment": environment(*versions), "requests": LONG - SHORT, "rows": {}}
    lines = ["| row | instructions | baseline | ratio |", "|---|---|---|---|"]
    try:
        need("valgrind", "apt-get install valgrind")
        rig.upstream()
        for row in rows:
            keep = arguments.keep / f"{row}.callgrind" if arguments.keep else Path("/dev/null")
            configure, request = partial(rig.render_weir, ROWS[row][3]), request_of(row)
            now = per_request(arguments.weir, configure, request, keep)
            before = per_request(arguments.baseline, configure, request) if arguments.baseline else None
            results["rows"][row] = {"weir": now, "baseline": before}
            figures = f"{before:,.0f} | {now / before:.3f}" if before else "|"
            lines.append(f"| {ROWS[row][0]} | {now:,.0f} | {figures} |")
            say(lines[-1])
    except Missing as missing:
        sys.exit(f"error: {missing}")
    finally:
        rig.close()
    made = results["environment"]
    title = f"# Instructions per request\n\n{made['date']}, commit {made['commit']}, profile {made['profile']}: `{made['command']}`.\n\n"
    save(arguments.out, results, title + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
