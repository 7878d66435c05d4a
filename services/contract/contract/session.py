"""What the command line and pytest share: the options, and a runner made from them."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cases import BadCases, Suite, Through
from .run import Result, Runner
from .service import Service

STOP = "stops on SIGTERM with exit code 0"


def add_options(add: Callable[..., Any]) -> None:
    """`add` is argparse's add_argument or pytest's addoption."""
    add(
        "--base-url",
        action="append",
        default=[],
        metavar="[NAME=]URL",
        help="where the service is; NAME= for one target of the file",
    )
    add("--start", metavar="COMMAND", help="start the service on free ports (PORT=0), run the cases, stop it")
    add("--cwd", type=Path, default=Path(), metavar="DIR", help="where --start runs the command")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for --start")
    add(
        "--through",
        metavar="NAME",
        help="run through a gateway: a set of path prefixes and tags to skip, from the file",
    )
    add("--map", action="append", default=[], metavar="FROM=TO", help="replace a prefix of every path")
    add("--skip", action="append", default=[], metavar="TAG", help="skip the cases with this tag")
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help="a header for every request")
    add("--var", action="append", default=[], metavar="NAME=VALUE", help="a variable for the cases")


class Session:
    """A runner for a file of cases as the options say, with the service that it may have started."""

    def __init__(
        self, suite: Suite, options: argparse.Namespace, on_result: Callable[[Result], None] = lambda _: None
    ) -> None:
        if bool(options.start) == bool(options.base_url):
            raise BadCases("give either --base-url or --start")
        self.service = None
        through = _through(suite, options)
        variables = dict(_pair(one, "=") for one in options.var)
        if options.start:
            env = {**suite.env, **dict(_pair(one, "=") for one in options.env)}
            self.service = Service(options.start, options.cwd, env, suite.targets)
        base_urls = self.service.base_urls if self.service else dict(_target(one) for one in options.base_url)
        try:
            self.runner = Runner(
                suite, base_urls, through=through, variables=variables, service=self.service, on_result=on_result
            )
        except ValueError as error:
            raise BadCases(str(error)) from None

    def stop(self) -> Result | None:
        """Ends the service that was started; a result, unless a case has stopped it already."""
        self.runner.close()
        if not self.service:
            return None
        try:
            if not self.service.running:
                asked = any(
                    case.meanwhile and case.meanwhile.signal and case.name in self.runner.results
                    for case in self.runner.suite.cases
                )
                return None if asked else Result(STOP, "failed", [f"it ended by itself\n{self.service.said()}"])
            self.service.signal("TERM")
            found = list(self.service.exit_problems())
            return Result(STOP, "failed" if found else "passed", found)
        finally:
            self.service.kill()


def _through(suite: Suite, options: argparse.Namespace) -> Through:
    if options.through is not None and options.through not in suite.through:
        raise BadCases(
            f"{suite.path}: there is no way through named {options.through!r}; there are {', '.join(suite.through) or 'none'}"
        )
    named = suite.through.get(options.through, Through())
    return Through(
        map=named.map | dict(_pair(one, "=") for one in options.map),
        skip=named.skip | set(options.skip),
        headers=named.headers | {name: value.strip() for name, value in (_pair(one, ":") for one in options.header)},
    )


def _target(text: str) -> tuple[str | None, str]:
    return (None, text) if text.startswith(("http://", "https://")) else _pair(text, "=")


def _pair(text: str, separator: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name:
        raise BadCases(f"expected NAME{separator}VALUE, came {text!r}")
    return name, value
