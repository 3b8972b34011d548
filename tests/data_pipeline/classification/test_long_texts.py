"""Windows of long texts, as examples, in batches and as label_map.json keeps them."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline import findings, head_classes, label_maps
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, labels, long_texts, sources
from data_pipeline.classification import split as row_splits
from data_pipeline.tables import labelled
from data_pipeline.text import wordpiece
from tests import tiny
from tests.refusals import refused

LETTERS = "abcdefghijklmnopqrst"
TOKENIZER = wordpiece.BertTokenizer([*tiny.SPECIAL[:4], *LETTERS])
CLS, SEP = 2, 3


def encoder(length, **windows):
    made = long_texts.Windows(**windows)
    label_set = labels.Labels(("x", "y"), windows=made)
    return encoding.Encoder(TOKENIZER, length, label_set)


def text(count):
    return " ".join(LETTERS[i % len(LETTERS)] for i in range(count))


def spans(count, room, stride):
    """(start, length) as the loop of the original's run_squad.py finds them."""
    found, start = [], 0
    while start < count:
        length = min(count - start, room)
        found.append((start, length))
        if start + length == count:
            break
        start += min(length, stride)
    return found or [(0, 0)]


def sequences(packed):
    return [each.tolist() for each in np.split(packed.tokens, packed.splits[1:-1])]


@pytest.mark.parametrize("stride", [0, 1, 3, 5, 99])
def test_windows_are_those_of_the_original_questions(stride):
    counts = [*range(14), 0]
    packed = encoder(7, doc_stride=stride).pack([text(count) for count in counts])
    ids = TOKENIZER.tokenize([text(count) for count in counts]).to_list()
    wanted = [spans(count, 5, stride or 3) for count in counts]
    assert packed.counts.tolist() == [len(each) for each in wanted]
    assert sequences(packed) == [
        [CLS, *row[start : start + length], SEP]
        for row, each in zip(ids, wanted, strict=True)
        for start, length in each
    ]
    assert len(packed) == len(counts) and packed.num_truncated == 0
    # A text that fits is what it is without windows.
    plain = encoding.Encoder(TOKENIZER, 7).pack([text(count) for count in range(6)])
    short = packing.take(packed, np.arange(6))
    np.testing.assert_array_equal(short.tokens, plain.tokens)
    np.testing.assert_array_equal(short.splits, plain.splits)
    np.testing.assert_array_equal(short.first_lengths, plain.first_lengths)


def test_most_windows_are_a_limit_of_each_text():
    texts = [text(3), text(30), text(8)]
    packed = encoder(7, max_windows=2).pack(texts)
    assert packed.counts.tolist() == [1, 2, 2] and packed.num_truncated == 1
    every = encoder(7, max_windows=9).pack(texts)
    assert every.counts.tolist() == [1, 9, 2] and every.num_truncated == 1
    assert sequences(packed)[1:3] == sequences(every)[1:3]
    assert encoder(7, max_windows=10).pack(texts).num_truncated == 0


@pytest.fixture
def packed():
    return encoder(7).pack([text(n) for n in (2, 12, 5, 8)])  # 1, 4, 1, 2 windows


def test_a_batch_has_as_many_windows_as_its_example_of_most(packed):
    assert packed.counts.tolist() == [1, 4, 1, 2]
    rows = np.array([[0, 3], [1, -1], [2, 0]], np.int32)
    targets = {"label_ids": np.arange(4, dtype=np.int32)}
    made = list(batching.batches(packed, rows, targets=targets))
    assert [each["input_ids"].shape for each in made] == [
        (2, 2, 7),
        (2, 4, 7),
        (2, 1, 7),
    ]
    assert made[0]["label_ids"].numpy().tolist() == [0, 3]
    each, starts = sequences(packed), packing.row_splits(packed.counts)
    for batch, row in zip(made, rows, strict=True):
        for place, example in enumerate(np.maximum(row, 0)):
            own = each[starts[example] : starts[example + 1]]
            grids = {name: value.numpy()[place] for name, value in batch.items()}
            for number, mask in enumerate(grids["input_mask"]):
                shown = grids["input_ids"][number][mask == 1].tolist()
                assert shown == (own[number] if number < len(own) else [])
            assert not grids["input_ids"][grids["input_mask"] == 0].any()
            assert not grids["segment_ids"].any()
    wanted = packing.gather(packed, rows[0])
    for name, grid in wanted.items():
        np.testing.assert_array_equal(made[0][name], grid, err_msg=name)
    (static,) = batching.batches(packed, rows[:1], pad_to=9)  # for XLA
    assert static["input_ids"].shape == (2, 4, 9)


def test_texts_are_sorted_by_all_of_their_tokens(packed):
    assert packed.lengths.tolist() == [4, 26, 7, 14]
    assert batching.evaluation_order(packed.lengths, 2).tolist() == [[0, 2], [3, 1]]


def test_parts_keep_the_windows_of_each_text(packed):
    part = packing.take(packed, np.array([3, 0]))
    assert part.counts.tolist() == [2, 1]
    assert sequences(part) == [*sequences(packed)[6:8], *sequences(packed)[:1]]
    whole = packing.concatenate([packed, part])
    assert whole.counts.tolist() == [1, 4, 1, 2, 2, 1] and len(whole) == 6
    other = dataclasses.replace(packed, counts=np.array([4, 1, 1, 2]))
    assert packing.digest(packed) != packing.digest(other)
    again = dataclasses.replace(packed, counts=packed.counts.copy())
    assert packing.digest(packed) == packing.digest(again)


def test_served_windows_are_those_of_training(packed):
    encode = encoder(7)
    texts = tf.constant([text(n) for n in (2, 12, 5, 8)])
    served, counts = encode.served(texts)
    assert counts.numpy().tolist() == packed.counts.tolist()
    wanted = packing.grids(packed, 7)
    for name, grid in wanted.items():
        np.testing.assert_array_equal(served[name], grid, err_msg=name)
    nothing, none = encode.cut_served(texts[:0])
    assert nothing["input_ids"].shape[0] == 0 and none.shape == (0,)


def test_pairs_are_refused(packed):
    for columns in (["a"], ["b"]), (["a"], None, [["b", "c"]]):
        with refused("windows reads single texts", "give one text"):
            encoder(7).pack(*columns)
        with refused("windows reads single texts", "give one text"):
            encoder(7).checked(*columns)


def test_pairs_that_a_header_names_are_refused_before_they_are_tokenized(tmp_path):
    header, rows = ("text_a", "text_b", "label"), [("a", "b", "x"), ("c", "d", "y")]
    path = tiny.write_tsv(tmp_path / "pairs.tsv", header, rows)
    windows = long_texts.Windows()
    source = sources.Source(files={"train": str(path)}, windows=windows)
    with refused("these are pairs or have choices", "or train without the flag"):
        row_splits.load(
            source, ["train"], TOKENIZER, 7, head=None, default_metrics={}, show=print
        )


def test_label_map_keeps_how_long_texts_are_read(tmp_path):
    path = tmp_path / "label_map.json"
    made = labels.Labels(("x", "y"), windows=long_texts.Windows(7, 3, "max"))
    path.write_text(label_maps.text(made))
    assert head_classes.read(str(path)) == made
    content = json.loads(path.read_text())
    assert content["long_texts"] == "windows" and content["doc_stride"] == "7"
    cut = labels.Labels(("x", "y"))
    assert "long_texts" not in label_maps.text(cut)  # files stay what they were
    of_run = {"max_seq_length": 48, "multi_label_threshold": 0.4, "num_texts": None}
    kept = json.loads(label_maps.text(cut, of_run)).items()
    assert dict(kept - json.loads(label_maps.text(cut)).items()) == {
        "max_seq_length": "48"
    }
    assert "windows" not in cut.identity and made.identity["windows"]
    path.write_text(label_maps.text(made, of_run))
    assert json.loads(path.read_text()) == content | {"max_seq_length": "48"}
    assert head_classes.read(str(path)) == made
    wrong = ("window_logits", "sum"), ("max_windows", "0"), ("doc_", "1")
    lost = [(name, "x") for name in label_maps.OF_RUN]
    for name, value in (*wrong, *lost):
        path.write_text(json.dumps({**content, name: value}))
        with refused("label_map.json: not a label map", "restore it"):
            head_classes.read(str(path))


def load(tmp_path, head=None, trains=False, **settings):
    rows = [(text(3), "x"), (text(40), "y")]
    path = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), rows)
    name = "train" if trains else "dev"
    source = sources.Source(
        files={name: str(path)},
        layout=labelled.Layout(text_a="text", label="label"),
        label_spec=["x", "y"],
        **settings,
    )
    usual = {"classification": ("accuracy",)}
    return row_splits.load(
        source,
        [name],
        TOKENIZER,
        7,
        head=head,
        default_metrics=usual,
        show=findings.show,
    )


def test_lines_count_rows_that_are_cut(tmp_path, capsys):
    load(tmp_path, trains=True)
    assert (
        "1 cut to 7; --long_texts=windows reads them whole\n" in capsys.readouterr()[0]
    )
    load(tmp_path, trains=True, windows=long_texts.Windows())
    out = capsys.readouterr().out
    assert "2 examples from " in out and "14 windows, at most 13 of one" in out
    assert "0 cut to 16 windows of 7\n" in out
    data = load(tmp_path, trains=True, windows=long_texts.Windows(max_windows=4))
    assert "1 cut to 4 windows of 7\n" in capsys.readouterr().out
    summary = data.splits["train"].summary()
    assert summary.cut_means == "cut to 4 windows of --max_seq_length"


def test_trained_head_decides_how_long_texts_are_read(tmp_path, capsys):
    windows = long_texts.Windows(2, 3, "max")
    head = tiny.head_of(labels.Labels(("x", "y"), windows=windows))
    assert load(tmp_path, head).label_set.windows == windows
    same = {"windows": windows, "follows_windows": False}
    assert load(tmp_path, head, **same).label_set.windows == windows
    with refused("--long_texts=truncate", "--doc_stride=2", "leave these flags out"):
        load(tmp_path, head, follows_windows=False)
    with refused("--max_windows=16", "--max_windows=3", "leave these flags out"):
        other = long_texts.Windows(2, window_logits="max")
        load(tmp_path, head, windows=other, follows_windows=False)
    plain = tiny.head_of(labels.Labels(("x", "y")))
    with refused("--long_texts=windows", "the beginning of long texts"):
        load(tmp_path, plain, **same)
    capsys.readouterr()
    # Training follows the flags, and a line names what they leave.
    assert load(tmp_path, head, trains=True).label_set.windows is None
    assert "was trained on windows, and this run cuts long" in capsys.readouterr().out
    load(tmp_path, head, trains=True, **same)
    load(tmp_path, head, trains=True, follows_windows=False)
    assert "was trained on windows" not in capsys.readouterr().out
