"""The chat completions of OpenAI's API: what is requested, and the bytes of the response."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from .settings import Settings
from .tokens import Draws, chat_bytes

CREATED = 1_735_689_600  # always: equal requests have equal responses


def whole(value: Any) -> Any:
    """1.0 is a whole number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def utf8(value: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("there is a lone surrogate")
    return value


Text = Annotated[str, AfterValidator(utf8)]
NonEmpty = Annotated[Text, Field(min_length=1)]
Count = Annotated[int, Field(ge=1), BeforeValidator(whole)]
One = Annotated[int, Field(ge=1, le=1), BeforeValidator(whole)]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class Part(Strict):
    type: Text
    text: Text | None = None

    @model_validator(mode="after")
    def text_has_text(self) -> "Part":
        if self.type == "text" and self.text is None:
            raise ValueError("a part of type text needs a text")
        return self


class Message(Strict):
    role: NonEmpty
    content: Text | list[Part] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class StreamOptions(Strict):
    include_usage: bool | None = None


class ChatRequest(Strict):
    # The order is that in which a wrong member is named.
    model: NonEmpty
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: Count | None = None
    max_tokens: Count | None = None
    n: One | None = None


class Completion:
    """One response: plain, or as the events of a stream, each with the seconds after which it is due."""

    def __init__(self, chat: ChatRequest, settings: Settings) -> None:
        messages = [(message.role, message.text) for message in chat.messages]
        self.draws = Draws.of(settings.seed, chat_bytes(messages))
        allowed = chat.max_completion_tokens or chat.max_tokens or settings.tokens
        count = min(settings.tokens, allowed)
        prompt_tokens = max(1, (sum(len(text.encode()) for _, text in messages) + 3) // 4)
        latency_ms = self.draws.latency_ms if settings.latency_ms is None else settings.latency_ms

        self.model = chat.model
        self.count = count
        self.finish_reason = "stop" if count == settings.tokens else "length"
        self.id = f"chatcmpl-{self.draws.hash:08x}"
        self.usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": count,
            "total_tokens": prompt_tokens + count,
        }
        self.with_usage = bool(chat.stream_options and chat.stream_options.include_usage)
        self.first_due = latency_ms / 1000
        self.interval = settings.token_interval_ms / 1000

    def plain(self) -> tuple[float, bytes]:
        message = {"role": "assistant", "content": "".join(map(self.draws.token, range(self.count)))}
        body = {
            **self.head("chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason}],
            "usage": self.usage,
        }
        return self.first_due + (self.count - 1) * self.interval, dump(body)

    def events(self) -> Iterator[tuple[float, bytes]]:
        due = self.first_due
        yield due, self.chunk({"role": "assistant", "content": ""})
        # All token events are alike but for the word.
        before, after = self.chunk({"content": "\0"}).rsplit(b'"\\u0000"', 1)
        for i in range(self.count):
            due = self.first_due + i * self.interval
            yield due, before + dump(self.draws.token(i)) + after
        yield due, self.chunk({}, self.finish_reason)
        if self.with_usage:
            yield due, event({**self.head("chat.completion.chunk"), "choices": [], "usage": self.usage})
        yield due, b"data: [DONE]\n\n"

    def chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        usage = {"usage": None} if self.with_usage else {}
        return event({**self.head("chat.completion.chunk"), "choices": [choice], **usage})

    def head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": CREATED, "model": self.model}


def dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def event(value: Any) -> bytes:
    return b"data: " + dump(value) + b"\n\n"
