"""Tests of data_pipeline/tagging/split.py."""

import dataclasses
import json

import numpy as np
import pytest

from data_pipeline.tagging import files, predictions, schemes, scores, split
from data_pipeline.text import wordpiece

TOKENIZER = wordpiece.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"])
TAG_SET = schemes.TagNames(("O", "X"), "plain")
SENTENCES = ["a b c", "d e f g h i j a", "b c d e", "f"]


def load(path, max_seq_length=7, **limits):
    sentences = split.read({"train": str(path)}, files.Layout())
    return split.load(
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
NEIGHBOURS = ["B-y B-y I-y O B-x", "O B-x"]
# The same spans as IOB1 spells them: of B-y only the second begins where I would go on.
IOB1_TRAINING = ["I-x I-x O O", "O I-y O I-x I-x O", "O O"]
IOB1_NEIGHBOURS = ["I-y B-y I-y O I-x", "O I-x"]


def write(path, rows):
    """A file of these tags; words are letters."""
    lines = []
    for row in rows:
        tags = row.split()
        lines += [f"{'abcdef'[i]} {tag}" for i, tag in enumerate(tags)] + [""]
    path.write_text("\n".join(lines))
    return str(path)


def open_files(directory, train=TRAINING, dev=NEIGHBOURS, *, names=(), scheme=""):
    """(tags, windows of each split), as run_tagger.py reads its files."""
    paths = {
        "train": write(directory / "train.conll", train),
        "dev": write(directory / "dev.conll", dev),
    }
    splits = split.read(paths, files.Layout())
    tag_set = split.find_tags(splits["train"], names=names, scheme=scheme, label_map="")
    limits = {"accepts_unknown": False, "max_seq_length": 12}
    return tag_set, split.load(splits, tag_set, TOKENIZER, **limits)


def decide(data, tag_set, predicted):
    """What `scores.decide` makes of predicted tags, each with 0.9."""
    windows = data.windows
    ids = np.zeros((len(windows), 12), np.int32)
    for row, tags in zip(ids, predicted, strict=True):
        row[1 : 1 + len(tags)] = [tag_set.names.index(tag) for tag in tags]
    outputs = {"ids": ids, "probabilities": np.full(ids.shape, 0.9)}
    return scores.decide(data, outputs, tag_set)


def test_files_of_iob1_are_learned_and_scored_as_bio(tmp_path, capsys):
    """Neither ids nor digests differ, so neither will weights."""
    expected_set, expected = open_files(tmp_path)
    assert "respelled" not in capsys.readouterr().out
    tag_set, data = open_files(tmp_path, IOB1_TRAINING, IOB1_NEIGHBOURS)
    out = capsys.readouterr().out
    assert out.count("0 words cut to fit, 3 tags respelled by the scheme BIO\n") == 2
    assert tag_set == expected_set
    assert tag_set == schemes.TagNames(("O", "B-x", "B-y", "I-x", "I-y"), "BIO")
    ids = [*(1, 3, 0, 0), *(0, 2, 0, 1, 3, 0), *(0, 0)]
    assert data["train"].windows.tag_ids.tolist() == ids
    assert data["dev"].windows.tag_ids.tolist() == [2, 2, 4, 0, 1, 0, 1]
    assert {k: v.digest() for k, v in data.items()} == {
        k: v.digest() for k, v in expected.items()
    }
    # Of four spans the last two are right.
    predicted = [["B-y", "I-y", "I-y", "O", "B-x"], ["O", "I-x"]]
    tagged = decide(data["dev"], tag_set, predicted)
    assert tagged == decide(expected["dev"], tag_set, predicted)
    assert tagged.tags == [["B-y", "I-y", "I-y", "O", "B-x"], ["O", "B-x"]]
    assert (tagged.scores["precision"], tagged.scores["recall"]) == (2 / 3, 2 / 4)
    assert tagged.scores["f1"] == pytest.approx(4 / 7)
    right = dict.fromkeys(("f1", "precision", "recall"), 1.0) | {"support": 2}
    wrong = dict.fromkeys(("f1", "precision", "recall"), 0.0) | {"support": 2}
    assert tagged.type_scores == {"x": right, "y": wrong}


def test_perfect_tags_are_correct_where_the_file_breaks_its_scheme(tmp_path):
    """As f1 has them: in the lines of predictions, in reports and in the accuracy."""
    tag_set, data = open_files(tmp_path, dev=IOB1_NEIGHBOURS)
    dev = data["dev"]
    tagged = decide(dev, tag_set, [row.split() for row in NEIGHBOURS])
    assert tagged.scores == dict.fromkeys(("f1", "precision", "recall", "accuracy"), 1)
    lines = predictions.span_lines(
        dev.sentences, tagged.tags, tagged.probabilities, tag_set.scheme
    )
    rows = list(map(json.loads, lines))
    assert [row["correct"] for row in rows] == [True, True]
    assert [row["given"] for row in rows] == [row.split() for row in NEIGHBOURS]
    tagged = dataclasses.replace(tagged, losses=np.zeros(7))
    outcomes = scores.outcomes("dev", dev, tagged, tag_set.scheme)
    assert outcomes.is_correct.tolist() == [True, True]
    assert outcomes.predicted == outcomes.expected
    # The twin: a span that is cut is wrong everywhere.
    tagged = decide(dev, tag_set, [["B-y", "B-y", "O", "O", "B-x"], ["O", "B-x"]])
    assert tagged.scores["f1"] == 3 / 4
    lines = predictions.span_lines(
        dev.sentences, tagged.tags, tagged.probabilities, tag_set.scheme
    )
    assert [json.loads(line)["correct"] for line in lines] == [False, True]


def test_four_letters_are_learned_as_the_file_has_them(tmp_path):
    tag_set, data = open_files(tmp_path, ["B-x E-x O S-x"], ["S-x", "I-x O"])
    assert tag_set == schemes.TagNames(("O", "B-x", "E-x", "I-x", "S-x"), "BIOES")
    assert data["train"].windows.tag_ids.tolist() == [1, 2, 0, 4]
    assert data["dev"].windows.tag_ids.tolist() == [4, 4, 0]


def test_tags_that_a_list_cannot_spell_are_scored(tmp_path, capsys):
    """B-y of the dev file, where --labels names what stands in the training file."""
    names = ("PAD", "O", "B-x", "I-x", "I-y")
    tag_set, data = open_files(tmp_path, ["B-x I-x O"], NEIGHBOURS, names=names)
    assert tag_set == schemes.TagNames(names, "BIO")
    assert data["dev"].windows.tag_ids.tolist() == [-1, -1, 4, 1, 2, 1, 2]
    out = capsys.readouterr().out
    assert out.count(", 2 tags scored that the model cannot predict\n") == 1
    found = decide(
        data["dev"], tag_set, [["I-y", "I-y", "I-y", "O", "B-x"], ["O", "B-x"]]
    )
    wrong = dict.fromkeys(("f1", "precision", "recall"), 0.0)
    assert found.type_scores["y"] == {**wrong, "support": 2}
    assert found.scores["recall"] == 2 / 4
    with pytest.raises(ValueError, match=r"train\.conll:3: --labels lacks 'B-y'"):
        open_files(tmp_path, ["B-x I-x B-y"], names=names)


def test_tags_of_unknown_types_are_refused(tmp_path):
    for dev in (["O B-z"], ["O B-xx"]):
        message = (
            r"dev\.conll:2: tag 'B-(z|xx)' is not one of \['O', 'B-x', 'B-y', 'I-x'"
        )
        with pytest.raises(ValueError, match=message):
            open_files(tmp_path, dev=dev)
    with pytest.raises(ValueError, match=r"dev\.conll:2: tag 'S-x' is not of .* BIO "):
        open_files(tmp_path, dev=["O S-x"])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"scheme": "BIO"}, None),
        ({"scheme": "BIOES"}, "--tag_scheme=BIOES is not what the model .* BIO "),
        ({"names": ("O", "B-x")}, "--labels=O,B-x is not what .* O,B-x,I-x "),
    ],
    ids=str,
)
def test_trained_runs_keep_their_tags(flags, message, tmp_path):
    tag_set = schemes.TagNames(("O", "B-x", "I-x"), "BIO")
    path = tmp_path / "label_map.json"
    path.write_text(schemes.map_text(tag_set))
    asked = {"names": (), "scheme": "", "label_map": str(path), **flags}
    if message is None:
        assert split.find_tags(None, **asked) == tag_set
        return
    with pytest.raises(ValueError, match=message):
        split.find_tags(None, **asked)
