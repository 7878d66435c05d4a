"""What the tests of the Python clients share: where the gateway and the simulator are, and what the simulator says."""

import json
import os
import time
import urllib.request

GATEWAY = os.environ["GATEWAY_URL"]
SIMULATOR = os.environ["SIMULATOR_URL"]
KEY = os.environ["GATEWAY_KEY"]
TEXT = "The quick brown fox jumps over lazy dögs. "
# Models at a provider of OpenAI's API, at one of Anthropic's and at one of Gemini's: two of the three are translated.
PROVIDERS = ["o", "a", "g"]
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def ledger() -> dict:
    with urllib.request.urlopen(f"{SIMULATOR}/simulator/ledger") as response:
        return json.load(response)


def wait_until(holds, what: str) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, f"20 s have passed, and still not: {what}"
        time.sleep(0.01)
