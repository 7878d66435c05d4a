"""Python's httpx, with h2: client.py URL CA-FILE|- PROTOCOL, where PROTOCOL is h1, h2 or h2c. The cases of the Go and Node clients beside it.

Cancelling a response is a case of HTTP/1 only: over HTTP/2, httpcore 1.0.9 sends no RST_STREAM and goes on receiving the stream without giving
credit for it, until the window of the connection is used up and no stream of it can go on.
"""

import asyncio
import hashlib
import ssl
import sys

import httpx

LARGE = 8 << 20
MEDIUM = 300_000
url, ca, protocol = sys.argv[1:]
verify = ssl.create_default_context(cafile=ca) if ca != "-" else True
passed = failed = 0


def pattern(size):
    return (bytes(range(251)) * (size // 251 + 1))[:size]


async def pieces(body):
    for at in range(0, len(body), 10_000):
        yield body[at : at + 10_000]


def check(response, content, status=200):
    assert response.http_version == {"h1": "HTTP/1.1"}.get(protocol, "HTTP/2"), response.http_version
    assert response.status_code == status, (response.status_code, response.content[:200])
    assert response.content == content, (
        f"a body of {len(response.content)} bytes is not the expected one of {len(content)}"
    )


async def get(client):
    check(await client.get("/bytes/1000"), pattern(1000))


async def head(client):
    response = await client.head("/bytes/1000")
    check(response, b"")
    assert response.headers["content-length"] == "1000"


async def large_response(client):
    check(await client.get(f"/bytes/{LARGE}"), pattern(LARGE))


async def many_streams(client):
    async def some(size):
        for _ in range(5):
            check(await client.get(f"/bytes/{size}"), pattern(size))

    await asyncio.gather(*(some(MEDIUM if i % 10 == 0 else 1000) for i in range(50)))


async def statuses_without_body(client):
    for status in (204, 304, 404, 503):
        check(await client.get(f"/status/{status}"), b"", status)


async def post(client):
    check(await client.post("/echo", content=pattern(MEDIUM)), pattern(MEDIUM))


async def post_of_unknown_length(client):
    check(await client.post("/echo", content=pieces(pattern(MEDIUM))), pattern(MEDIUM))


async def empty_post(client):
    check(await client.post("/echo"), b"")


async def large_request(client):
    body = pattern(LARGE)
    check(await client.post("/sum", content=pieces(body)), hashlib.sha256(body).hexdigest().encode())


async def cancelled_response(client):
    async with client.stream("GET", "/endless") as response:
        read = 0
        async for piece in response.aiter_raw():
            read += len(piece)
            if read > 100_000:
                break
    for _ in range(200):
        if (await client.get("/open")).text == "0":
            return await get(client)
        await asyncio.sleep(0.05)
    raise AssertionError("the upstream still sends the response that its client has cancelled")


async def main():
    global passed, failed
    every = [
        get,
        head,
        large_response,
        many_streams,
        statuses_without_body,
        post,
        post_of_unknown_length,
        empty_post,
        large_request,
    ]
    if protocol == "h1":
        every.append(cancelled_response)
    async with httpx.AsyncClient(
        base_url=url, verify=verify, http1=protocol == "h1", http2=protocol != "h1", timeout=60
    ) as client:
        for case in every:
            try:
                await case(client)
                passed += 1
                print(f"ok {case.__name__}")
            except Exception as error:
                failed += 1
                print(f"FAIL {case.__name__}: {error!r}")
    print(f"{passed} passed, {failed} failed, 0 skipped")


asyncio.run(main())
sys.exit(failed > 0)
