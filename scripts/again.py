#!/usr/bin/env python3
"""again.py LOG: runs the tests that failed in LOG (the output of `cargo test`) a second time, each alone.

A test that fails beside others and passes alone is a race, of the test or of what it tests: it is named, in the summary of `make test`
too, and has to be fixed, but does not hide what the other tests say. More than MOST failures are no races: nothing is run again then.
Prints `FLAKY` or `FAILED` and the test for each, and in the last line how many passed. STRICT=1: nothing is run again.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

MOST = 3
FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED")
TARGET = re.compile(r"^error: test failed, to rerun pass `([^`]+)`")


def failures(log):
    """Pairs of cargo's arguments for a test program, and a test of it that failed."""
    pairs, names = [], []
    with Path(log).open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if match := FAILED.match(line):
                names.append(match[1])
            elif match := TARGET.match(line):
                pairs += [(match[1], name) for name in names] or [(match[1], None)]
                names = []
    return pairs


def passes(target, name):
    """Whether a test passes when it runs alone."""
    command = ["cargo", "test", "--locked", *target.split(), "--", "--exact", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    sys.stdout.write(done.stdout)
    return done.returncode == 0 and "test result: ok. 1 passed" in done.stdout


def main():
    pairs = failures(sys.argv[1])
    # A program that ended without naming a test has crashed.
    if os.environ.get("STRICT") or not 0 < len(pairs) <= MOST or any(name is None for _, name in pairs):
        print(0)
        return
    flaky = 0
    for target, name in pairs:
        good = passes(target, name)
        flaky += good
        print("FLAKY" if good else "FAILED", target, name, flush=True)
    print(flaky)


main()
