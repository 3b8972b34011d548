import json

import pytest

from data_pipeline.generation import continuations
from tests import byte_tokenizer

DECODE = byte_tokenizer.ByteTokenizer().decode
PROMPT = list(b"ab")


def spelling(*stops):
    return continuations.Detokenizer(DECODE, [256], stops)


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

    words = continuations.Detokenizer(decode)
    assert words.after([0], [1, 2]) == "s film"
    assert words.after([0], [2]) == " film"


@pytest.mark.parametrize("stops", [(), ("xx",), ("ü!", "!")])
def test_the_screen_shows_each_character_once_when_it_is_settled(stops):
    ids = [*"cü! x".encode(), 120, 256]
    shown = []
    screen = continuations.StreamPrinter(spelling(*stops), PROMPT, shown.append)
    for count in range(len(ids)):
        screen.show(ids[:count])
        assert "\ufffd" not in "".join(shown)
    screen.finish(ids)
    expected = {(): "cü! xx", ("xx",): "cü! ", ("ü!", "!"): "c"}[stops]
    assert "".join(shown) == f"{expected}\n"
    assert len(shown) > 2 or stops == ("ü!", "!")


def test_files_have_texts_as_objects_or_as_the_release_prints_them():
    texts = [
        continuations.Text("a", 0, "\nbä", 4, True),
        continuations.Text("a", 1, "c", 1, False),
    ]
    first, second = continuations.lines(texts, as_json=True)
    assert json.loads(second)["sample"] == 1
    assert json.loads(first) == {
        **{"prompt": "a", "sample": 0, "text": "\nbä", "num_tokens": 4},
        "ended": True,
    }
    assert "ä" in first
    printed = "".join(continuations.lines(texts, as_json=False))
    line = "=" * 40
    assert printed == f"{line} SAMPLE 1 {line}\na\nbä\n{line} SAMPLE 2 {line}\nac\n"
