"""Google's client of Gemini's API."""

import pytest
from conftest import GATEWAY, IMAGE, KEY, PROVIDERS, SCHEMA, TEXT, ledger, wait_until
from google import genai
from google.genai import errors, types


def client_of(key: str = KEY, **options) -> genai.Client:
    return genai.Client(api_key=key, vertexai=False, http_options=types.HttpOptions(base_url=GATEWAY, **options))


client = client_of()
TOOL = types.Tool(
    function_declarations=[types.FunctionDeclaration(name="weather", parameters_json_schema=SCHEMA)],
)
CALLS = types.GenerateContentConfig(
    tools=[TOOL],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


def generate(model: str, contents="hello", config=None, *, streams: bool = False):
    """What the client returns: a whole response as a list of one, so that both forms are read alike."""
    if streams:
        return list(client.models.generate_content_stream(model=model, contents=contents, config=config))
    return [client.models.generate_content(model=model, contents=contents, config=config)]


def text_of(chunks) -> str:
    return "".join(chunk.text or "" for chunk in chunks)


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_models(version):
    client = client_of(api_version=version)
    assert {"models/g", "models/o", "models/a"} <= {model.name for model in client.models.list()}
    assert client.models.get(model="g").name == "models/g"
    with pytest.raises(errors.ClientError) as raised:
        client.models.get(model="other")
    assert raised.value.status == "NOT_FOUND"


def test_both_versions():
    for version in ("v1", "v1beta"):
        # A client without a name is collected, and closed, before it has sent anything.
        client = client_of(api_version=version)
        said = client.models.generate_content(model="g", contents="hello")
        assert said.text == TEXT, version


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
def test_text(provider, streams):
    chunks = generate(provider, streams=streams)
    last = chunks[-1]
    assert (text_of(chunks), last.candidates[0].finish_reason) == (TEXT, types.FinishReason.STOP)
    assert (last.model_version, last.usage_metadata.candidates_token_count) == ("sim", 8)


def test_tokens_are_counted():
    assert client.models.count_tokens(model="g", contents="hello").total_tokens > 0


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
def test_two_turns_with_a_tool(provider, streams):
    ask = types.Content(role="user", parts=[types.Part(text="hello")])
    said = next(chunk for chunk in generate(provider, [ask], CALLS, streams=streams) if chunk.function_calls)
    call = said.function_calls[0]
    assert (call.name, call.args) == ("weather", {"city": "Paris"})
    result = types.Part.from_function_response(name="weather", response={"result": "rain"})
    history = [ask, said.candidates[0].content, types.Content(role="user", parts=[result])]
    assert text_of(generate(provider, history, CALLS, streams=streams)) == TEXT


@pytest.mark.parametrize("provider", PROVIDERS)
def test_images_and_schemas(provider):
    image = types.Part(inline_data=types.Blob(data=IMAGE, mime_type="image/png"))
    assert text_of(generate(provider, [image, "What is it?"])) == TEXT
    wanted = types.GenerateContentConfig(response_mime_type="application/json", response_json_schema=SCHEMA)
    assert text_of(generate(provider, config=wanted)) == '{"city":"Paris"}'


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("model", "wanted", "code", "status"),
    [
        ("g-limited", errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        ("g-broken", errors.ServerError, 500, "INTERNAL"),
        ("g-overloaded", errors.ServerError, 503, "UNAVAILABLE"),
        ("g-long", errors.ClientError, 400, "INVALID_ARGUMENT"),
        ("other", errors.ClientError, 404, "NOT_FOUND"),
        ("o-broken", errors.ServerError, 500, "INTERNAL"),
        ("o-filtered", errors.ClientError, 400, "INVALID_ARGUMENT"),
        ("a-limited", errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        ("a-overloaded", errors.ServerError, 503, "UNAVAILABLE"),
    ],
)
def test_errors_have_their_class(model, wanted, code, status, streams):
    with pytest.raises(wanted) as raised:
        generate(model, streams=streams)
    assert (raised.value.code, raised.value.status) == (code, status)


def test_a_refusal_is_a_response():
    assert generate("g-filtered")[0].candidates[0].finish_reason == types.FinishReason.SAFETY


def test_a_wrong_key_is_refused():
    client = client_of("wrong")
    with pytest.raises(errors.ClientError) as raised:
        client.models.generate_content(model="g", contents="hello")
    assert (raised.value.code, raised.value.status) == (401, "UNAUTHENTICATED")


def test_tokens_are_estimated_where_no_provider_counts_them():
    assert client.models.count_tokens(model="o", contents="hello").total_tokens > 0


def test_what_is_not_translated():
    with pytest.raises(errors.ClientError, match="topK"):
        generate("a", config=types.GenerateContentConfig(top_k=5))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("fault", ["cut", "error", "malformed"])
def test_a_stream_that_breaks_off_raises(provider, fault):
    text = ""
    with pytest.raises(errors.APIError):  # noqa: PT012
        for chunk in client.models.generate_content_stream(model=f"{provider}-{fault}", contents="hello"):
            text += chunk.text
    assert TEXT.startswith(text)
    assert "" < text < TEXT


def test_an_abort_ends_the_work():
    before = ledger()["cancelled"]
    stream = client.models.generate_content_stream(model="g-slow", contents="hello")
    assert next(stream).text == "The "
    stream.close()
    wait_until(lambda: ledger()["cancelled"] > before, "the provider is told")


def test_a_timeout_of_the_client_ends_the_work():
    before = ledger()["cancelled"]
    client = client_of(timeout=300)
    with pytest.raises(Exception, match=r"(?i)timed out|timeout"):
        client.models.generate_content(model="g-silent", contents="hello")
    wait_until(lambda: ledger()["cancelled"] > before, "the provider is told")
