"""Compares what came with what a case expects; every difference is a line for a person."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .values import GENERATORS

ABSENT = object()
TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}


def differences(expected: Any, came: Any, at: str = "", *, exact: bool = False) -> Iterator[str]:
    """Lines that say where `came` is not what is expected; none when all is well.

    An object in `expected` whose keys begin with $ is a rule. Of another all members must match, and there may be more
    unless `exact`. Arrays match element by element, and other values by being equal.
    """
    if is_rule(expected):
        yield from _rule(expected, came, at)
    elif came is ABSENT:
        yield f"{at or 'value'}: expected {show(expected)}, it is absent"
    elif isinstance(expected, dict) and isinstance(came, dict):
        for key, value in expected.items():
            yield from differences(value, came.get(key, ABSENT), f"{at}/{escape(key)}", exact=exact)
        if exact:
            for key in came.keys() - expected.keys():
                yield f"{at}/{escape(key)}: not expected, came {show(came[key])}"
    elif isinstance(expected, list) and isinstance(came, list):
        if len(expected) != len(came):
            yield f"{at or 'value'}: expected {len(expected)} elements, came {len(came)}: {show(came)}"
        for i, (one, other) in enumerate(zip(expected, came, strict=False)):
            yield from differences(one, other, f"{at}/{i}", exact=exact)
    elif not equal(expected, came):
        yield f"{at or 'value'}: expected {show(expected)}, came {show(came)}"


def matches(expected: Any, came: Any) -> bool:
    return next(differences(expected, came), None) is None


def equal(one: Any, other: Any) -> bool:
    """Equal as JSON is: 1 is 1.0, but true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def is_rule(expected: Any) -> bool:
    return isinstance(expected, dict) and bool(expected) and all(str(key).startswith("$") for key in expected)


def _rule(rule: dict[str, Any], came: Any, at: str) -> Iterator[str]:
    if came is ABSENT:
        if not rule.get("$absent"):
            yield f"{at or 'value'}: expected {describe(rule)}, it is absent"
        return
    if not all(RULES[name](wanted, came) for name, wanted in rule.items()):
        yield f"{at or 'value'}: expected {describe(rule)}, came {show(came)}"


def _length(wanted: Any, came: Any) -> bool:
    low, high = wanted if isinstance(wanted, list) else (wanted, wanted)
    return isinstance(came, str | list) and low <= len(came) <= high


def _contains(wanted: Any, came: Any) -> bool:
    if isinstance(came, str):
        return str(wanted) in came
    return isinstance(came, list) and any(matches(wanted, one) for one in came)


RULES: dict[str, Callable[[Any, Any], bool]] = {
    "$type": lambda wanted, came: TYPES[wanted](came),
    "$min": lambda wanted, came: TYPES["number"](came) and came >= wanted,
    "$max": lambda wanted, came: TYPES["number"](came) and came <= wanted,
    "$matches": lambda wanted, came: isinstance(came, str) and re.search(wanted, came) is not None,
    "$one_of": lambda wanted, came: any(matches(one, came) for one in wanted),
    "$exact": lambda wanted, came: next(differences(wanted, came, exact=True), None) is None,
    "$length": _length,
    "$contains": _contains,
    "$each": lambda wanted, came: isinstance(came, list) and all(matches(wanted, one) for one in came),
    "$not": lambda wanted, came: not matches(wanted, came),
    "$any": lambda wanted, came: bool(wanted),
    "$absent": lambda wanted, came: not wanted,
}


def check_rules(expected: Any, at: str) -> Iterator[str]:
    """What is wrong with the rules in `expected`, before any of them is used."""
    if isinstance(expected, list):
        for one in expected:
            yield from check_rules(one, at)
    if not isinstance(expected, dict):
        return
    if expected.keys() & GENERATORS:
        return
    if any(str(key).startswith("$") for key in expected):
        for name, wanted in expected.items():
            if name not in RULES:
                yield f"{at}: there is no rule {name!r}; there are {', '.join(RULES)}, and rules do not mix with plain members"
            elif name == "$type" and wanted not in TYPES:
                yield f"{at}: there is no type {wanted!r}; there are {', '.join(TYPES)}"
            elif name == "$matches":
                try:
                    re.compile(wanted)
                except re.error as error:
                    yield f"{at}: {wanted!r} is no regular expression: {error}"
    for value in expected.values():
        yield from check_rules(value, at)


def describe(rule: dict[str, Any]) -> str:
    return " and ".join(f"{name[1:].replace('_', ' ')} {show(wanted)}" for name, wanted in rule.items())


def show(value: Any, limit: int = 300) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def escape(key: str) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def pointer(value: Any, path: str) -> Any:
    """What a JSON pointer (RFC 6901) leads to, or ABSENT."""
    for part in path.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return ABSENT
    return value
