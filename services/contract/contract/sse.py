"""Server-sent events as the HTML standard reads them (§9.2.6)."""

import re
from dataclasses import dataclass, field


@dataclass
class Event:
    data: str
    event: str | None = None
    id: str | None = None


@dataclass
class Parser:
    """Bytes in, events out as soon as the empty line that ends them is there."""

    rest: bytes = b""
    fields: dict[str, list[str]] = field(default_factory=dict)

    def feed(self, piece: bytes) -> list[Event]:
        self.rest += piece
        events = []
        while True:
            # A CR that is last may be half of a CRLF.
            end = re.search(rb"\r\n|\n|\r(?!\Z)", self.rest)
            if not end:
                return events
            line, self.rest = self.rest[: end.start()].decode("utf-8"), self.rest[end.end() :]
            if line == "":
                event = self._dispatch()
                if event:
                    events.append(event)
            elif not line.startswith(":"):
                name, _, value = line.partition(":")
                self.fields.setdefault(name, []).append(value.removeprefix(" "))

    def _dispatch(self) -> Event | None:
        fields, self.fields = self.fields, {}
        if "data" not in fields:
            return None
        return Event("\n".join(fields["data"]), *(fields.get(name, [None])[-1] for name in ("event", "id")))
