"""Tests of data_pipeline/tagging/sentence_sets.py."""

import json

import numpy as np
import pytest

from data_pipeline.tagging import sentence_sets, tag_sets, tagged_files
from data_pipeline.text import tokenization

TOKENIZER = tokenization.BertTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"]
)
TAG_SET = tag_sets.TagSet(("O", "X"), "plain")
SENTENCES = ["a b c", "d e f g h i j a", "b c d e", "f"]


def load(path, max_seq_length=7, **limits):
    sentences = sentence_sets.read({"train": str(path)}, tagged_files.Layout())
    return sentence_sets.load(
        sentences,
        TAG_SET,
        TOKENIZER,
        accepts_unknown=False,
        max_seq_length=max_seq_length,
        **limits,
    )["train"]


@pytest.fixture
def conll(tmp_path):
    """Sentences that begin in lines 3, 7, 16 and 23, after a comment and a mark."""
    rows = ["# a comment", "-DOCSTART- O"]
    for number, text in enumerate(SENTENCES):
        rows += [f"{word} O" for word in text.split()]
        rows += [""] * (1 + number // 2 * 2)
    path = tmp_path / "train.conll"
    path.write_text("\n".join(rows), "utf-8")
    return path


@pytest.mark.parametrize("document_context", [False, True])
def test_windows_are_named_by_line(conll, document_context):
    data = load(conll, document_context=document_context)
    assert len(data.windows) == 5
    lines = conll.read_text("utf-8").split("\n")
    assert [lines[at - 1] for at in (3, 7, 16, 23)] == ["a O", "d O", "b O", "f O"]
    assert data.names(np.array([4, 2, 0, 1, 3], np.int32)) == [
        f"{conll}:23 (window 1 of 1)",
        f"{conll}:7 (window 2 of 2)",
        f"{conll}:3 (window 1 of 1)",
        f"{conll}:7 (window 1 of 2)",
        f"{conll}:16 (window 1 of 1)",
    ]


def test_sentences_of_a_line_are_named_by_it(tmp_path):
    path = tmp_path / "train.jsonl"
    rows = [{"words": t.split(), "tags": ["O"] * len(t.split())} for t in SENTENCES]
    rows.insert(1, {"words": [], "tags": []})  # left out, but a line
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    data = load(path, max_seq_length=12)
    assert data.names(np.array([3, 0, 1])) == [
        f"{path}:{line} (window 1 of 1)" for line in (5, 1, 3)
    ]
