import io
import itertools
import json
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
        (["a"], "b\n", "either --prompt or --prompt_file"),
        ([], "", "has no prompt"),
        ([], "a\n \n", ":2: the prompt is empty; write one, or leave --prompt"),
        ([], '{"prompt": "a"}\n{"x": 1}\n', ":2: no text under prompt or text"),
        (["", "b"], None, "--prompt number 1: the prompt is empty"),
        (
            ["caf\udce9"],
            None,
            r"--prompt has '\\udce9', which is not UTF-8, after 'caf'",
        ),
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
    with pytest.raises(ValueError, match=r"here:1: 7 tokens and 3 new"):
        encode(["abcdefg"])
    with pytest.raises(ValueError, match=r"exceed 8; lower --max_new_tokens, or"):
        encode(["a", "abcdefg"])
    with pytest.raises(ValueError, match=r"exceed 8; .* add --keep_end"):
        encode(["abcdefghi"])
    assert encode(["abcdefg"], max_new_tokens=2) == [list(b"abcdefg")]
    assert encode(["abcdefg", "a"], truncate_left=True) == [list(b"bcdefg"), [97]]
    assert encode(["abcde"], max_new_tokens=None) == [list(b"abcde")]
    with pytest.raises(ValueError, match="6 tokens and 4 new"):
        encode(["abcdef"], max_new_tokens=None)
    with pytest.raises(ValueError, match=r"--max_new_tokens=9 exceeds .* 8 tokens"):
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


DECODE = byte_tokenizer.ByteTokenizer().decode
PROMPT = list(b"ab")


def spelling(*stops):
    return prompt_lists.Detokenizer(DECODE, [256], stops)


def test_a_text_ends_before_a_stop_text_and_without_the_end_token():
    ids = [*b" cd. ef. gh", 256]
    assert spelling().after(PROMPT, ids) == " cd. ef. gh"
    assert spelling("ef", "d.").after(PROMPT, ids) == " c"
    assert spelling("b c").after(PROMPT, ids) == " cd. ef. gh"  # begins in the prompt
    assert spelling("ef").stops(PROMPT, ids)
    assert not spelling("ef").stops(PROMPT, ids[:6])
    assert not spelling().stops(PROMPT, ids)


def test_joined_words_are_cut_where_the_prompt_ends():
    def decode(ids):  # as word pieces are joined
        return " ".join(["the", "##s", "film"][i] for i in ids).replace(" ##", "")

    words = prompt_lists.Detokenizer(decode)
    assert words.after([0], [1, 2]) == "s film"
    assert words.after([0], [2]) == " film"


@pytest.mark.parametrize("stops", [(), ("xx",), ("ü!", "!")])
def test_the_screen_shows_each_character_once_when_it_is_settled(stops):
    ids = [*"cü! x".encode(), 120, 256]
    words, shown = spelling(*stops), [""]
    for count in range(len(ids)):
        shown.append(words.stable_prefix(PROMPT, ids[:count]))
    shown.append(words.after(PROMPT, ids))
    assert "\ufffd" not in "".join(shown)
    assert all(b.startswith(a) for a, b in itertools.pairwise(shown))
    expected = {(): "cü! xx", ("xx",): "cü! ", ("ü!", "!"): "c"}[stops]
    assert shown[-1] == expected
    assert len({*shown}) > 3 or stops == ("ü!", "!")


def test_files_have_texts_as_objects_or_as_the_release_prints_them():
    texts = [
        prompt_lists.Continuation("a", 0, "\nbä", 4, True),
        prompt_lists.Continuation("a", 1, "c", 1, False),
    ]
    first, second = prompt_lists.lines(texts, as_json=True)
    assert json.loads(second)["sample"] == 1
    assert json.loads(first) == {
        **{"prompt": "a", "sample": 0, "text": "\nbä", "num_tokens": 4},
        "ended": True,
    }
    assert "ä" in first
    printed = "".join(prompt_lists.lines(texts, as_json=False))
    line = "=" * 40
    assert printed == f"{line} SAMPLE 1 {line}\na\nbä\n{line} SAMPLE 2 {line}\nac\n"
