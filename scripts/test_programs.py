#!/usr/bin/env python3
"""Builds the test programs of cargo and runs several at once: tests mostly wait, and cargo runs their programs one after the other.

    scripts/test_programs.py [--jobs 3] CARGO-ARGUMENT... [-- [CRATE/TARGET:]--skip=WORD...]

The arguments are those of `cargo test`. A skip holds for every program, or for the one that it names. What a program prints is shown when it ends: all of it if a
test failed, else the line of its result. Those that took longest in the last run start first. Ends with 1 if a test or the build failed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TIMES = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "test-times.json"


def build(arguments):
    """The test programs that cargo names, each with its package's folder, where cargo would run it."""
    command = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        sys.exit(1)
    messages = (json.loads(line) for line in built.stdout.splitlines() if line.startswith("{"))
    return [
        (f"{Path(one['manifest_path']).parent.name}/{one['target']['name']}", one)
        for one in messages
        if one["reason"] == "compiler-artifact" and one["profile"]["test"] and one["executable"]
    ]


def run(name, artifact, skips):
    """Runs one test program to its end; its exit code, its output and how long it took."""
    arguments = [skip for of, skip in skips if of in (None, name)]
    folder = Path(artifact["manifest_path"]).parent
    environment = os.environ | {"CARGO_MANIFEST_DIR": str(folder)}
    begun = time.monotonic()
    ended = subprocess.run(
        [artifact["executable"], *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    taken = time.monotonic() - begun
    if ended.returncode == 0:
        shown = "".join(line + "\n" for line in ended.stdout.splitlines() if line.startswith("test result:"))
    else:
        shown = ended.stdout
    sys.stdout.write(f"{name}\n{shown}")
    sys.stdout.flush()
    return ended.returncode, name, taken


def main():
    """Builds and runs; stores how long each took."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=3, help="test programs at once")
    options, arguments = parser.parse_known_args(words[:end])
    skips = []
    for word in words[end + 1 :]:
        of, colon, skip = word.partition(":--skip=")
        skips.append((of, f"--skip={skip}") if colon else (None, word))
    known = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    programs = sorted(build(arguments), key=lambda program: -known.get(program[0], 1e9))
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda program: run(*program, skips), programs))
    TIMES.write_text(json.dumps(known | {name: round(taken, 1) for _, name, taken in results}))
    return 1 if any(code for code, _, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main())
