"""The settings of the simulator: from the environment at start, from X-Sim-* headers for one request."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace


class BadSetting(ValueError):
    """A value that cannot be used; `name` is the variable or the header, the text says what would do."""

    def __init__(self, name: str, wanted: str) -> None:
        super().__init__(f"{name} must be {wanted}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Settings:
    latency_ms: int | None = None  # None: 30 to 50, by the prompt
    tokens: int = 32
    token_interval_ms: int = 20
    error_rate: int = 0  # millionths
    error_status: int = 500
    concurrency: int = 0  # 0: no limit
    seed: int = 0

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "Settings":
        return cls(**{field: READ[field](env[name], name) for name, field in VARIABLES.items() if name in env})

    def for_request(self, headers: Mapping[str, str]) -> "Settings":
        """These settings with what the headers of one request say instead."""
        given = {field: READ[field](headers[name], name) for name, field in HEADERS.items() if name in headers}
        return replace(self, **given) if given else self


def whole(low: int, high: int) -> Callable[[str, str], int]:
    def read(text: str, name: str) -> int:
        if not re.fullmatch("[0-9]{1,10}", text) or not low <= int(text) <= high:
            raise BadSetting(name, f"a whole number from {low} to {high}")
        return int(text)

    return read


def millionths(text: str, name: str) -> int:
    """A rate as a whole number of millionths: exact, the same in every language."""
    match = re.fullmatch(r"([01])(?:\.([0-9]{1,6}))?", text)
    value = int(match[1]) * 1_000_000 + int((match[2] or "").ljust(6, "0")) if match else 1_000_001
    if value > 1_000_000:
        raise BadSetting(name, "a number from 0 to 1 with at most 6 decimals")
    return value


READ: dict[str, Callable[[str, str], int]] = {
    "latency_ms": whole(0, 600_000),
    "tokens": whole(1, 100_000),
    "token_interval_ms": whole(0, 60_000),
    "error_rate": millionths,
    "error_status": whole(400, 599),
    "concurrency": whole(0, 1_000_000),
    "seed": whole(0, 0xFFFFFFFF),
}
VARIABLES = {f"SIM_{field.upper()}": field for field in READ}
# The seed has no header: one process, one world of responses.
HEADERS = {f"X-Sim-{field.replace('_', '-').title()}": field for field in READ if field != "seed"}
port = whole(0, 65535)
