import shlex

import pytest
from contract.cases import Through

HEADER = "cases:\n"


def only(results):
    assert len(results) == 1
    return next(iter(results.values()))


def test_what_is_sent(results_of):
    result = only(
        results_of("""
vars: {word: wörd, number: 5}
cases:
- name: a
  request: POST /echo?x=${word}
  headers: {X-One: 'x-${number}'}
  json: {text: '${word}', number: '${number}', mixed: 'n${number}', sum: {$add: ['${number}', 1]}, long: {$repeat: [ab, 3]}}
  expect:
    status: 200
    json:
      method: POST
      path: /echo?x=w%C3%B6rd
      body: '{"text": "wÃ¶rd", "number": 5, "mixed": "n5", "sum": 6, "long": "ababab"}'
      headers: {Content-Type: application/json, Accept-Encoding: identity, X-One: x-5}
""")
    )
    assert (result.state, result.problems) == ("passed", [])


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("request: GET /echo, expect: {status: 201}", "status: expected 201, came 200"),
        ("request: GET /echo, expect: {status: [201, 204]}", "status: expected one of [201, 204], came 200"),
        ("request: GET /echo, expect: {headers: {X-Token: x}}", 'header x-token: expected "x", came "Bearer abc123"'),
        ("request: GET /echo, expect: {headers: {X-None: {$any: true}}}", "header x-none: expected any true, it is absent"),
        ("request: GET /echo, expect: {headers: {X-Token: {$absent: true}}}", 'header x-token: expected absent true, came "Bearer abc123"'),
        ("request: GET /echo, expect: {json: {method: PUT}}", 'json/method: expected "PUT", came "GET"'),
        ("request: GET /echo, expect: {json_exact: {method: GET}}", 'json/path: not expected, came "/echo"'),
        ("request: GET /echo, expect: {pointers: {/method: PUT}}", 'json /method: expected "PUT", came "GET"'),
        ("request: GET /nan, expect: {json: {}}", "body: expected JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"),
        ("request: GET /nan, expect: {text: '['}", 'body: expected "[", came "{"'),
        ("request: GET /cut, expect: {status: 200}", "RemoteProtocolError: peer closed connection without sending complete message body"),
        ("request: GET /slow, timeout: 0.2, expect: {status: 200}", "ReadTimeout: timed out"),
        ("request: GET /echo, expect: {no_answer: true}", "expected no response, came 200, application/json"),
        ("request: GET /echo, capture: {x: /nothing}", 'capture x: there is nothing at "/nothing"'),
        ("request: 'GET /${nobody}'", "there is no variable ${nobody}"),
        ("request: GET /buffered, expect: {sse: [{}, {}]}", 'events: expected 2, came 3; event 3 is "[DONE]"'),
        ("request: GET /buffered, expect: {sse: [{times: 4}]}", "events: step 1 expected 4, came 3, and the stream ended after 3 events"),
        ("request: GET /buffered, expect: {sse: [{}, {json: {n: 3}}, {}]}", "events: step 2 expected 1, came 0; event 2 is another: data/n: expected 3, came 2"),
        ("request: GET /buffered, expect: {sse: [{json: {}, times: 3}]}", 'events: step 1 expected 3, came 2; event 3 is another: data: expected JSON, came "[DONE]"'),
        ("request: GET /buffered, expect: {sse_join: {/word: one}}", 'events, /word joined: expected "one", came "one two"'),
        ("request: GET /count/3, repeat: 5, expect: [{times: 4, status: 200}, {times: 1, status: 429}]", "expected 4 of 5 with status 200, came 3"),
        ("request: GET /count/3, concurrent: 5, expect: [{times: 3, status: 200}, {times: [3, 4], status: 429}]", "expected 3 to 4 of 5 with status 429, came 2"),
        ("request: GET /count/3, repeat: 5, expect: {status: 200}", "2 of 5 responses are none of those expected: none of them has status 429"),
        ("request: GET /buffered, meanwhile: {after: 1, request: GET /release, expect: {json: {ended: false}}}", "after 1 events, GET /release: json/ended: expected false, came true"),
        ("request: GET /echo, meanwhile: {after: 1, request: GET /release}", "expected 1 events, came 0"),
    ],
)  # fmt: skip
def test_a_fault_is_found_and_named(results_of, case, problem):
    result = only(results_of("cases: [{name: a, " + case + "}]"))
    assert result.state == "failed"
    assert any(line.startswith(problem) for line in result.problems), result.problems


def test_what_fails_nothing(results_of):
    results = results_of("""
cases:
- {name: statuses, request: GET /none, expect: {status: [404, 410]}}
- {name: counts, request: GET /count/7, concurrent: 10, expect: [{times: 7, status: 200}, {times: [1, 3], status: 429}]}
- {name: again until it passes, request: GET /count/0, within: 5, expect: {json: {count: {$min: 13}}}}
- {name: events, request: GET /buffered, expect: {sse: [{json: {n: {$type: integer}}, times: [1, 5]}, {data: '[DONE]'}]}}
- {name: no response, request: GET /slow, timeout: 0.2, expect: {no_answer: true}}
- {name: while it streams, request: GET /held, meanwhile: {after: 1, request: GET /release}, expect: {sse_join: {/word: one two}}}
""")
    assert [(result.case, result.problems) for result in results.values() if result.state != "passed"] == []


def test_a_proxy_that_holds_events_back_is_found_out(results_of):
    held = "cases: [{name: a, request: GET /%s, meanwhile: {after: 1, request: GET /release, expect: {json: {ended: false}}}}]"
    assert only(results_of(held % "held")).state == "passed"
    assert only(results_of(held % "buffered")).state == "failed"


def test_leaving_a_stream_reads_no_further(results_of):
    result = only(results_of("cases: [{name: a, request: GET /held, leave_after: 1, expect: {sse: [{json: {n: 1}}]}}]"))
    assert (result.state, result.problems) == ("passed", [])


CHAIN = """
cases:
- {name: other, request: GET /echo}
- {name: login, request: GET /echo, capture: {token: {header: X-Token, matches: 'Bearer (\\w+)'}, method: /method}}
- {name: use, request: 'GET /echo/${token}', expect: {json: {path: /echo/abc123}}}
- {name: for GET, request: GET /echo, when: {method: GET}}
- {name: for PUT, request: GET /echo, when: {method: PUT}}
"""


def test_captures_are_carried_on(results_of):
    states = {name: result.state for name, result in results_of(CHAIN).items()}
    assert states == {
        "other": "passed",
        "login": "passed",
        "use": "passed",
        "for GET": "passed",
        "for PUT": "not applicable",
    }


def test_a_variable_captured_again_below_is_not_fetched_from_there(results_of):
    again = CHAIN + "- {name: again, request: 'PUT /echo/${token}', json: 1, capture: {token: /method}}\n"
    assert results_of(again, only="use")["use"].state == "passed"
    assert results_of(again, only="again")["again"].state == "passed"


@pytest.mark.parametrize("name", ["use", "for PUT"])
def test_one_case_brings_those_that_it_needs_and_no_others(results_of, name):
    assert list(results_of(CHAIN, only=name)) == ["login", name]


def test_through_a_gateway(results_of):
    results = results_of(
        """
cases:
- {name: mapped, request: 'GET /infer?x=1', expect: {json: {path: '/python/infer?x=1'}}}
- {name: below it, request: GET /infer/a, expect: {json: {path: /python/infer/a}}}
- {name: longer prefix, request: GET /infer/special/b, expect: {json: {path: /s/b}}}
- {name: another word, request: GET /inference, expect: {json: {path: /inference}}}
- {name: not there, request: GET /infer, tags: [direct]}
""",
        through=Through(map={"/infer": "/python/infer", "/infer/special": "/s"}, skip=frozenset({"direct"})),
    )
    assert {name: result.state for name, result in results.items()} == {
        "mapped": "passed", "below it": "passed", "longer prefix": "passed", "another word": "passed", "not there": "skipped",
    }  # fmt: skip


def test_a_failure_says_what_came_and_how_to_see_it_again(results_of, base):
    result = only(
        results_of(
            "cases: [{name: a case, request: PUT /echo, headers: {A: it's}, json: {b: 'c d'}, expect: {status: 500}}]"
        )
    )
    lines = result.text().splitlines()
    assert lines[0] == "FAILED  a case"
    assert lines[1] == "        status: expected 500, came 200"
    assert lines[2].startswith("        came: 200, application/json, ")
    again = shlex.split(lines[3].removeprefix("        again: "))
    assert again == [
        "curl", "-sS", "-i", "-N", "-X", "PUT", f"{base}/echo",
        "-H", "Content-Type: application/json", "-H", "A: it's", "--data-raw", '{"b": "c d"}',
    ]  # fmt: skip


def test_a_body_that_is_no_text_is_named_in_the_command(results_of):
    result = only(results_of("cases: [{name: a, request: POST /echo, body_hex: ff, repeat: 2, expect: {status: 500}}]"))
    assert result.again.endswith("--data-binary @BODY   # 2 times, one after the other; BODY is 1 bytes, '\ufffd'…")
