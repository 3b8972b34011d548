"""Tests of contract/json_files.py."""

import pytest

from contract import json_files

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
