"""Tests of data_pipeline/tagging/sentence_sets.py."""

import json

import numpy as np
import pytest

from data_pipeline.tagging import sentence_sets, tag_schemes, tag_sets, tagged_files
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


TRAINING = ["B-x I-x O O", "O B-y O B-x I-x O", "O O"]
NEIGHBOURS = ["B-y B-y I-y O B-x", "O B-x"]  # in IOB1 with a B, which training lacks
SPELLINGS = [scheme for scheme in tag_schemes.SPAN_SCHEMES if scheme != "BMES"]


def write(path, rows, scheme, given="BIO"):
    """A file of these tags, in another scheme; words are letters."""
    lines = []
    for row in rows:
        tags = tag_schemes.respell(row.split(), given, scheme)
        lines += [f"{'abcdef'[i]} {tag}" for i, tag in enumerate(tags)] + [""]
    path.write_text("\n".join(lines))
    return str(path)


def open_files(directory, scheme, *, dev=NEIGHBOURS, **flags):
    """(tags, windows of each split), as run_tagger.py reads its files."""
    paths = {
        "train": write(directory / "train.conll", TRAINING, scheme),
        "dev": write(directory / "dev.conll", dev, scheme),
    }
    splits = sentence_sets.read(paths, tagged_files.Layout())
    flags = {"names": (), "scheme": "", "train_scheme": "", **flags}
    tag_set = sentence_sets.find_tag_set(
        splits["train"], **flags, known="", open_file=open
    )
    limits = {"accepts_unknown": False, "max_seq_length": 12}
    return tag_set, sentence_sets.load(splits, tag_set, TOKENIZER, **limits)


@pytest.mark.parametrize("scheme", SPELLINGS)
def test_spans_are_learned_alike_from_every_scheme(scheme, tmp_path, capsys):
    """Neither ids nor digests differ, so neither will weights."""
    expected_set, expected = open_files(tmp_path, "BIO")
    tag_set, data = open_files(tmp_path, scheme)
    assert tag_set == tag_sets.TagSet(expected_set.names, "BIO", scheme)
    assert tag_set.names == ("O", "B-x", "B-y", "I-x", "I-y")
    assert data["train"].windows.tag_ids.tolist() == [
        1,
        3,
        0,
        0,
        0,
        2,
        0,
        1,
        3,
        0,
        0,
        0,
    ]
    assert data["dev"].windows.tag_ids.tolist() == [2, 2, 4, 0, 1, 0, 1]
    assert {k: v.digest() for k, v in data.items()} == {
        k: v.digest() for k, v in expected.items()
    }
    said = f"spans: files spell them by {scheme}, as predictions will; they are learned"
    out = capsys.readouterr().out
    assert (f"{said} in BIO\n" in out) == (scheme != "BIO")
    assert f"0 tags respelled by the scheme {scheme}\n" in out
    # The twin: asked for, the scheme of the files is learned.
    tag_set, data = open_files(tmp_path, scheme, train_scheme="file")
    assert tag_set.scheme == tag_set.file_scheme == scheme
    if scheme != "BIO":
        assert data["train"].digest() != expected["train"].digest()


@pytest.mark.parametrize("scheme", SPELLINGS)
def test_scores_do_not_depend_on_the_scheme_of_the_files(scheme, tmp_path):
    tag_set, data = open_files(tmp_path, scheme)
    windows = data["dev"].windows
    grid = windows.packed.splits  # of [CLS], words and [SEP] of each sentence
    ids = np.zeros((len(windows), 12), np.int32)
    # B-y I-y I-y O B-x | O I-x: of four spans the last two are right.
    ids[0, 1:6], ids[1, 1:3] = [2, 4, 4, 0, 1], [0, 3]
    assert np.diff(grid).tolist() == [7, 4]
    found = sentence_sets.decide(
        data["dev"], {"ids": ids, "probabilities": np.ones(ids.shape)}, tag_set
    )
    predicted = [["B-y", "I-y", "I-y", "O", "B-x"], ["O", "B-x"]]
    assert found.tags == [tag_schemes.respell(row, "BIO", scheme) for row in predicted]
    scores = found.scores
    assert (scores["precision"], scores["recall"]) == (2 / 3, 2 / 4)
    assert scores["f1"] == pytest.approx(4 / 7)
    assert found.type_scores["x"] == {
        "f1": 1.0,
        "precision": 1.0,
        "recall": 1.0,
        "support": 2,
    }
    assert found.type_scores["y"]["support"] == 2
    assert found.type_scores["y"]["f1"] == 0.0


def test_tags_that_a_list_cannot_spell_are_scored(tmp_path, capsys):
    """B-y of the dev file, where --labels names what stands in the training file."""
    names = ("PAD", "O", "I-x", "I-y")
    tag_set, data = open_files(tmp_path, "IOB1", names=names)
    assert tag_set == tag_sets.TagSet(names, "IOB1", "IOB1")
    assert data["dev"].windows.tag_ids.tolist() == [3, -1, 3, 1, 2, 1, 2]
    out = capsys.readouterr().out
    assert out.count(", 1 tags scored that the model cannot predict\n") == 1
    grid = np.array([[0, 3, 3, 3, 1, 2, 0], [0, 1, 2, 0, 0, 0, 0]], np.int32)
    outputs = {"ids": grid, "probabilities": np.ones(grid.shape)}
    found = sentence_sets.decide(data["dev"], outputs, tag_set)
    assert found.type_scores["y"] == {
        "f1": 0.0,
        "precision": 0.0,
        "recall": 0.0,
        "support": 2,
    }
    assert found.scores["recall"] == 2 / 4


def test_tags_of_unknown_types_are_refused(tmp_path):
    for dev in (["O B-z"], ["O B-xx"]):
        message = (
            r"dev\.conll:2: tag 'I-(z|xx)' is not one of \['O', 'B-x', 'B-y', 'I-x'"
        )
        with pytest.raises(ValueError, match=message):
            open_files(tmp_path, "IOB1", dev=dev)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"scheme": "IOB1"}, None),
        ({"scheme": "BIO"}, "--tag_scheme=BIO is not what the model .* IOB1"),
        ({"train_scheme": "BIO"}, None),
        ({"train_scheme": "BIOES"}, "--train_scheme=BIOES is not what .* BIO "),
        ({"train_scheme": "file"}, "--train_scheme=IOB1 is not what .* BIO "),
    ],
    ids=str,
)
def test_trained_runs_keep_both_schemes(flags, message, tmp_path):
    tag_set = tag_sets.TagSet(("O", "B-x", "I-x"), "BIO", "IOB1")
    path = tmp_path / "label_map.json"
    path.write_text(tag_sets.map_text(tag_set))
    asked = {"names": (), "scheme": "", "train_scheme": "", **flags}
    asked |= {"known": str(path), "open_file": open}
    if message is None:
        assert sentence_sets.find_tag_set(None, **asked) == tag_set
        return
    with pytest.raises(ValueError, match=message):
        sentence_sets.find_tag_set(None, **asked)
