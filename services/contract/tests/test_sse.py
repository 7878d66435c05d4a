import pytest
from contract.sse import Event, Parser

STREAM = ": a comment\r\nevent: word\ndata: wörd\n\nid: 7\rdata:first\rdata:  second\r\rnothing\n\ndata\n\ndata: 水🌊\r\n\r\n".encode()
EVENTS = [Event("wörd", "word"), Event("first\n second", None, "7"), Event(""), Event("水🌊")]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_events_whatever_the_pieces(size):
    parser = Parser()
    events = [event for i in range(0, len(STREAM), size) for event in parser.feed(STREAM[i : i + size])]
    assert events == EVENTS
    assert parser.rest == b""


def test_an_event_is_there_with_its_empty_line_and_not_before():
    parser = Parser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [Event("a")]
    assert parser.feed(b"data: b") == []
    assert parser.rest == b"data: b"


def test_what_is_not_utf_8_is_an_error():
    with pytest.raises(UnicodeDecodeError):
        Parser().feed(b"data: \xff\n\n")
