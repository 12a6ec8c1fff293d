"""Which texts of a value are accepted: key order, whitespace, spelling, duplicate keys."""

from __future__ import annotations

import pytest

from schemac.errors import SourceError
from tests.json_schema.checking import recognizer, texts

PAIR = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "required": ["c", "a"]}


def test_declared_keys_come_in_order_then_required_ones_then_others() -> None:
    candidates = [
        '{"b":1,"a":"x","c":1,"z":2}',
        '{"a":"x","c":1}',
        '{"a":"x","b":1,"c":1}',
        '{"c":1,"a":"x"}',
        '{"a":"x","z":2,"c":1}',
    ]
    assert texts(PAIR, *candidates) == candidates[:2]


def test_order_is_that_of_appearance_over_a_conjunction() -> None:
    schema = {"properties": {"x": True}, "allOf": [{"properties": {"w": True, "x": True}}, {"required": ["v"]}]}
    assert texts(schema, '{"w":1,"x":2,"v":3}', '{"x":2,"w":1,"v":3}') == ['{"x":2,"w":1,"v":3}']


def test_each_branch_keeps_its_order_where_branches_agree() -> None:
    branches = [
        {"properties": {"a": {"const": 1}, "b": {}, "d": {}}},
        {"properties": {"a": {"const": 2}, "c": {}, "d": {}}},
    ]
    schema = {"anyOf": branches, "type": "object", "additionalProperties": True}
    assert texts(schema, '{"a":1,"b":0,"d":0}', '{"a":2,"c":0,"d":0}') == ['{"a":1,"b":0,"d":0}', '{"a":2,"c":0,"d":0}']


def test_a_declared_key_comes_once() -> None:
    assert texts({"properties": {"a": {}}}, '{"a":1}', '{"a":1,"a":2}', '{"z":1,"a":2}', '{"ab":1,"":2}') == [
        '{"a":1}',
        '{"ab":1,"":2}',
    ]


def test_a_declared_key_cannot_come_in_another_spelling() -> None:
    assert texts({"properties": {"a": {"type": "integer"}}}, '{"\\u0061":"x"}', '{"\\u0061":1}') == []


@pytest.mark.parametrize(
    ("whitespace", "accepted"),
    [
        ("compact", ['{"a":[1,2]}']),
        ("single", ['{"a":[1,2]}', '{"a": [1, 2]}']),
        ("flexible", ['{"a":[1,2]}', '{"a": [1, 2]}', '{ "a"\n:\t[ 1 ,\r\n2 ] }', "[ ]", "{ }"]),
    ],
)
def test_whitespace(whitespace: str, accepted: list[str]) -> None:
    candidates = ['{"a":[1,2]}', '{"a": [1, 2]}', '{ "a"\n:\t[ 1 ,\r\n2 ] }', "[ ]", "{ }", ' {"a":[1,2]}', "1 "]
    assert texts(True, *candidates, whitespace=whitespace) == accepted


def test_unknown_whitespace_policy() -> None:
    with pytest.raises(SourceError, match="whitespace policy"):
        recognizer(True, whitespace="some")


def test_spelling_of_strings() -> None:
    free = ['"\\u0041\\ud83d\\ude00\\/"', '"A"', '"😀"', '"\\n"']
    assert texts({"type": "string"}, *free, '"\\ud800"', '"\n"') == free
    assert texts({"type": "string", "maxLength": 3}, *free) == ['"A"', '"😀"', '"\\n"']
    assert texts({"const": 'q"\\\n\x01é/'}, '"q\\"\\\\\\n\\u0001é/"', '"q\\"\\\\\\u000a\\u0001é/"') == [
        '"q\\"\\\\\\n\\u0001é/"'
    ]


def test_spelling_of_numbers() -> None:
    assert texts({"type": "integer"}, "10", "-3", "1.0", "1e1", "01") == ["10", "-3"]
    assert texts({"type": "number"}, "1.5", "1e1", "-0.5E-3", ".5") == ["1.5", "1e1", "-0.5E-3"]
    assert texts({"const": 1}, "1", "2") == ["1"]
    # Bounds are exact far beyond binary floating point.
    bound = "0.1000000000000000055511151231257827"
    assert texts(f'{{"type": "number", "minimum": {bound}}}', "0.1", bound, "0.2") == [bound, "0.2"]


def test_long_strings_are_counted_in_code_points() -> None:
    for most in (5, 700, 20_000):
        accepts = recognizer({"type": "string", "maxLength": most}).accepts
        assert accepts('"' + "é" * most + '"')
        assert not accepts('"' + "é" * (most + 1) + '"')
    counted = recognizer({"type": "string", "minLength": 2_000, "pattern": "^(ab)*$"}).accepts
    assert [counted('"' + "ab" * half + '"') for half in (999, 1000, 1001)] == [False, True, True]
    assert recognizer({"type": "string", "maxLength": 2**31 - 1}).accepts('"' + "x" * 9_000 + '"')


def test_quotation_marks_stand_in_every_kind_of_string() -> None:
    for constraint in ({}, {"minLength": 1}, {"maxLength": 5_000}, {"pattern": "\""}, {"pattern": "^[^x]{3,900}$"}):
        schema = {"type": "string", **constraint}
        good = r'"a\"b\\"', r'"\"\"\""', r'"\"b\"\n"'
        assert texts(schema, *good, r'"a\"', r'"a"b"', '"\\"') == list(good)
        inside = {"properties": {"k": schema, 'q"': schema}, "required": ['q"']}
        assert texts(inside, *(f'{{"k":{text},"q\\"":{text}}}' for text in good)) != []
