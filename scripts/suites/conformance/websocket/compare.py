"""Autobahn's cases against a server and against gateways in front of it: every case must have the same verdict.

compare.py DIRECT NAME=URL...

Of the 216 cases of compression 36 run: the others differ in the size of messages and in zlib's options, which a gateway does not see.
"""

import asyncio
import os
import sys

from kosoku import FailureError, run_fuzzingclient

CASES = [f"{group}.*" for group in (1, 2, 3, 4, 5, 6, 7, 9, 10)]
CASES += [
    f"{group}.{kind}.{size}"
    for group, kinds in ((12, 5), (13, 7))
    for kind in range(1, kinds + 1)
    for size in (1, 5, 10)
]


async def verdicts(url, cases, concurrency):
    try:
        results = await run_fuzzingclient(url, cases, concurrency=concurrency)
    except FailureError as failure:
        results = failure.results
    return {result.case_id: (result.behavior.value, result.behavior_close.value) for result in results}


def summary(found):
    counts = {}
    for behavior, _ in found.values():
        counts[behavior] = counts.get(behavior, 0) + 1
    return ", ".join(f"{count} {behavior}" for behavior, count in sorted(counts.items()))


async def main():
    direct_url, *gateways = sys.argv[1:]
    direct = await verdicts(direct_url, CASES, 4)
    print(f"direct: {summary(direct)}", flush=True)
    passed = failed = 0
    for name, url in (gateway.split("=", 1) for gateway in gateways):
        through = await verdicts(url, CASES, 4)
        # Large messages have a time limit, which a busy machine and a client in Python may miss four at a time: once more, one at a time.
        again = sorted(case for case in direct | through if direct.get(case) != through.get(case))
        if again:
            print(f"{name}: again, alone: {', '.join(again)}", flush=True)
            through |= await verdicts(url, again, 1)
        print(f"{name}: {summary(through)}", flush=True)
        for case in sorted(direct | through):
            if direct.get(case) == through.get(case):
                passed += 1
            else:
                failed += 1
                print(f"FAIL {name} {case}: {through.get(case)} through the gateway, {direct.get(case)} without")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0 or len(direct) < 300


failed = asyncio.run(main())
sys.stdout.flush()
# The client's threads abort the process at times when the interpreter ends in order.
os._exit(failed)
