import asyncio
import time

import httpx

ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True}
SLOW = {"X-Sim-Latency-Ms": "0", "X-Sim-Token-Interval-Ms": "60000"}  # the second token comes after the test
STREAMS = 200


def client_of(base: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=base, limits=httpx.Limits(max_connections=STREAMS + 1), timeout=60, trust_env=False
    )


def test_waiting_streams_leave_the_loop_free_and_end_with_their_clients(start):
    base = start()

    async def scenario() -> None:
        async with client_of(base) as client:
            all_begun, leave = asyncio.Barrier(STREAMS + 1), asyncio.Event()

            async def one() -> None:
                async with client.stream("POST", "/v1/chat/completions", json=ASK, headers=SLOW) as response:
                    lines = response.aiter_lines()  # dropped, it would close the connection
                    await anext(lines)
                    await all_begun.wait()
                    await leave.wait()

            streams = [asyncio.create_task(one()) for _ in range(STREAMS)]
            await all_begun.wait()
            assert (await client.get("/sim")).json()["in_flight"] == STREAMS
            leave.set()
            await asyncio.gather(*streams)
            deadline = time.monotonic() + 30
            while (sim := (await client.get("/sim")).json())["in_flight"] and time.monotonic() < deadline:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
            assert sim == {"in_flight": 0, "admitted": STREAMS, "failed": 0, "refused": 0, "cancelled": STREAMS}

    asyncio.run(scenario())


def test_streams_side_by_side_are_all_whole(start):
    base = start(SIM_TOKEN_INTERVAL_MS="1")

    async def scenario() -> list[str]:
        async with client_of(base) as client:
            answers = await asyncio.gather(*(client.post("/v1/chat/completions", json=ASK) for _ in range(STREAMS)))
            assert (await client.get("/sim")).json()["cancelled"] == 0
            return [answer.text for answer in answers]

    texts = asyncio.run(scenario())
    assert len(set(texts)) == 1
    assert texts[0].endswith("data: [DONE]\n\n")
    assert texts[0].count("data: ") == 32 + 3


def test_a_stream_without_pauses_lets_others_in(start):
    """More than the sockets' buffers hold, so that it cannot have ended when the other request gets a response."""
    base = start(SIM_TOKENS="100000", SIM_TOKEN_INTERVAL_MS="0", SIM_LATENCY_MS="0")
    with httpx.Client(base_url=base, timeout=60, trust_env=False) as client:
        with client.stream("POST", "/v1/chat/completions", json=ASK) as response:
            pieces = response.iter_text()
            text = next(pieces)
            assert client.get("/sim").json()["in_flight"] == 1
            text += "".join(pieces)
        assert text.count("data: ") == 100_000 + 3


def test_a_body_over_the_limit_is_refused_in_both_forms(start):
    with httpx.Client(base_url=start(), timeout=60, trust_env=False) as client:
        body = b" " * (10 * 1024 * 1024 + 1)
        json = {"Content-Type": "application/json"}
        message = "body larger than 10485760 bytes"
        infer = client.post("/infer", content=body, headers=json)
        assert (infer.status_code, infer.json()) == (413, {"error": message})
        chat = client.post("/v1/chat/completions", content=iter([body]), headers=json)
        assert (chat.status_code, chat.json()["error"]["message"]) == (413, message)
