"""What the model "says": a pure function of the seed and the prompt, equal in every implementation."""

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

WORDS = (
    "river weir water flow stone bank level gauge stream gate lock mill pool rapid delta source mouth reed heron "
    "otter trout bridge ferry canal sluice basin Flüsse źródło río вода 水 🌊"
).split()
MASK = 0xFFFFFFFF


def mix(x: int) -> int:
    """The finalizer of MurmurHash3: every bit of x moves every bit of the result."""
    x ^= x >> 16
    x = x * 0x85EBCA6B & MASK
    x ^= x >> 13
    x = x * 0xC2B2AE35 & MASK
    return x ^ x >> 16


@dataclass(frozen=True, slots=True)
class Draws:
    """The numbers drawn for one prompt."""

    hash: int

    @classmethod
    def of(cls, seed: int, prompt: bytes) -> "Draws":
        return cls(mix(crc32(prompt) ^ seed))

    def draw(self, i: int) -> int:
        return mix(self.hash + i * 0x9E3779B9 & MASK)

    @property
    def latency_ms(self) -> int:
        return 30 + self.draw(0) % 21

    def token(self, i: int) -> str:
        return (" " if i else "") + WORDS[self.draw(i + 1) >> 27]


def chat_bytes(messages: Iterable[tuple[str, str]]) -> bytes:
    """The bytes of a chat: role, zero, text, zero for each message."""
    return "".join(f"{role}\0{text}\0" for role, text in messages).encode()
