"""`python -m contract FILE --base-url URL`: see README.md."""

import argparse
import signal
import sys
from pathlib import Path

from .cases import BadCases, load
from .run import Result
from .service import NotStarted
from .session import Session, add_options


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a service that was started is ended too
    options = parse()
    results: list[Result] = []

    def on_result(result: Result) -> None:
        results.append(result)
        if result.state == "failed" or (result.state != "not applicable" and not options.quiet):
            print(result.text(), flush=True)

    try:
        suite = load(options.file)
        if options.list:
            print("\n".join(case.name + "".join(f" [{tag}]" for tag in sorted(case.tags)) for case in suite.cases))
            return 0
        chosen = [case for case in suite.cases if not options.only or any(text in case.name for text in options.only)]
        if not chosen:
            raise BadCases(f"{options.file}: no case has {' or '.join(map(repr, options.only))} in its name")
        session = Session(suite, options, on_result)
    except BadCases as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (NotStarted, OSError) as error:
        on_result(Result("the service starts", "failed", [str(error)]))
        return finish(results)
    try:
        for case in chosen:
            session.runner.run(case)
    finally:
        stopped = session.stop()
    if stopped:
        on_result(stopped)
    return finish(results)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="contract", description="Runs a file of cases against a service.")
    parser.add_argument("file", type=Path, help="a file of cases, as cases/inference.yaml")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="the cases whose name contains TEXT, and those that they need"
    )
    parser.add_argument("--list", action="store_true", help="show the cases and run none")
    parser.add_argument("-q", "--quiet", action="store_true", help="say only what failed")
    add_options(parser.add_argument)
    return parser.parse_args()


def finish(results: list[Result]) -> int:
    passed, failed, skipped = (
        sum(result.state == state for result in results) for state in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
