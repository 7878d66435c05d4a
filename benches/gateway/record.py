"""What goes with every result: where and how it was made; and the two files that it is kept in."""

import json
import os
import platform
import re
import statistics
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from rig import ROOT, output


def environment(*versions: str) -> dict:
    """The machine, the commit, the command and the versions of what was measured."""
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "date": date.today().isoformat(),
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu": processor[1] if processor else None,
        "cores": os.cpu_count(),
        "commit": output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]),
        "versions": list(dict.fromkeys(versions)),
        # scripts/bench says what was typed.
        "command": os.environ.get("BENCH_COMMAND", "by hand"),
        "profile": os.environ.get("BENCH_PROFILE", "not known"),
    }


def spread(ratios: Iterable[float]) -> dict:
    """Median of paired ratios, with the least and the most."""
    found = sorted(ratios)
    return {
        "ratio": statistics.median(found),
        "ratio_min": found[0],
        "ratio_max": found[-1],
        "rounds": len(found),
    }


def save(folder: Path | None, results: object, summary: str) -> None:
    """Prints the summary and keeps it, with the figures that it was made from."""
    print(summary)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (folder / "summary.md").write_text(summary)
