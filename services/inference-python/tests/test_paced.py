import asyncio

from app.load import Load
from app.paced import Paced
from app.settings import Settings


def test_pieces_that_are_due_leave_turns_of_the_loop_to_others():
    """With a connection that takes everything at once, so that sending alone never waits."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        await asyncio.Event().wait()

    async def other():
        return len(sent)

    async def scenario():
        load = Load()
        load.admit(Settings())
        response = Paced(load, [(0.0, b"x")] * 1000, {})
        stream = asyncio.create_task(response({"type": "http"}, receive, send))
        seen = await asyncio.create_task(other())
        await stream
        assert seen < 10
        assert len(sent) == 1002
        assert load == Load(admitted=1)

    asyncio.run(scenario())
