#!/usr/bin/env python3
"""Runs the console blocks of a document: console.py FILE [--at FROM=TO]...

A block is fenced as ```console. A line that begins with "$ " is a command of the shell; what follows is what it must print,
where … stands for anything. A command that exits with another code than 0 has failed, whatever it printed. --at puts another address in the place of the one in the document. Ends with "N passed, N failed, N skipped".
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path


def commands(text: str) -> list[tuple[str, str]]:
    """(command, expected) of all blocks"""
    found = []
    for body in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        steps = [step.partition("\n") for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]
        found += [(command, expected) for command, _, expected in steps]
    return found


def matches(expected: str, came: str) -> bool:
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return re.fullmatch(pattern, came.replace("\r", "").strip(), re.DOTALL) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--at", action="append", default=[], metavar="FROM=TO")
    arguments = parser.parse_args()
    passed = failed = 0
    for command, expected in commands(arguments.file.read_text()):
        for pair in arguments.at:
            command = command.replace(*pair.split("=", 1))
        try:
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
            came, wrong, code = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            came, wrong, code = "", "no end after 60 s", 1
        if matches(expected, came) and code == 0:
            passed += 1
        else:
            failed += 1
            print(
                f"FAILED $ {command}\n  expected: {expected.strip()}\n  came:     {came.strip()} {wrong.strip()} (exit code {code})"
            )
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
