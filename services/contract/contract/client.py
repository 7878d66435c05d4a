"""Sends a request and takes down what came; says how to send it again by hand."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from .sse import Event, Parser

LONGEST_BODY_IN_A_COMMAND = 4000


@dataclass
class Answer:
    """What came back; `problem` says why it is not a whole response."""

    status: int | None = None
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    body: bytes = b""
    events: list[Event] = field(default_factory=list)
    problem: str | None = None
    timed_out: bool = False

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "backslashreplace")

    def json(self) -> Any:
        return json.loads(self.body)

    def summary(self, limit: int = 600) -> str:
        if self.status is None:
            return self.problem or "no response"
        kind = self.headers.get("content-type", "no content-type")
        text = self.text if len(self.text) <= limit else f"{self.text[:limit]}…"
        return f"{self.status}, {kind}, {len(self.body)} bytes: {text}" + (f" ({self.problem})" if self.problem else "")


@dataclass(frozen=True)
class Prepared:
    """A request with its variables put in and its address known."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    timeout: float

    def curl(self, note: str = "") -> str:
        words = ["curl", "-sS", "-i", "-N"]
        if self.method == "HEAD":
            words += ["--head"]
        elif self.method != ("GET" if self.body is None else "POST"):
            words += ["-X", self.method]
        words += [self.url]
        for name, value in self.headers.items():
            words += ["-H", f"{name}: {value}"]
        if self.body is not None:
            text = self.body.decode("utf-8", "replace")
            if len(self.body) > LONGEST_BODY_IN_A_COMMAND or text.encode() != self.body:
                words += ["--data-binary", "@BODY"]
                note = f"{note}; BODY is {len(self.body)} bytes, {text[:40]!r}…".removeprefix("; ")
            else:
                words += ["--data-raw", text]
        return shlex.join(words) + (f"   # {note}" if note else "")


class Client:
    def __init__(self) -> None:
        # No proxy and no netrc of the machine's, no redirects: what is tested is what is sent. As plain as a client can be.
        self.http = httpx.Client(
            trust_env=False,
            limits=httpx.Limits(max_connections=None),
            headers={"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "contract"},
        )

    def close(self) -> None:
        self.http.close()

    def send(self, request: Prepared, on_event: Callable[[int], bool] | None = None) -> Answer:
        """The response to `request`. `on_event` hears how many events have come so far, and may say False: enough, close."""
        answer = Answer()
        try:
            with self.http.stream(
                request.method, request.url, headers=request.headers, content=request.body, timeout=request.timeout
            ) as response:
                answer.status, answer.headers = response.status_code, response.headers
                self._read(response, answer, on_event)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            answer.problem = f"{type(error).__name__}: {error}"
            answer.timed_out = isinstance(error, httpx.TimeoutException) and answer.status is None
        except UnicodeDecodeError as error:
            answer.problem = f"an event is not UTF-8: {error}"
        return answer

    def _read(self, response: httpx.Response, answer: Answer, on_event: Callable[[int], bool] | None) -> None:
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        parser = Parser()
        for piece in response.iter_bytes():
            answer.body += piece
            if not is_stream:
                continue
            for event in parser.feed(piece):
                answer.events.append(event)
                if on_event and not on_event(len(answer.events)):
                    return
        if parser.rest:
            answer.problem = f"the stream ended within an event: {parser.rest!r}"
