import pytest
from contract.cases import BadCases, load

from .conftest import CONTRACT


@pytest.mark.parametrize("path", sorted((CONTRACT / "cases").glob("*.yaml")), ids=lambda path: path.name)
def test_every_file_of_cases_can_be_used(path):
    suite = load(path)
    known = {"run", "i", *suite.variables, *(name for case in suite.cases for name in case.capture)}
    assert {name for case in suite.cases for name in case.uses} <= known


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cases: []", "there are no cases"),
        ("case: []", "the file: there is no 'case'; there are about, cases,"),
        ("cases: [{request: GET /}]", "case 1: it has no name"),
        ("cases: [{name: a, request: GET /, expects: {}}]", "case 1 (a): there is no 'expects'"),
        ("cases: [{name: a, request: GET /}, {name: a, request: GET /}]", "two cases are named 'a'"),
        ("cases: [{name: a, request: /path}]", "`request` is a method and a path"),
        ("cases: [{name: a, request: FETCH /path}]", "`request` is a method and a path"),
        ("cases: [{name: a, request: GET /, name: b}]", "line 1: 'name' is there twice"),
        ("cases: [{name: a, request: GET /, json: 1, body: x}]", "one body is enough"),
        (
            "cases: [{name: a, request: GET /, target: b}]",
            "`target` is one of the file's `targets`, of which there are none",
        ),
        ("targets: [b, c]\ncases: [{name: a, request: GET /}]", "`target` is one of the file's `targets`, b, c"),
        ("cases: [{name: a, request: GET /, expect: {stauts: 200}}]", "there is no 'stauts'"),
        (
            "cases: [{name: a, request: GET /, expect: {json: {x: {$typ: string}}}}]",
            "expect json: there is no rule '$typ'",
        ),
        ("cases: [{name: a, request: GET /, expect: {pointers: {x: 1}}}]", "'x' is not a JSON pointer"),
        ("cases: [{name: a, request: GET /, expect: [{status: 200}]}]", "says how many `times`"),
        ("cases: [{name: a, request: GET /, expect: [{status: 200, times: many}]}]", "`times` is a number or"),
        ("cases: [{name: a, request: GET /, repeat: 2, capture: {x: /x}}]", "which of its 2 responses"),
        ("cases: [{name: a, request: GET /, repeat: 0}]", "`repeat` is a whole number from 1"),
        ("cases: [{name: a, request: GET /, meanwhile: {signal: KILL}}]", "a signal is one of TERM, INT"),
        ("cases: [{name: a, request: GET /, meanwhile: {after: 1}}]", "either a request or a signal"),
        (
            "cases: [{name: a, request: GET /, meanwhile: {signal: TERM}}, {name: b, request: GET /}]",
            "only the last case",
        ),
        ("cases: [{name: a, request: GET /, variants: {b: {nmae: c}}}]", "variant b: there is no 'nmae'"),
        ("cases: {", "while parsing"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(suite_of, text, problem):
    with pytest.raises(BadCases) as refused:
        suite_of(text)
    assert "cases.yaml: " in str(refused.value)
    assert problem in str(refused.value)


def test_only_true_and_false_are_booleans(suite_of):
    suite = suite_of("cases: [{name: a, request: POST /, json: {country: NO, on: yes, is: true}}]")
    assert suite.cases[0].request.body == {"country": "NO", "on": "yes", "is": True}


def test_variants_are_cases_of_their_own(suite_of):
    suite = suite_of(
        "cases: [{name: a, request: GET /x, headers: {A: 1}, variants: {one: {}, two: {headers: {B: 2}, request: PUT /y}}}]"
    )
    assert [case.name for case in suite.cases] == ["a: one", "a: two"]
    assert [(case.request.method, case.request.headers) for case in suite.cases] == [
        ("GET", {"A": "1"}),
        ("PUT", {"B": "2"}),
    ]


def test_null_takes_a_default_header_away(suite_of):
    suite = suite_of("defaults: {headers: {A: 1, B: 2}}\ncases: [{name: a, request: GET /, headers: {A: null}}]")
    assert suite.cases[0].request.headers == {"B": "2"}
