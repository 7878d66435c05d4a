"""Holds one response against one expectation."""

from collections.abc import Iterator
from typing import Any

from .cases import Expect
from .client import Answer
from .match import ABSENT, differences, matches, pointer, show
from .sse import Event


def problems(expect: Expect, answer: Answer) -> Iterator[str]:
    if expect.no_answer:
        if not answer.timed_out:
            yield f"expected no response, came {answer.summary(200)}"
        return
    if answer.problem:
        yield answer.problem
    if answer.status is None:
        return
    if expect.status is not None:
        wanted = {"$one_of": expect.status} if isinstance(expect.status, list) else expect.status
        yield from differences(wanted, answer.status, "status")
    for name, wanted in expect.headers.items():
        yield from differences(wanted, answer.headers.get(name, ABSENT), f"header {name}")
    if expect.text is not None:
        yield from differences(expect.text, answer.text, "body")
    yield from _json_problems(expect, answer)
    if expect.sse is not None:
        yield from _sequence_problems(expect.sse, answer.events)
    for path, wanted in expect.sse_join.items():
        values = [pointer(value, path) for value in map(_json_of, answer.events) if value is not ABSENT]
        joined = "".join(str(value) for value in values if value is not ABSENT and value is not None)
        yield from differences(wanted, joined, f"events, {path} joined")


def _json_problems(expect: Expect, answer: Answer) -> Iterator[str]:
    if expect.json is None and expect.json_exact is None and not expect.pointers:
        return
    try:
        value = answer.json()
    except ValueError as error:
        yield f"body: expected JSON ({error})"
        return
    if expect.json is not None:
        yield from differences(expect.json, value, "json")
    if expect.json_exact is not None:
        yield from differences(expect.json_exact, value, "json", exact=True)
    for path, wanted in expect.pointers.items():
        yield from differences(wanted, pointer(value, path), f"json {path}")


def _sequence_problems(pattern: list[dict[str, Any]], events: list[Event]) -> Iterator[str]:
    """Each step takes as many events as match it, up to its highest `times` (1 when it says none); all are to be taken."""
    at = 0
    for step, wanted in enumerate(pattern, 1):
        times = wanted.get("times", 1)
        low, high = times if isinstance(times, list) else (times, times)
        taken = 0
        while taken < high and at < len(events) and not (found := list(_event_problems(wanted, events[at]))):
            taken, at = taken + 1, at + 1
        if taken < low:
            if at == len(events):
                yield f"events: step {step} expected {low}, came {taken}, and the stream ended after {at} events"
            else:
                yield f"events: step {step} expected {low}, came {taken}; event {at + 1} is another: {'; '.join(found)}"
            return
    if at < len(events):
        yield f"events: expected {at}, came {len(events)}; event {at + 1} is {show(events[at].data)}"


def _event_problems(wanted: dict[str, Any], event: Event) -> Iterator[str]:
    if "data" in wanted:
        yield from differences(wanted["data"], event.data, "data")
    if "event" in wanted:
        yield from differences(wanted["event"], event.event, "event")
    if "json" in wanted:
        value = _json_of(event)
        if value is ABSENT:
            yield f"data: expected JSON, came {show(event.data)}"
        else:
            yield from differences(wanted["json"], value, "data")


def _json_of(event: Event) -> Any:
    try:
        return Answer(body=event.data.encode()).json()
    except ValueError:
        return ABSENT


def deal(expects: list[Expect], answers: list[Answer]) -> Iterator[str]:
    """Which responses are which of several expectations, and whether there are as many of each as there should be."""
    counts = [0] * len(expects)
    strangers: dict[str, list[Answer]] = {}
    for answer in answers:
        fitting = next((i for i, one in enumerate(expects) if next(problems(one, answer), None) is None), None)
        if fitting is not None:
            counts[fitting] += 1
            continue
        nearest = next((one for one in expects if one.status is None or matches(one.status, answer.status)), None)
        why = "; ".join(problems(nearest, answer)) if nearest else f"none of them has status {answer.status}"
        strangers.setdefault(why, []).append(answer)
    for why, alike in strangers.items():
        yield f"{len(alike)} of {len(answers)} responses are none of those expected: {why}; one is {alike[0].summary(200)}"
    for expect, count in zip(expects, counts, strict=True):
        low, high = expect.times or [len(answers), len(answers)]
        if not low <= count <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            yield f"expected {wanted} of {len(answers)} with status {show(expect.status)}, came {count}"
