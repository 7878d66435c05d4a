"""JSON as the cases write it: numbers keep their digits, and two macros make what would be unreadable."""

from __future__ import annotations

import json
from typing import Any


class Number(str):
    """A number, digit by digit: 1.10 and 1.1 are two."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is Number and str.__eq__(self, other)

    __hash__ = str.__hash__


def loads(text: str) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number)


def dumps(value: Any) -> str:
    """The text of `value`, its macros opened."""
    if isinstance(value, Number):
        return str.__str__(value)
    value = expand(value)
    if isinstance(value, Number):
        return str.__str__(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{dumps(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def expand(value: Any) -> Any:
    """Opens a macro: {"$repeat": ["é", 255]} is a text or array of so many, {"$nested": 64} an array in an array and so on."""
    match value:
        case {"$repeat": [str() as text, count]}:
            return text * int(count)
        case {"$repeat": [item, count]}:
            return [item] * int(count)
        case {"$nested": levels}:
            inner: Any = []
            for _ in range(int(levels) - 1):
                inner = [inner]
            return inner
    return value


def expand_all(value: Any) -> Any:
    value = expand(value)
    if isinstance(value, dict):
        return {key: expand_all(member) for key, member in value.items()}
    if isinstance(value, list):
        return [expand_all(item) for item in value]
    return value
