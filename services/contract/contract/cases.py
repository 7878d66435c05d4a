"""Reads a file of cases; what cannot be meant is refused before anything is sent."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .match import check_rules
from .values import names_in

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SIGNALS = ("TERM", "INT")


class BadCases(Exception):
    """The file cannot be used; the text says where and why."""


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    target: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None  # text, bytes, or JSON when is_json
    is_json: bool = False
    timeout: float = 10.0


@dataclass(frozen=True)
class Expect:
    """What one response must be. A member that is None is not looked at."""

    times: list[int] | None = None  # how many of the responses: lowest and highest
    status: Any = None
    headers: dict[str, Any] = field(default_factory=dict)
    json: Any = None
    json_exact: Any = None
    pointers: dict[str, Any] = field(default_factory=dict)
    text: Any = None
    sse: list[dict[str, Any]] | None = None
    sse_join: dict[str, Any] = field(default_factory=dict)
    no_answer: bool = False  # the client gives up, after the request's timeout, and is right to


@dataclass(frozen=True)
class Meanwhile:
    """What is done once `after` events of a stream have come, and before more are read."""

    after: int
    request: Request | None = None
    expect: Expect | None = None
    signal: str | None = None


@dataclass(frozen=True)
class Case:
    name: str
    request: Request
    expect: list[Expect]
    tags: frozenset[str] = frozenset()
    when: dict[str, Any] = field(default_factory=dict)
    repeat: int = 1
    concurrent: int = 1
    within: float = 0.0
    leave_after: int | None = None
    meanwhile: Meanwhile | None = None
    capture: dict[str, Any] = field(default_factory=dict)

    @property
    def uses(self) -> set[str]:
        """The variables that must be there before the case can run."""
        parts: list[Any] = [vars(self.request), *(vars(one) for one in self.expect)]
        if self.meanwhile:
            parts += [vars(one) for one in (self.meanwhile.request, self.meanwhile.expect) if one]
        return {name for part in parts for name in names_in(part)} | self.when.keys()


@dataclass(frozen=True)
class Through:
    """How the cases are run through a gateway: paths by prefix, and the tags that do not apply there."""

    map: dict[str, str] = field(default_factory=dict)
    skip: frozenset[str] = frozenset()
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    path: Path
    cases: list[Case]
    targets: list[str]
    env: dict[str, str]
    variables: dict[str, Any]
    through: dict[str, Through]


class _Loader(yaml.SafeLoader):
    """YAML as people read it: a key given twice is an error, and only true and false are booleans."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise BadCases(f"line {key_node.start_mark.line + 1}: {key!r} is there twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if first in "tTfF" or tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(path: Path) -> Suite:
    try:
        return _suite(path, yaml.load(path.read_text(encoding="utf-8"), _Loader))
    except (OSError, yaml.YAMLError, BadCases) as error:
        raise BadCases(f"{path}: {error}") from None


def _suite(path: Path, raw: Any) -> Suite:
    top = _mapping(raw, "the file", {"about", "targets", "env", "defaults", "vars", "through", "cases"})
    defaults = _mapping(top.get("defaults"), "defaults", {"headers", "timeout"})
    targets = top.get("targets") or []
    cases = [
        _case(variant, i, defaults, targets)
        for i, one in enumerate(top.get("cases") or [], 1)
        for variant in _variants(one, f"case {i}")
    ]
    if not cases:
        raise BadCases("there are no cases")
    names = [case.name for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise BadCases(f"two cases are named {name!r}")
    if any(case.meanwhile and case.meanwhile.signal for case in cases[:-1]):
        raise BadCases("only the last case can send a signal: nothing is there to respond after it")
    return Suite(
        path=path,
        cases=cases,
        targets=targets,
        env={key: str(value) for key, value in (top.get("env") or {}).items()},
        variables=top.get("vars") or {},
        through={name: _through(one, f"through {name}") for name, one in (top.get("through") or {}).items()},
    )


def _through(raw: Any, where: str) -> Through:
    one = _mapping(raw, where, {"about", "map", "skip", "headers"})
    return Through(
        map=one.get("map") or {}, skip=frozenset(one.get("skip") or []), headers=_texts(one.get("headers"), where)
    )


def _variants(raw: Any, where: str) -> Iterator[Any]:
    """A case with `variants` is as many cases: each adds its members, or puts them in the place of the case's own."""
    if not isinstance(raw, dict) or "variants" not in raw:
        yield raw
        return
    common = {key: value for key, value in raw.items() if key != "variants"}
    for name, own in _mapping(raw["variants"], f"{where}, variants").items():
        yield (
            common
            | _mapping(own, f"{where}, variant {name}", CASE_KEYS - {"name"})
            | {"name": f"{raw.get('name')}: {name}"}
        )


REQUEST_KEYS = {"request", "target", "headers", "json", "body", "body_hex", "timeout"}
CASE_KEYS = REQUEST_KEYS | {
    "name", "about", "tags", "when", "repeat", "concurrent", "within", "leave_after", "meanwhile", "expect", "capture",
}  # fmt: skip
EXPECT_KEYS = {"times", "status", "headers", "json", "json_exact", "pointers", "text", "sse", "sse_join", "no_answer"}


def _case(raw: Any, number: int, defaults: Mapping[str, Any], targets: list[str]) -> Case:
    name = raw.get("name") if isinstance(raw, dict) else None
    where = f"case {number}" + (f" ({name})" if name else "")
    one = _mapping(raw, where, CASE_KEYS)
    if not isinstance(name, str) or not name:
        raise BadCases(f"{where}: it has no name")
    several = one.get("repeat", 1) * one.get("concurrent", 1)
    expect = one.get("expect", {})
    alternatives = [_expect(each, where) for each in (expect if isinstance(expect, list) else [expect])]
    if isinstance(expect, list) and any(each.times is None for each in alternatives):
        raise BadCases(f"{where}: each of several expectations says how many `times`")
    if several > 1 and "capture" in one:
        raise BadCases(f"{where}: which of its {several} responses is to be captured?")
    return Case(
        name=name,
        request=_request(one, where, defaults, targets),
        expect=alternatives,
        tags=frozenset(one.get("tags") or []),
        when=one.get("when") or {},
        repeat=_count(one, "repeat", where),
        concurrent=_count(one, "concurrent", where),
        within=float(one.get("within", 0)),
        leave_after=one.get("leave_after"),
        meanwhile=_meanwhile(one["meanwhile"], where, defaults, targets) if "meanwhile" in one else None,
        capture=one.get("capture") or {},
    )


def _request(one: Mapping[str, Any], where: str, defaults: Mapping[str, Any], targets: list[str]) -> Request:
    method, _, path = str(one.get("request", "")).partition(" ")
    if method not in METHODS or not path.startswith(("/", "${")):
        raise BadCases(f"{where}: `request` is a method and a path, as in GET /healthz")
    if len(one.keys() & {"json", "body", "body_hex"}) > 1:
        raise BadCases(f"{where}: one body is enough")
    target = one.get("target")
    if (target is None) == bool(targets) or (target and target not in targets):
        raise BadCases(
            f"{where}: `target` is one of the file's `targets`, {', '.join(targets) or 'of which there are none'}"
        )
    body = one.get("json", one.get("body"))
    if "body_hex" in one:
        body = bytes.fromhex(one["body_hex"])
    return Request(
        method=method,
        path=path,
        target=target,
        headers=_texts((defaults.get("headers") or {}) | (one.get("headers") or {}), where),
        body=body,
        is_json="json" in one,
        timeout=float(one.get("timeout", defaults.get("timeout", 10))),
    )


def _expect(raw: Any, where: str) -> Expect:
    one = _mapping(raw, f"{where}, expect", EXPECT_KEYS)
    for problem in _rule_problems(one):
        raise BadCases(f"{where}, expect {problem}")
    for path in [*one.get("pointers", {}), *one.get("sse_join", {})]:
        if path and not path.startswith("/"):
            raise BadCases(f"{where}: {path!r} is not a JSON pointer: it begins with /")
    for event in one.get("sse") or []:
        _mapping(event, f"{where}, expect sse", {"json", "data", "event", "times"})
    fields = dict(one)
    fields["times"] = _range(one.get("times"), where)
    fields["headers"] = {name.lower(): value for name, value in (one.get("headers") or {}).items()}
    return Expect(**fields)


def _rule_problems(one: Mapping[str, Any]) -> Iterator[str]:
    for key in ("status", "json", "text"):
        yield from check_rules(one.get(key), key)
    for key in ("headers", "pointers", "sse_join"):
        for name, value in (one.get(key) or {}).items():
            yield from check_rules(value, f"{key} {name}")
    for event in one.get("sse") or []:
        for key in ("json", "data", "event"):
            yield from check_rules(event.get(key), f"sse {key}")


def _meanwhile(raw: Any, where: str, defaults: Mapping[str, Any], targets: list[str]) -> Meanwhile:
    one = _mapping(raw, f"{where}, meanwhile", REQUEST_KEYS | {"after", "expect", "signal"})
    if ("signal" in one) == ("request" in one):
        raise BadCases(f"{where}: `meanwhile` sends either a request or a signal")
    if "signal" in one:
        if one["signal"] not in SIGNALS:
            raise BadCases(f"{where}: a signal is one of {', '.join(SIGNALS)}")
        return Meanwhile(after=one.get("after", 1), signal=one["signal"])
    return Meanwhile(
        after=one.get("after", 1),
        request=_request(one, where, defaults, targets),
        expect=_expect(one.get("expect", {}), where),
    )


def _mapping(raw: Any, where: str, keys: set[str] | None = None) -> dict[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise BadCases(f"{where}: expected a mapping, came {raw!r}")
    for key in raw:
        if keys is not None and key not in keys:
            raise BadCases(f"{where}: there is no {key!r}; there are {', '.join(sorted(keys))}")
    return raw


def _texts(raw: Any, where: str) -> dict[str, str]:
    """Headers to send; null takes away what the defaults have."""
    if raw is not None and not isinstance(raw, dict):
        raise BadCases(f"{where}: headers are a mapping")
    return {str(key): str(value) for key, value in (raw or {}).items() if value is not None}


def _count(one: Mapping[str, Any], key: str, where: str) -> int:
    value = one.get(key, 1)
    if not isinstance(value, int) or not 1 <= value <= 10_000:
        raise BadCases(f"{where}: `{key}` is a whole number from 1 to 10000")
    return value


def _range(raw: Any, where: str) -> list[int] | None:
    if raw is None:
        return None
    low_high = raw if isinstance(raw, list) else [raw, raw]
    if len(low_high) != 2 or not all(isinstance(n, int) and n >= 0 for n in low_high):
        raise BadCases(f"{where}: `times` is a number or [lowest, highest]")
    return low_high
