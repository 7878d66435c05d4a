import json

import pytest
from app.chat import ChatRequest, Completion
from app.settings import Settings
from app.tokens import Draws

from .conftest import SERVICE

VECTORS = json.loads((SERVICE.parent / "inference.vectors.json").read_text())


@pytest.mark.parametrize("case", VECTORS["infer"], ids=lambda case: case["prompt"][:20])
def test_latency_is_drawn_from_the_prompt(case):
    assert Draws.of(case["seed"], case["prompt"].encode()).latency_ms == case["latency_ms"]


@pytest.mark.parametrize("case", VECTORS["chat"], ids=lambda case: case["id"])
def test_completion_is_drawn_from_the_messages(case):
    chat = ChatRequest(model="m", messages=case["messages"])
    completion = Completion(chat, Settings(seed=case["seed"], tokens=len(case["tokens"])))
    assert completion.id == case["id"]
    assert completion.first_due == case["latency_ms"] / 1000
    assert completion.usage["prompt_tokens"] == case["prompt_tokens"]
    assert [completion.draws.token(i) for i in range(completion.count)] == case["tokens"]


def test_a_model_named_like_the_place_of_the_word_is_still_one_event_a_token():
    chat = ChatRequest(model="\0", messages=[{"role": "user", "content": "hello"}], stream=True)
    events = [
        json.loads(event[6:]) for _, event in Completion(chat, Settings(tokens=3)).events() if b"DONE" not in event
    ]
    assert [event["choices"][0]["delta"].get("content") for event in events] == ["", "trout", " weir", " sluice", None]
    assert {event["model"] for event in events} == {"\0"}
