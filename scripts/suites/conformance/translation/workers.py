"""Cases in several processes at once, each with a gateway of its own: most of the time is waiting."""

import argparse
import multiprocessing
import sys

# So many failures are shown; then no further case begins.
SHOWN = 20


def arguments(cases, **more):
    parser = argparse.ArgumentParser()
    parser.add_argument("weir")
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--only", help="one case, by its name")
    parser.add_argument("--workers", type=int, default=2)
    for name, options in more.items():
        parser.add_argument(f"--{name}", **options)
    return parser.parse_args()


def run(chosen, worker):
    """Runs worker(chosen, index), which yields (name, what is wrong, details, counted) for each case. Yields what it `counted`, whether the case has
    passed, and prints each failure."""
    queue, stop = multiprocessing.Queue(), multiprocessing.Event()
    processes = [
        multiprocessing.Process(target=fill, args=(chosen, worker, index, queue, stop))
        for index in range(chosen.workers)
    ]
    for process in processes:
        process.start()
    running, failed = len(processes), 0
    while running:
        result = queue.get()
        if result is None:
            running -= 1
            continue
        name, wrong, details, counted = result
        failed += bool(wrong)
        if wrong and failed <= SHOWN:
            print(f"FAIL {name}, seed {chosen.seed}: {'; '.join(wrong)[:3000]}")
            for what, text in details.items():
                print(f"     {what}: {str(text)[:2000]}")
            suite = "scripts/suites/conformance/70-translation.sh"
            print(f"     reproduce: {suite} --seed {chosen.seed} --only '{name}'", flush=True)
        if failed == SHOWN:
            stop.set()
        yield counted, not wrong
    for process in processes:
        process.join()
        if process.exitcode:
            sys.exit(f"a process ended with {process.exitcode}")


def fill(chosen, worker, index, queue, stop):
    try:
        for result in worker(chosen, index):
            queue.put(result)
            if stop.is_set():
                break
    finally:
        queue.put(None)
