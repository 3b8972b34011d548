"""Tests of contract/json_files.py."""

import pytest

from contract import errors, json_files

REFUSED = {
    "deep": (b"[" * 50_000, "its brackets are nested too deeply"),
    "deep objects": (b'{"a":' * 50_000, "its brackets are nested too deeply"),
    "long integer": (b'{"a": ' + b"1" * 5000 + b"}", "more than 4300 digits"),
    "half a character": (b'{"a": "no \\ud83d film"}', r"'\\ud83d', .* after '.*no '"),
    "half of a key": (b'{"\\uDE00": 1}', r"'\\ude00', which is half a character"),
    "other encoding": (b'{"a": "caf\xe9"}', "byte 11 is not UTF-8"),
    "nothing": (b"", "Expecting value"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        json_files.parse(text)
    path = tmp_path / "a.json"
    path.write_bytes(text)
    for read in (json_files.read, json_files.read_object, json_files.read_object):
        with pytest.raises(ValueError, match=f"^{path}: cannot be read .*{message}"):
            read(str(path))


def test_a_key_that_is_there_twice_is_refused_where_objects_are_to_be_distinct():
    text = '{"a": {"digits": 1, "b": {"digits": 0}, "digits": 2}}'
    with pytest.raises(ValueError, match="the key 'digits' is there 2 times in one"):
        json_files.parse(text, json_files.distinct)
    assert json_files.parse(text)["a"]["digits"] == 2
    other = text.replace('"digits": 2', '"c": 2')
    assert json_files.parse(other, json_files.distinct) == json_files.parse(other)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_texts_of_other_programs_are_read(encoding):
    text = '{"a": ["é", "\\ud83d\\ude00", 5, null], "a": 1}'
    wanted = [("a", ["é", "😀", 5, None]), ("a", 1)]
    assert json_files.parse(text.encode(encoding), list) == wanted
    assert json_files.parse(text) == {"a": 1}


@pytest.mark.parametrize("text", ["null", "[]", "3", '"a"'])
def test_a_file_of_something_else_holds_no_object(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{path}: the file holds no JSON object"):
        json_files.read_object(str(path))


def test_form_of_a_value_is_checked():
    form = {"a": range(1, 3), "b": {"c": (str, None)}, "d": ("x", "y"), "e": bool}
    value = {"a": 1, "b": {}, "d": "y", "e": False}
    json_files.check("p", value, form, remedy="copy it")
    for change, message in (
        ({"a": 3}, "p: a=3 is not a whole number from 1 to 2; copy it"),
        ({"a": True}, "a=True is not a whole number"),
        ({"a": 1.0}, "a=1.0 is not a whole number"),
        ({"b": None}, "b=None is not an object"),
        ({"b": {"c": 5}}, "b.c=5 is not a text or absent"),
        ({"b": {"z": 5}}, "b.z=5 is not absent"),
        ({"d": "z"}, "d='z' is not x or y"),
        ({"e": 0}, "e=0 is not true or false"),
        ({"e": None}, "e=None is not true or false"),
    ):
        with pytest.raises(errors.InputError, match=message):
            json_files.check("p", {**value, **change}, form, remedy="copy it")
    with pytest.raises(errors.InputError, match=r"p: =\[\] is not an object"):
        json_files.check("p", [], form, remedy="copy it")
