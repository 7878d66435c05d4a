import pytest
from contract.match import ABSENT, check_rules, differences, matches, pointer

VALUE = {"a": 1, "b": [{"c": "text"}, {"c": None}], "d": True}


@pytest.mark.parametrize(
    ("expected", "came"),
    [
        ({"a": 1}, VALUE),
        ({"a": 1.0}, VALUE),
        ({"b": [{"c": "text"}, {}]}, VALUE),
        ({"a": {"$type": "integer", "$min": 1, "$max": 1}}, VALUE),
        ({"d": {"$type": "boolean"}}, VALUE),
        ({"b": {"$length": 2, "$each": {"$type": "object"}, "$contains": {"c": None}}}, VALUE),
        ({"b": [{"c": {"$matches": "^t", "$length": [1, 4], "$contains": "ex"}}, {"$exact": {"c": None}}]}, VALUE),
        ({"a": {"$one_of": [2, {"$min": 1}]}, "z": {"$absent": True}, "d": {"$any": True, "$not": False}}, VALUE),
    ],
)
def test_matches(expected, came):
    assert list(differences(expected, came)) == []


@pytest.mark.parametrize(
    ("expected", "came", "difference"),
    [
        (1, 2, "value: expected 1, came 2"),
        (1, True, "value: expected 1, came true"),
        (False, 0, "value: expected false, came 0"),
        ({"a": "1"}, VALUE, '/a: expected "1", came 1'),
        ({"z": None}, VALUE, "/z: expected null, it is absent"),
        ({"b": [{}]}, VALUE, '/b: expected 1 elements, came 2: [{"c": "text"}, {"c": null}]'),
        ({"b": [{}, {"c": "x"}]}, VALUE, '/b/1/c: expected "x", came null'),
        ({"a/b": 1}, {"a/b": 2}, "/a~1b: expected 1, came 2"),
        ({"d": {"$type": "integer"}}, VALUE, '/d: expected type "integer", came true'),
        ({"d": {"$min": 0}}, VALUE, "/d: expected min 0, came true"),
        ({"a": {"$min": 0, "$max": 0}}, VALUE, "/a: expected min 0 and max 0, came 1"),
        ({"a": {"$matches": "1"}}, VALUE, '/a: expected matches "1", came 1'),
        ({"a": {"$one_of": [2, 3]}}, VALUE, "/a: expected one of [2, 3], came 1"),
        ({"a": {"$not": 1}}, VALUE, "/a: expected not 1, came 1"),
        ({"a": {"$absent": True}}, VALUE, "/a: expected absent true, came 1"),
        ({"z": {"$any": True}}, VALUE, "/z: expected any true, it is absent"),
        ({"b": {"$length": 3}}, VALUE, '/b: expected length 3, came [{"c": "text"}, {"c": null}]'),
        (
            {"b": {"$each": {"c": {"$type": "string"}}}},
            VALUE,
            '/b: expected each {"c": {"$type": "string"}}, came [{"c": "text"}, {"c": null}]',
        ),
        (
            {"$exact": {"a": 1, "b": []}},
            {"a": 1, "b": [], "c": 2},
            'value: expected exact {"a": 1, "b": []}, came {"a": 1, "b": [], "c": 2}',
        ),
    ],
)
def test_differences(expected, came, difference):
    assert list(differences(expected, came)) == [difference]


def test_exact_refuses_more_members_and_still_knows_rules():
    assert list(differences({"a": {"$type": "integer"}}, {"a": 1}, exact=True)) == []
    assert list(differences({"a": 1}, {"a": 1, "b": 2}, exact=True)) == ["/b: not expected, came 2"]
    assert list(differences({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, exact=True)) == ["/a/y: not expected, came 2"]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"$mni": 1}, "there is no rule '$mni'"),
        ({"$min": 1, "a": 2}, "there is no rule 'a'"),
        ([{"a": {"$type": "int"}}], "there is no type 'int'"),
        ({"$matches": "("}, "'(' is no regular expression"),
        ({"$one_of": [{"$nope": 1}]}, "there is no rule '$nope'"),
    ],
)
def test_a_wrong_rule_is_found_before_it_is_used(rule, problem):
    assert problem in next(check_rules(rule, "json"))


def test_pointers():
    assert pointer(VALUE, "") is VALUE
    assert pointer(VALUE, "/b/1/c") is None
    assert pointer({"a/b": {"~": 5}}, "/a~1b/~0") == 5
    for path in ("/z", "/b/2", "/b/x", "/b/-1", "/a/0"):
        assert pointer(VALUE, path) is ABSENT
    assert not matches({"$type": "null"}, 0)
