"""Variables in cases, and values that are made rather than written."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

GENERATORS: dict[str, Callable[[Any], Any]] = {
    "$repeat": lambda argument: argument[0] * argument[1],  # [text, times]
    "$add": sum,
}


class UnknownVariable(Exception):
    pass


def fill(value: Any, variables: Mapping[str, Any]) -> Any:
    """`value` with its variables put in and its generators run. A text that is nothing but ${name} takes the variable's type."""
    if isinstance(value, str):
        whole = NAME.fullmatch(value)
        if whole:
            return _get(whole[1], variables)
        return NAME.sub(lambda match: str(_get(match[1], variables)), value)
    if isinstance(value, list):
        return [fill(one, variables) for one in value]
    if isinstance(value, dict):
        filled = {fill(key, variables): fill(one, variables) for key, one in value.items()}
        for name, argument in filled.items():
            if name in GENERATORS:
                return GENERATORS[name](argument)
        return filled
    return value


def names_in(value: Any) -> Iterator[str]:
    """The variables that `fill` would need."""
    if isinstance(value, str):
        yield from NAME.findall(value)
    elif isinstance(value, list):
        for one in value:
            yield from names_in(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from names_in(key)
            yield from names_in(one)


def _get(name: str, variables: Mapping[str, Any]) -> Any:
    if name not in variables:
        raise UnknownVariable(
            f"there is no variable ${{{name}}}: no case that ran captured it, and --var does not set it"
        )
    return variables[name]
