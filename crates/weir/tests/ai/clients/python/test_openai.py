"""OpenAI's client."""

import asyncio
import json

import openai
import pytest
from conftest import GATEWAY, IMAGE, KEY, PROVIDERS, SCHEMA, TEXT, ledger, wait_until

client = openai.OpenAI(base_url=f"{GATEWAY}/v1", api_key=KEY, max_retries=0)
PROMPT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": SCHEMA}}


def chat(model: str, **more):
    return client.chat.completions.create(model=model, messages=more.pop("messages", PROMPT), **more)


def text_of(stream) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def test_models():
    assert {"o", "a", "g"} <= {model.id for model in client.models.list()}
    assert client.models.retrieve("o").id == "o"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_plain(provider):
    completion = chat(provider)
    choice = completion.choices[0]
    assert (choice.message.content, choice.message.role, choice.finish_reason) == (TEXT, "assistant", "stop")
    assert (completion.object, completion.model, completion.usage.completion_tokens) == ("chat.completion", "sim", 8)
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + 8
    raw = client.chat.completions.with_raw_response.create(model=provider, messages=PROMPT)
    assert raw.headers["x-weir-model"].endswith("/sim")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_stream(provider):
    chunks = list(chat(provider, stream=True, stream_options={"include_usage": True}))
    assert text_of(chunks) == TEXT
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert (chunks[-1].choices, chunks[-1].usage.completion_tokens) == ([], 8)
    # The gateway requests usage for itself; the client did not.
    assert all(chunk.usage is None for chunk in chat(provider, stream=True))
    # Without a last event it is complete all the same.
    assert text_of(chat(f"{provider}-endless", stream=True)) == TEXT
    assert text_of(chat(f"{provider}-uncounted", stream=True, stream_options={"include_usage": True})) == TEXT


@pytest.mark.parametrize("provider", PROVIDERS)
def test_stream_helper(provider):
    with client.chat.completions.stream(model=provider, messages=PROMPT, tools=[TOOL]) as stream:
        kinds = {event.type for event in stream}
        completion = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    call = completion.choices[0].message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Paris"})


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
def test_two_turns_with_a_tool(provider, streams):
    if streams:
        call, arguments = None, ""
        for chunk in chat(provider, tools=[TOOL], stream=True):
            for part in chunk.choices[0].delta.tool_calls or []:
                call = call or part
                arguments += part.function.arguments or ""
            reason = chunk.choices[0].finish_reason
        made = {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}}
        said = {"role": "assistant", "content": None, "tool_calls": [made]}
    else:
        # Gemini has no equivalent of the last one.
        one = {} if provider == "g" else {"parallel_tool_calls": False}
        choice = chat(provider, tools=[TOOL], tool_choice="required", **one).choices[0]
        said, reason = choice.message, choice.finish_reason
        made = choice.message.tool_calls[0].model_dump()
    assert (reason, json.loads(made["function"]["arguments"])) == ("tool_calls", {"city": "Paris"})
    history = [*PROMPT, said, {"role": "tool", "tool_call_id": made["id"], "content": "rain"}]
    if streams:
        assert text_of(chat(provider, messages=history, tools=[TOOL], stream=True)) == TEXT
    else:
        assert chat(provider, messages=history, tools=[TOOL]).choices[0].message.content == TEXT


@pytest.mark.parametrize("provider", PROVIDERS)
def test_images_and_schemas(provider):
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
    ]
    assert chat(provider, messages=[{"role": "user", "content": parts}]).choices[0].message.content == TEXT
    wanted = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
    assert json.loads(chat(provider, response_format=wanted).choices[0].message.content) == {"city": "Paris"}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
def test_errors_have_their_class(provider, streams):
    for model, wanted, status in [
        ("limited", openai.RateLimitError, 429),
        ("broken", openai.InternalServerError, 500),
        ("overloaded", openai.InternalServerError, 503),
        ("long", openai.BadRequestError, 400),
        ("filtered", openai.BadRequestError, 400),
    ]:
        if (provider, model) == ("g", "filtered"):
            continue  # no error: test_a_refusal_of_gemini_is_a_response
        with pytest.raises(wanted) as raised:
            chat(f"{provider}-{model}", stream=streams)
        assert raised.value.status_code == status, model
        if model == "long":
            assert raised.value.code == "context_length_exceeded"
        if model == "filtered":
            assert raised.value.code == "content_filter"


def test_a_refusal_of_gemini_is_a_response():
    assert chat("g-filtered").choices[0].finish_reason == "content_filter"
    assert [chunk.choices[0].finish_reason for chunk in chat("g-filtered", stream=True)][-1] == "content_filter"


def test_refusals_of_the_gateway_are_final():
    patient = client.with_options(max_retries=2)
    with pytest.raises(openai.NotFoundError) as raised:
        patient.chat.completions.create(model="other", messages=PROMPT)
    assert raised.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as raised:
        patient.chat.completions.create(model="a", messages=PROMPT, n=2)
    assert (raised.value.param, raised.value.code) == ("n", "unsupported_member")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").chat.completions.create(model="o", messages=PROMPT)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_client_repeats(provider):
    patient = client.with_options(max_retries=2)
    whole, streamed = (f"once-openai-python-{form}" for form in ("whole", "stream"))
    completion = patient.chat.completions.create(model=f"{provider}-{whole}", messages=PROMPT)
    assert completion.choices[0].message.content == TEXT
    assert (
        text_of(patient.chat.completions.create(model=f"{provider}-{streamed}", messages=PROMPT, stream=True)) == TEXT
    )
    calls = ledger()["calls"]
    assert [calls[f"sim-f5-{name}-{provider}"] for name in (whole, streamed)] == [2, 2]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
def test_timeouts_of_the_client_end_the_work(provider, streams):
    before = ledger()["cancelled"]
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.3).chat.completions.create(
            model=f"{provider}-silent", messages=PROMPT, stream=streams
        )
    wait_until(lambda: ledger()["cancelled"] > before, "the provider is told")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("fault", ["cut", "error", "malformed"])
def test_a_stream_that_breaks_off_raises(provider, fault):
    text = ""
    with pytest.raises(openai.APIError):  # noqa: PT012
        for chunk in chat(f"{provider}-{fault}", stream=True):
            text += chunk.choices[0].delta.content or ""
    assert TEXT.startswith(text)
    assert "" < text < TEXT


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_abort_ends_the_work(provider):
    before = ledger()["cancelled"]
    stream = chat(f"{provider}-slow", stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    wait_until(lambda: ledger()["cancelled"] > before, "the provider is told")


def test_what_only_openai_has():
    vectors = client.embeddings.create(model="o", input=["a", "b"])
    assert [item.embedding for item in vectors.data] == [[1.0, 0.0, 0.0, 0.0]] * 2
    assert client.completions.create(model="o", prompt="hello").choices[0].text == TEXT
    assert client.responses.create(model="o", input="hello").output_text == TEXT
    events = list(client.responses.create(model="o", input="hello", stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    assert events[-1].type == "response.completed"
    for call in (
        lambda: client.embeddings.create(model="a", input="a"),
        lambda: client.completions.create(model="a", prompt="a"),
        lambda: client.responses.create(model="a", input="a"),
    ):
        with pytest.raises(openai.BadRequestError) as raised:
            call()
        assert raised.value.code == "unsupported_api"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_many_at_once(provider):
    async def one(calls: openai.AsyncOpenAI) -> str:
        stream = await calls.chat.completions.create(model=provider, messages=PROMPT, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of_them() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{GATEWAY}/v1", api_key=KEY) as calls:
            return await asyncio.gather(*(one(calls) for _ in range(20)))

    assert asyncio.run(all_of_them()) == [TEXT] * 20
