import io
import sys
import types

import pytest

from data_pipeline.generation import prompts as prompt_lists
from tests import byte_tokenizer

TOKENIZER = byte_tokenizer.ByteTokenizer()


def texts(*arguments):
    return [prompt.text for prompt in prompt_lists.read(*arguments)]


def test_prompts_are_those_of_arguments_or_of_a_file(tmp_path, monkeypatch):
    assert texts(["a b", "c\nd"], None) == ["a b", "c\nd"]
    assert texts([], None) == []
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone \r\ntwo\xe2\x80\xa8three\n")
    assert texts([], str(tmp_path / "a.txt")) == ["one ", "two\u2028three"]
    rows = '{"prompt": "a\\nb", "text": "x"}\n{"text": "c"}\n'
    (tmp_path / "a.jsonl").write_text(rows)
    assert texts([], str(tmp_path / "a.jsonl")) == ["a\nb", "c"]
    stdin = types.SimpleNamespace(buffer=io.BytesIO("grün\nblau".encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert texts([], "-") == ["grün", "blau"]


@pytest.mark.parametrize(
    ("arguments", "content", "expected"),
    [
        (["a"], "b\n", "--prompt and --prompt_file exclude"),
        ([], "", "has no prompt"),
        ([], "a\n \n", ":2: the prompt is empty; write one, or leave --prompt"),
        ([], '{"prompt": "a"}\n{"x": 1}\n', ":2: no text under 'prompt' or 'text'"),
        (["", "b"], None, "--prompt number 1: the prompt is empty"),
        (["caf\udce9"], None, r"--prompt: 'caf\\udce9' is not UTF-8; set the terminal"),
    ],
)
def test_wrong_prompts_are_refused(tmp_path, arguments, content, expected):
    name = "a.jsonl" if content and content.startswith("{") else "a.txt"
    path = str(tmp_path / name) if content is not None else None
    if path:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=expected):
        prompt_lists.read(arguments, path)


def encode(prompts, tokenizer=TOKENIZER, **room):
    room = prompt_lists.ContextBudget(**{"context": 8, "max_new_tokens": 3} | room)
    prompts = [prompt_lists.Prompt(text, "here:1") for text in prompts]
    return prompt_lists.encode(prompts, tokenizer, room)


def test_prompts_leave_room_for_the_text():
    # The last token of a text needs no position: 6 + 3 - 1 fill a context of 8.
    assert encode(["abcdef"]) == [list(b"abcdef")]
    with pytest.raises(ValueError, match=r"here:1: a prompt of 7 tokens and 3 new"):
        encode(["abcdefg"])
    with pytest.raises(ValueError, match=r"context of 8; .*--max_new_tokens to 2 or"):
        encode(["a", "abcdefg"])
    with pytest.raises(
        ValueError, match="of 8; shorten it, or pass --keep_end to keep"
    ):
        encode(["abcdefghi"])
    assert encode(["abcdefg"], max_new_tokens=2) == [list(b"abcdefg")]
    assert encode(["abcdefg", "a"], truncate_left=True) == [list(b"bcdefg"), [97]]
    assert encode(["abcde"], max_new_tokens=None) == [list(b"abcde")]
    with pytest.raises(ValueError, match="of 6 tokens and 4 new"):
        encode(["abcdef"], max_new_tokens=None)
    with pytest.raises(
        ValueError, match=r"--max_new_tokens=9 is more than .* 8 tokens"
    ):
        encode(["a"], max_new_tokens=9)


def test_without_a_prompt_a_text_begins_where_another_ended():
    assert encode([], max_new_tokens=8) == [[256]]
    room = prompt_lists.ContextBudget(8, None)
    assert room.new_tokens(is_prompted=False) == 8
    assert room.new_tokens(is_prompted=True) == 4
    without = byte_tokenizer.ByteTokenizer(has_end=False)
    with pytest.raises(ValueError, match=r"no token that ends a text.*give a --prompt"):
        encode([], without)
    with pytest.raises(ValueError, match=r"here:1: .* has no token"):
        encode(["", "a"])
