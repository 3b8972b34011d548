"""Tests of data_pipeline/text/added_tokens.py."""

import pytest

from data_pipeline.text import gpt2, opening, wordpiece

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tea", "##pot", "cup"]


def test_byte_pairs_take_no_tokens(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("word\n")
    with pytest.raises(ValueError, match="to word pieces, not to byte pairs"):
        opening.add_tokens(gpt2.Gpt2Tokenizer(["a", "b"], []), str(path))


def add(tmp_path, text, lowers=True):
    path = tmp_path / "tokens.txt"
    path.write_bytes(text.encode("utf-8"))
    tokenizer = wordpiece.BertTokenizer(VOCAB, lowers)
    return opening.add_tokens(tokenizer, str(path))


def test_tokens_are_found_in_text(tmp_path):
    longer, never = add(tmp_path, "kettle\n##spoon\nthé\n")
    assert longer.vocab == [*VOCAB, "kettle", "##spoon", "thé"]
    assert longer.do_lower_case
    # Uncased text loses its accents, so nothing becomes thé.
    assert never == ["thé"]
    found = longer.tokenize(["Kettle teapot teaspoon thé"]).to_list()
    assert found == [[8, 5, 6, 5, 9, 1]]
    before = wordpiece.BertTokenizer(VOCAB).tokenize(["Kettle teaspoon"]).to_list()
    assert before == [[1, 1]]


def test_tokens_that_text_never_becomes(tmp_path):
    assert add(tmp_path, "Mug\n[E1]\nmug\n茶\n")[1] == ["Mug", "[E1]"]
    assert add(tmp_path, "Mug\n[E1]\nmug\n茶\n", lowers=False)[1] == ["[E1]"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mug\n\nbowl\n", "tokens.txt:2: '' is not one token"),
        ("mug\ntea cup\n", "tokens.txt:2: 'tea cup' is not one token"),
        ("mug\ncup\n", "tokens.txt:2: 'cup' is known already, id 7"),
        ("mug\nbowl\nmug\n", "tokens.txt:3: 'mug' is known already, line 1"),
        ("", "tokens.txt: is empty; give the tokens to add"),
    ],
)
def test_unusable_tokens_are_named(tmp_path, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        add(tmp_path, text)


def test_files_of_other_systems(tmp_path):
    assert add(tmp_path, "\ufeffmug\r\nbowl\r\n")[0].vocab == [*VOCAB, "mug", "bowl"]
    path = tmp_path / "tokens.txt"
    path.write_bytes(b"mug\ncaf\xe9\n")
    tokenizer = wordpiece.BertTokenizer(VOCAB)
    with pytest.raises(ValueError, match=r"tokens\.txt:2: byte 0xe9.*not UTF-8"):
        opening.add_tokens(tokenizer, str(path))
    with pytest.raises(FileNotFoundError, match=r"gone\.txt: no such file"):
        opening.add_tokens(tokenizer, str(tmp_path / "gone.txt"))
