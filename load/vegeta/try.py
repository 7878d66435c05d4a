#!/usr/bin/env python3
"""Sends the targets of a file in vegeta's HTTP format, one after the other, and counts the responses: a try of the file where there is no vegeta.

try.py FILE [--at FROM=TO] [--times N] [--expect STATUS=COUNT]...
"""

import argparse
import collections
import sys
import urllib.error
import urllib.request
from pathlib import Path


def targets(text: str) -> list[tuple[str, str, dict[str, str]]]:
    """METHOD URL, then fields, up to an empty line; # begins a comment. Bodies (@FILE) are not read here."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            method, url = lines[0].split(" ")
            fields = dict(line.split(": ", 1) for line in lines[1:])
            found.append((method, url, fields))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--at", default="=", metavar="FROM=TO")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--expect", action="append", default=[], metavar="STATUS=COUNT")
    arguments = parser.parse_args()
    came: collections.Counter[int] = collections.Counter()
    client = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(arguments.times):
        for method, url, fields in targets(arguments.file.read_text()):
            request = urllib.request.Request(url.replace(*arguments.at.split("=", 1)), method=method, headers=fields)
            try:
                with client.open(request, timeout=20) as answer:
                    came[answer.status] += 1
            except urllib.error.HTTPError as error:
                came[error.code] += 1
    print(dict(came))
    want = {int(status): int(count) for status, count in (pair.split("=") for pair in arguments.expect)}
    return 0 if not want or came == want else 1


if __name__ == "__main__":
    sys.exit(main())
