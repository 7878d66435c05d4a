"""Anthropic's client."""

import anthropic
import pytest
from conftest import GATEWAY, IMAGE, KEY, PROVIDERS, SCHEMA, TEXT, ledger, wait_until

client = anthropic.Anthropic(base_url=GATEWAY, api_key=KEY, max_retries=0)
PROMPT = [{"role": "user", "content": "hello"}]
TOOL = {"name": "weather", "description": "of a city", "input_schema": SCHEMA}


def message(model: str, **more):
    return client.messages.create(
        model=model, max_tokens=64, system="Be brief.", messages=more.pop("messages", PROMPT), **more
    )


def text_of(stream) -> str:
    deltas = (event.delta for event in stream if event.type == "content_block_delta")
    return "".join(delta.text for delta in deltas if delta.type == "text_delta")


def test_models():
    assert {"o", "a", "g"} <= {model.id for model in client.models.list()}
    assert client.models.retrieve("a").id == "a"
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("other")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_plain(provider):
    said = message(provider)
    assert ([block.text for block in said.content], said.role, said.stop_reason) == ([TEXT], "assistant", "end_turn")
    assert (said.type, said.model, said.usage.output_tokens) == ("message", "sim", 8)
    assert said.usage.input_tokens > 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_stream(provider):
    events = list(message(provider, stream=True))
    assert text_of(events) == TEXT
    kinds = [event.type for event in events if event.type != "ping"]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    # A provider of the other API may count nothing; of its own API the client takes no stream without counts.
    for model in (provider, f"{provider}-endless", "o-uncounted", "g-uncounted"):
        with client.messages.stream(model=model, max_tokens=64, messages=PROMPT) as stream:
            text = "".join(stream.text_stream)
            said = stream.get_final_message()
        assert (text, said.content[0].text, said.stop_reason) == (TEXT, TEXT, "end_turn"), model
        if model == provider:
            assert said.usage.output_tokens == 8


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
def test_two_turns_with_a_tool(provider, streams):
    request = {"model": provider, "max_tokens": 64, "tools": [TOOL], "tool_choice": {"type": "any"}}
    if streams:
        with client.messages.stream(messages=PROMPT, **request) as stream:
            said = stream.get_final_message()
    else:
        said = client.messages.create(messages=PROMPT, **request)
    call = said.content[-1]
    assert (said.stop_reason, call.type, call.name, call.input) == (
        "tool_use",
        "tool_use",
        "weather",
        {"city": "Paris"},
    )
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
    history = [*PROMPT, {"role": "assistant", "content": said.content}, {"role": "user", "content": [result]}]
    if streams:
        assert text_of(message(provider, messages=history, tools=[TOOL], stream=True)) == TEXT
    else:
        assert message(provider, messages=history, tools=[TOOL]).content[0].text == TEXT


@pytest.mark.parametrize("provider", PROVIDERS)
def test_images_and_schemas(provider):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
    parts = [image, {"type": "text", "text": "What is it?"}]
    assert message(provider, messages=[{"role": "user", "content": parts}]).content[0].text == TEXT
    wanted = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    assert message(provider, extra_body=wanted).content[0].text == '{"city":"Paris"}'


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
def test_errors_have_their_class(provider, streams):
    for model, wanted, status, kind in [
        ("limited", anthropic.RateLimitError, 429, "rate_limit_error"),
        ("broken", anthropic.InternalServerError, 500, "api_error"),
        ("overloaded", anthropic.InternalServerError, 529, "overloaded_error"),
        ("long", anthropic.BadRequestError, 400, "invalid_request_error"),
        ("filtered", anthropic.BadRequestError, 400, "invalid_request_error"),
    ]:
        if (provider, model) == ("g", "filtered"):
            continue  # no error: test_a_refusal_of_gemini_is_a_response
        with pytest.raises(wanted) as raised:
            message(f"{provider}-{model}", stream=streams)
        assert (raised.value.status_code, raised.value.body["error"]["type"]) == (status, kind), model


def test_a_refusal_of_gemini_is_a_response():
    assert message("g-filtered").stop_reason == "refusal"


def test_refusals_of_the_gateway_are_final():
    patient = client.with_options(max_retries=2)
    with pytest.raises(anthropic.NotFoundError):
        patient.messages.create(model="other", max_tokens=64, messages=PROMPT)
    with pytest.raises(anthropic.BadRequestError, match="top_k"):
        patient.messages.create(model="o", max_tokens=64, messages=PROMPT, extra_body={"top_k": 5})
    with pytest.raises(anthropic.AuthenticationError):
        client.with_options(api_key="wrong").messages.create(model="a", max_tokens=64, messages=PROMPT)


def test_tokens_are_counted_or_estimated():
    for model, is_estimate in [("a", False), ("o", True)]:
        counted = client.messages.with_raw_response.count_tokens(model=model, messages=PROMPT)
        assert counted.parse().input_tokens > 0
        assert (counted.headers.get("X-Weir-Estimate") == "true") == is_estimate


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_client_repeats(provider):
    patient = client.with_options(max_retries=2)
    whole, streamed = (f"once-anthropic-python-{form}" for form in ("whole", "stream"))
    said = patient.messages.create(model=f"{provider}-{whole}", max_tokens=64, messages=PROMPT)
    assert said.content[0].text == TEXT
    with patient.messages.stream(model=f"{provider}-{streamed}", max_tokens=64, messages=PROMPT) as stream:
        assert "".join(stream.text_stream) == TEXT
    calls = ledger()["calls"]
    assert [calls[f"sim-f5-{name}-{provider}"] for name in (whole, streamed)] == [2, 2]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
def test_timeouts_of_the_client_end_the_work(provider, streams):
    before = ledger()["cancelled"]
    impatient = client.with_options(timeout=0.3)
    with pytest.raises(anthropic.APITimeoutError):
        impatient.messages.create(model=f"{provider}-silent", max_tokens=64, messages=PROMPT, stream=streams)
    wait_until(lambda: ledger()["cancelled"] > before, "the provider is told")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("fault", ["cut", "error", "malformed"])
def test_a_stream_that_breaks_off_raises(provider, fault):
    text = ""
    with (  # noqa: PT012
        pytest.raises(anthropic.APIStatusError),
        client.messages.stream(model=f"{provider}-{fault}", max_tokens=64, messages=PROMPT) as stream,
    ):
        for part in stream.text_stream:
            text += part
    assert TEXT.startswith(text)
    assert "" < text < TEXT


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_abort_ends_the_work(provider):
    before = ledger()["cancelled"]
    with client.messages.stream(model=f"{provider}-slow", max_tokens=64, messages=PROMPT) as stream:
        assert next(iter(stream.text_stream)) == "The "
    wait_until(lambda: ledger()["cancelled"] > before, "the provider is told")
