"""Runs the cases of a suite, in order, against base URLs."""

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .cases import Case, Expect, Meanwhile, Request, Suite, Through
from .check import deal, problems
from .client import Answer, Client, Prepared
from .match import ABSENT, matches, pointer, show
from .service import Service
from .values import UnknownVariable, fill

PAUSE_BETWEEN_TRIES = 0.05


@dataclass
class Result:
    case: str
    state: Literal["passed", "failed", "skipped", "not applicable"]
    problems: list[str] = field(default_factory=list)
    came: str = ""
    again: str = ""
    why: str = ""

    def text(self) -> str:
        """What a person reads: the case, what is wrong, what came, and how to see it again."""
        state = "FAILED" if self.state == "failed" else self.state
        lines = [f"{state:7} {self.case}" + (f" ({self.why})" if self.why else "")]
        lines += [f"        {problem}" for problem in self.problems]
        if self.came:
            lines.append(f"        came: {self.came}")
        if self.again:
            lines.append(f"        again: {self.again}")
        return "\n".join(lines)


class Runner:
    def __init__(
        self,
        suite: Suite,
        base_urls: Mapping[str | None, str],
        *,
        through: Through | None = None,
        variables: Mapping[str, Any] | None = None,
        service: Service | None = None,
        on_result: Callable[[Result], None] = lambda _: None,
    ) -> None:
        """`base_urls` by target; the one under None serves every target that has none of its own."""
        if None not in base_urls and not (suite.targets and set(suite.targets) <= base_urls.keys()):
            missing = ", ".join(set(suite.targets) - base_urls.keys()) or "the service"
            raise ValueError(f"no base URL for {missing}: give one URL for all, or --base-url NAME=URL for each target")
        self.suite = suite
        self.base_urls = dict(base_urls)
        self.through = through or Through()
        self.variables = {"run": secrets.token_hex(4), **suite.variables, **(variables or {})}
        self.service = service
        self.on_result = on_result
        self.client = Client()
        self.results: dict[str, Result] = {}

    def close(self) -> None:
        self.client.close()

    def run(self, case: Case) -> Result:
        """The result of a case, and before it of those above it that capture what it uses. No case runs twice."""
        if case.name not in self.results:
            for other in self.suite.cases[: self.suite.cases.index(case)]:
                if case.uses & other.capture.keys():
                    self.run(other)
            self.results[case.name] = self._run(case)
            self.on_result(self.results[case.name])
        return self.results[case.name]

    def _run(self, case: Case) -> Result:
        unwanted = case.tags & self.through.skip
        if unwanted:
            return Result(case.name, "skipped", why=f"tagged {', '.join(sorted(unwanted))}")
        for name, wanted in case.when.items():
            if name not in self.variables:
                return Result(case.name, "failed", [f"it depends on ${{{name}}}, which no case captured"])
            if not matches(wanted, self.variables[name]):
                return Result(case.name, "not applicable", why=f"{name} is {show(self.variables[name])}")
        if case.meanwhile and case.meanwhile.signal and not self.service:
            return Result(case.name, "skipped", why="a signal needs --start")
        deadline = time.monotonic() + case.within
        while True:
            try:
                result = self._try(case)
            except UnknownVariable as error:
                return Result(case.name, "failed", [str(error)])
            if result.state == "passed" or time.monotonic() >= deadline:
                return result
            time.sleep(PAUSE_BETWEEN_TRIES)

    def _try(self, case: Case) -> Result:
        several = max(case.repeat, case.concurrent)
        expects = [self._fill_expect(one, self.variables) for one in case.expect]
        requests = [self.prepare(case.request, {**self.variables, "i": i}) for i in range(several)]
        found: list[str] = []
        if case.leave_after is not None or case.meanwhile:
            answers = [self._stream(case, requests[0], found)]
        elif case.concurrent > 1:
            with ThreadPoolExecutor(case.concurrent) as pool:
                answers = list(pool.map(self.client.send, requests))
        else:
            answers = [self.client.send(request) for request in requests]

        if several == 1 and len(expects) == 1:
            found += problems(expects[0], answers[0])
        else:
            found += deal(expects, answers)
        if not found:
            found += self._capture(case, answers[0])
        if not found and case.meanwhile and case.meanwhile.signal and self.service:
            found += self.service.exit_problems()
        if not found:
            return Result(case.name, "passed")
        note = "" if several == 1 else f"{several} times, {'at once' if case.concurrent > 1 else 'one after the other'}"
        came = answers[0].summary() if several == 1 else ""
        return Result(case.name, "failed", found, came, requests[0].curl(note))

    def _stream(self, case: Case, request: Prepared, found: list[str]) -> Answer:
        """The response to a request during which something else happens."""
        happened = False

        def on_event(count: int) -> bool:
            nonlocal happened
            if case.meanwhile and count == case.meanwhile.after:
                happened = True
                found.extend(self._meanwhile(case.meanwhile))
            return count != case.leave_after

        answer = self.client.send(request, on_event)
        if case.meanwhile and not happened:
            found.append(f"expected {case.meanwhile.after} events, came {len(answer.events)}")
        return answer

    def _meanwhile(self, what: Meanwhile) -> Iterator[str]:
        if what.signal and self.service:
            self.service.signal(what.signal)
        if what.request and what.expect:
            request = self.prepare(what.request, self.variables)
            expect = self._fill_expect(what.expect, self.variables)
            answer = self.client.send(request)
            for problem in problems(expect, answer):
                yield f"after {what.after} events, {what.request.method} {what.request.path}: {problem}; it is {answer.summary(200)}"

    def prepare(self, request: Request, variables: Mapping[str, Any]) -> Prepared:
        headers = {**self.through.headers, **fill(request.headers, variables)}
        body = request.body if isinstance(request.body, bytes) else fill(request.body, variables)
        if request.is_json:
            body = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
            headers = {"Content-Type": "application/json"} | headers
        elif isinstance(body, str):
            body = body.encode()
        base = self.base_urls.get(request.target) or self.base_urls[None]
        return Prepared(
            request.method,
            base.rstrip("/") + self._mapped(fill(request.path, variables)),
            headers,
            body,
            request.timeout,
        )

    def _mapped(self, path: str) -> str:
        for prefix in sorted(self.through.map, key=len, reverse=True):
            rest = path.removeprefix(prefix)
            if path.startswith(prefix) and (prefix.endswith("/") or rest[:1] in ("", "/", "?")):
                return self.through.map[prefix] + rest
        return path

    @staticmethod
    def _fill_expect(expect: Expect, variables: Mapping[str, Any]) -> Expect:
        return replace(expect, **{name: fill(value, variables) for name, value in vars(expect).items()})

    def _capture(self, case: Case, answer: Answer) -> Iterator[str]:
        for name, source in case.capture.items():
            value = captured(source, answer)
            if value is ABSENT:
                yield f"capture {name}: there is nothing at {show(source)}"
            else:
                self.variables[name] = value


def captured(source: Any, answer: Answer) -> Any:
    """A JSON pointer, or {header: NAME} or {pointer: POINTER}, each with {matches: REGEX} for the part in its first group."""
    how = {"pointer": source} if isinstance(source, str) else source
    try:
        value = (
            answer.headers.get(how["header"], ABSENT)
            if "header" in how
            else pointer(answer.json(), how.get("pointer", ""))
        )
    except ValueError:
        return ABSENT
    if value is not ABSENT and "matches" in how:
        match = re.search(how["matches"], str(value))
        return match[1] if match else ABSENT
    return value
