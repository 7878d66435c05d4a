#!/usr/bin/env python3
"""What AI routes cost.

    scripts/bench ai [--parts cpu,instructions,first_token,streams] [--rounds 16] [--minutes 10] [--keep DIR]

cpu          CPU time of a chat call with key, limit of tokens, metrics and access log, against plain proxying by Weir; against LiteLLM and Portkey
instructions what Weir executes for a chat call, counted by callgrind; --keep DIR keeps its files
first_token  what the gateway adds to the time to the first token of a stream
streams      1,000 streams at once: whether each event arrives, how late, and the memory that they hold

Each part replaces its own section of the summary and leaves the others.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))

import cpu
import first_token
import instructions
import streams
from record import environment, save
from rig import output
from stage import Stage

PARTS = {"cpu": cpu, "instructions": instructions, "first_token": first_token, "streams": streams}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=10, help="of the part streams")
    parser.add_argument("--keep", type=Path, help="of the part instructions")
    options = parser.parse_args()
    chosen = options.parts.split(",")
    if unknown := set(chosen) - PARTS.keys():
        parser.error(f"no part is named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    kept = options.out / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    for name in chosen:
        stage = Stage(options.weir)
        try:
            found = PARTS[name].measure(stage, options)
        finally:
            stage.close()
        results[name] = {"environment": environment(output([options.weir, "--version"]), *stage.versions), **found}
        # After each part, so that a later one that fails costs nothing.
        sections = [PARTS[part].summary(results[part]) for part in PARTS if part in results]
        save(options.out, results, "\n\n".join(sections) + "\n")


if __name__ == "__main__":
    main()
