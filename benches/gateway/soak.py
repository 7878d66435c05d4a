#!/usr/bin/env python3
"""Hours of load with reloads: no error, and no memory that grows.

make soak            SOAK_MINUTES=60 by default
"""

import argparse
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from generator import USERS, Running
from rig import Rig, output, rss_kib, say


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--minutes", type=float, default=60)
    arguments = parser.parse_args()
    rig = Rig(arguments.weir)
    failures = []
    try:
        rig.upstream()
        weir = rig.start("weir")
        end = time.monotonic() + arguments.minutes * 60
        first = None
        while time.monotonic() < end:
            running = Running(weir.port, plan={"closed": USERS | {"duration": "20s"}})
            while running.process.poll() is None:
                weir.process.send_signal(signal.SIGHUP)
                time.sleep(2)
            bad = running.finish().failures()
            failures += bad
            resident = rss_kib(weir.pids)
            first = first or resident
            say(
                f"{(end - time.monotonic()) / 60:6.1f} min left, {resident} KiB resident, {'; '.join(bad) or 'no errors'}"
            )
            if resident > first * 1.5 + 4096:
                failures.append(f"memory grew from {first} to {resident} KiB")
                break
    finally:
        rig.close()
    if failures:
        sys.exit("\n".join(failures))
    say(f"clean: {output([arguments.weir, '--version'])}")


if __name__ == "__main__":
    main()
