"""Tests of data_pipeline/examples/feature_records.py."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.examples import feature_records, packing
from data_pipeline.squad import context_windows, squad_files
from data_pipeline.text import tokenization

PACKED = packing.Packed(
    tokens=np.array([101, 7, 8, 102, 101, 7, 102, 9, 102], np.int32),
    splits=np.array([0, 4, 9]),
    first_lengths=np.array([4, 3], np.int32),
)
SEQUENCE = tf.io.FixedLenFeature([6], tf.int64)
SCALAR = tf.io.FixedLenFeature([], tf.int64)
# run_classifier.py, file_based_input_fn_builder, with 6 tokens.
ORIGINAL_SPEC = {
    "input_ids": SEQUENCE,
    "input_mask": SEQUENCE,
    "segment_ids": SEQUENCE,
    "label_ids": SCALAR,
    "is_real_example": SCALAR,
}


def write(path, label_ids):
    columns = {"label_ids": label_ids, "is_real_example": np.ones(2, np.int32)}
    feature_records.write(path, PACKED, columns, 6)


def written(path):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def parsed(path, spec):
    return [
        {
            name: value.numpy().tolist()
            for name, value in tf.io.parse_single_example(record, spec).items()
        }
        for record in written(path)
    ]


def test_spec_is_the_originals():
    assert feature_records.classifier_spec(6) == ORIGINAL_SPEC


def test_records_hold_padded_features(tmp_path):
    path = tmp_path / "train.tf_record"
    write(path, np.array([2, 0], np.int32))
    assert parsed(path, ORIGINAL_SPEC) == [
        {
            "input_ids": [101, 7, 8, 102, 0, 0],
            "input_mask": [1, 1, 1, 1, 0, 0],
            "segment_ids": [0, 0, 0, 0, 0, 0],
            "label_ids": 2,
            "is_real_example": 1,
        },
        {
            "input_ids": [101, 7, 102, 9, 102, 0],
            "input_mask": [1, 1, 1, 1, 1, 0],
            "segment_ids": [0, 0, 0, 1, 1, 0],
            "label_ids": 0,
            "is_real_example": 1,
        },
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["train.tf_record"]


def test_records_equal_the_batches_features(tmp_path):
    path = tmp_path / "eval.tf_record"
    write(path, np.array([2, 0], np.int32))
    tokens = tf.RaggedTensor.from_row_splits(PACKED.tokens, PACKED.splits)
    features = packing.pad(tokens, PACKED.first_lengths, 6)
    for i, row in enumerate(parsed(path, feature_records.classifier_spec(6))):
        for name, values in features.items():
            assert row[name] == values[i].numpy().tolist()


@pytest.mark.parametrize(
    "label_ids",
    [
        np.array([0.5, -2.0], np.float32),
        np.array([[1, 0, 1], [0, 0, 0]], np.float32),
    ],
    ids=["regression", "multi_label"],
)
def test_other_labels_are_floats(tmp_path, label_ids):
    path = tmp_path / "train.tf_record"
    write(path, label_ids)
    shape = label_ids.shape[1:] or (1,)
    spec = {"label_ids": tf.io.FixedLenFeature(shape, tf.float32)}
    rows = [np.array(row["label_ids"]) for row in parsed(path, spec)]
    np.testing.assert_array_equal(rows, label_ids.reshape(2, -1))


def test_interrupted_writing_leaves_the_former_file(tmp_path, monkeypatch):
    path = tmp_path / "train.tf_record"
    write(path, np.array([0, 0], np.int32))
    before = path.read_bytes()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.io.gfile, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(path, np.array([1, 1], np.int32))
    assert path.read_bytes() == before


def test_splits_get_the_originals_file_names(tmp_path):
    data = types.SimpleNamespace(
        packed={"train": PACKED, "dev": PACKED, "test": PACKED},
        label_ids={
            "train": np.array([2, 0], np.int32),
            "dev": np.array([1, 1], np.int32),
            "test": None,
        },
    )
    feature_records.write_classifier(str(tmp_path / "new"), data, 6)
    found = {
        path.name: [row["label_ids"] for row in parsed(path, ORIGINAL_SPEC)]
        for path in (tmp_path / "new").iterdir()
    }
    assert found == {
        "train.tf_record": [2, 0],
        "eval.tf_record": [1, 1],
        "predict.tf_record": [0, 0],
    }


@pytest.mark.parametrize(
    ("name", "read", "file"),
    [
        ("train", squad_files.read_for_training, "train.tf_record"),
        ("predict", squad_files.read_for_prediction, "eval.tf_record"),
    ],
)
def test_squad_records_hold_the_originals_features(
    name, read, file, shared_file, tmp_path, monkeypatch
):
    golden = json.loads(
        shared_file(f"golden/squad/features-{name}.json").read_text("utf-8")
    )
    path = shared_file("golden/squad/dev-small-v2.json")
    vocab_file = shared_file("data/vocab/bert-base-uncased-vocab.txt")
    questions = read(str(path), version_2_with_negative=True)
    limits = ("max_seq_length", "doc_stride", "max_query_length")
    windows = context_windows.make_windows(
        questions,
        tokenization.BertTokenizer.from_file(str(vocab_file)),
        **{limit: golden[limit] for limit in limits},
    )
    monkeypatch.setattr(feature_records, "_CHUNK_ROWS", 7)
    feature_records.write_squad(str(tmp_path), questions, windows, 128)
    # run_squad.py, input_fn_builder; the reader does not look at is_impossible.
    names = {"unique_ids": "unique_id"}
    if name == "train":
        names |= {f"{end}_positions": f"{end}_position" for end in ("start", "end")}
        names["is_impossible"] = "is_impossible"
    sequence = tf.io.FixedLenFeature([128], tf.int64)
    inputs = ("input_ids", "input_mask", "segment_ids")
    spec = {key: sequence for key in inputs} | {key: SCALAR for key in names}
    found = parsed(tmp_path / file, spec)
    names |= {key: key for key in inputs}
    assert found == [
        {key: feature[original] for key, original in names.items()}
        for feature in golden["features"]
    ]
    (record, *_) = written(tmp_path / file)
    assert set(tf.train.Example.FromString(record).features.feature) == set(names)
