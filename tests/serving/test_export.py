"""Tests of serving/export.py and serving/predictor.py with models of three kinds."""

import dataclasses
import functools
import pathlib
import re
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from contract import atomic_files, file_names
from data_pipeline import head_classes, label_maps
from data_pipeline.batches import packing
from data_pipeline.classification import encoding, labels
from data_pipeline.text import wordpiece
from modeling import losses, models
from serving import export, predictor
from serving.protocol import servables
from tests import daily
from tests.serving import exported_ops, networks, odd_texts

NAMES = ("input_ids", "input_mask", "segment_ids")
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a", "##s", "."]
CONFIG = networks.config_for(VOCAB)
LABEL_SETS = {
    "classification": labels.Labels(("no", "ja", "yes")),
    "multi_label": labels.Labels(("a", "b"), "multi_label"),
    "regression": labels.Labels((), "regression"),
}
TEXTS = ["a good film.", "", "Bad FILMS", "gut", "bad bad bad bad bad bad bad bad"]
OTHERS = ["bad", "good film", "", "a", "good good good good good good good good"]
# Float32 rounding; the two graphs multiply matrices of different padding.
ROUNDING = 1e-6


class Exported(NamedTuple):
    model: models.BertClassifier
    encode: object
    problem_type: str
    version_dir: pathlib.Path

    def probabilities(self, *texts):
        tokens, first_lengths = self.encode(*map(tf.constant, texts))
        features = packing.pad(tokens, first_lengths)
        logits = self.model(features)["logits"]
        return features, np.asarray(losses.probabilities(self.problem_type, logits))


def make(problem_type, num_texts, export_dir):
    label_set = LABEL_SETS[problem_type]
    keras.utils.set_random_seed(4)
    model = models.BertClassifier(CONFIG, label_set.num_outputs)
    model.build()
    encode = encoding.Encoder(wordpiece.BertTokenizer(VOCAB), 12)
    # Wider than a head is born, and centred, so that the answers differ.
    head = model.classifier.logits
    head.kernel.assign(tf.random.stateless_normal(head.kernel.shape, [1, 2]))
    tokens, first_lengths = encode(tf.constant(TEXTS))
    logits = model(packing.pad(tokens, first_lengths))["logits"]
    head.bias.assign(-tf.reduce_mean(logits, axis=0))

    module = export.TextClassifier(
        dataclasses.replace(encode, has_pairs=num_texts == 2),
        losses.WithProbabilities(problem_type, model),
        [variable.value for variable in model.variables],
        label_set.names if problem_type == "classification" else (),
        CONFIG,
    )
    files = {file_names.LABEL_MAP: label_maps.text(label_set)}
    path = export.save(module, str(export_dir), files)
    return Exported(model, encode, problem_type, pathlib.Path(path)), module


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return make("classification", 1, tmp_path_factory.mktemp("single") / "export")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make("multi_label", 2, tmp_path_factory.mktemp("pair"))[0]


@pytest.fixture(scope="module")
def number(tmp_path_factory):
    return make("regression", 1, tmp_path_factory.mktemp("number"))[0]


@functools.cache
def answering(version_dir):
    return predictor.Predictor(str(version_dir))


def signature(exported, name="serving_default"):
    return tf.saved_model.load(str(exported.version_dir)).signatures[name]


def test_text_gives_what_the_model_gives(single):
    exported, _ = single
    _, expected = exported.probabilities(TEXTS)
    results = signature(exported)(text=tf.constant(TEXTS))
    np.testing.assert_allclose(results["probabilities"], expected, atol=ROUNDING)
    names = LABEL_SETS["classification"].names
    best = [names[i].encode() for i in expected.argmax(axis=-1)]
    assert results["label"].numpy().tolist() == best
    assert len(set(best)) > 1  # there is something to tell apart
    np.testing.assert_allclose(expected.sum(axis=-1), 1, atol=ROUNDING)


def test_ids_give_what_the_text_gives(single):
    exported, _ = single
    features, expected = exported.probabilities(TEXTS)
    by_ids = signature(exported, "ids")
    results = by_ids(**features)
    np.testing.assert_allclose(results["probabilities"], expected, atol=ROUNDING)
    longer = {name: tf.pad(value, [[0, 0], [0, 3]]) for name, value in features.items()}
    results = by_ids(**longer)
    np.testing.assert_allclose(results["probabilities"], expected, atol=ROUNDING)
    unmasked = {**longer, "input_mask": tf.ones_like(longer["input_mask"])}
    moved = by_ids(**unmasked)["probabilities"] - expected
    assert np.abs(moved).max() > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_ids": [[2, 10]]}, r"input_ids are not all from 0 to 9, the rows of"),
        ({"segment_ids": [[0, 2]]}, "segment_ids are not all from 0 to 1"),
        (
            {"input_mask": [[7, -3]]},
            "input_mask is not 1 for a token and 0 for padding",
        ),
        ({"input_mask": [[1]]}, "the inputs differ in shape; give each token one"),
        ({"input_ids": [[2, 3]] * 2}, "the inputs differ in shape"),
        (
            {name: [[]] for name in NAMES},
            "input_ids have no token; give the spec",
        ),
        (
            {name: [[1] * 17] for name in NAMES},
            "more tokens than 16, the positions of the",
        ),
    ],
)
def test_ids_that_the_network_cannot_read_are_refused(single, change, message):
    version = servables.open_version(str(single[0].version_dir))
    right = {"input_ids": [[2, 3]], "input_mask": [[1, 1]], "segment_ids": [[0, 1]]}
    arrays = {k: np.array(v, np.int32) for k, v in {**right, **change}.items()}
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        version.predict("ids", arrays)
    assert re.match(
        f"assertion failed: \\[.*{message}", atomic_files.reason(caught.value)
    )


def test_ids_within_all_limits_are_answered(single):
    version = servables.open_version(str(single[0].version_dir))
    highest = {"input_ids": 9, "input_mask": 1, "segment_ids": 1}
    for shape in ((0, 0), (0, 5), (1, 1), (2, 16)):
        arrays = {name: np.full(shape, n, np.int32) for name, n in highest.items()}
        assert version.predict("ids", arrays)["probabilities"].shape == (shape[0], 3)


def test_network_takes_slices_of_rows_of_similar_length(monkeypatch):
    monkeypatch.setattr(export, "SLICE_TOKENS", 15)
    monkeypatch.setattr(export, "CALL_TOKENS", 2)

    def forward(features):
        ids = features["input_ids"]
        shape = tf.shape(ids)  # of the slice
        return {"ids": ids, "slices": tf.tile(shape[None], [shape[0], 1])}

    run = export.ids_function(export.Stages((), None, forward, None).run)
    for lengths, wanted in (
        ([], []),
        ([5, 5], [[2, 5], [2, 5]]),  # 3 rows of 5 tokens are the most
        ([5, 5, 5, 5], [[3, 5], [3, 5], [3, 5], [1, 5]]),
        ([1, 5, 4, 0], [[2, 1], [2, 5], [2, 5], [2, 1]]),  # which is read as 1
        ([3, 5, 4], [[1, 3], [2, 5], [2, 5]]),  # 1 + 2 would be padding
    ):
        size = max(lengths, default=1)
        mask = (np.arange(size) < np.array(lengths)[:, None]).astype(np.int32)
        ids = mask * np.arange(1, mask.size + 1, dtype=np.int32).reshape(mask.shape)
        actual = run(ids, mask, 0 * ids)
        np.testing.assert_array_equal(actual["ids"], ids)
        assert actual["slices"].numpy().tolist() == wanted


@pytest.mark.parametrize("sequences", [(), (3,)])
def test_slices_end_with_their_tokens_or_padding(monkeypatch, sequences):
    count, factor = 40, sequences[0] if sequences else 1
    lengths = np.random.default_rng(3).integers(1, 60, count)
    mask = (np.arange(60) < lengths[:, None]).astype(np.int32)
    if sequences:  # the longest of an example counts
        mask = np.stack([mask * (np.arange(60) < 1), mask, mask * 0], axis=1)
    monkeypatch.setattr(export, "SLICE_TOKENS", 700)
    planned = export.plan_slices(tf.constant(mask), 80)
    slices = export.Slices._make(part.numpy() for part in planned)
    np.testing.assert_array_equal(lengths[slices.order], slices.lengths)
    assert slices.starts.tolist() == [0, *slices.ends[:-1]]
    assert slices.ends[-1] == count and len(slices.ends) > 3

    def fits(start, end):
        longest = slices.lengths[start]
        padding = factor * np.sum(longest - slices.lengths[start:end])
        return padding <= 80 and end - start <= 1 + 700 // (1 + factor * longest)

    for start, end in zip(slices.starts, slices.ends, strict=True):
        assert fits(start, end) and (end == count or not fits(start, end + 1))


@pytest.mark.slow
def test_odd_texts_have_the_answers_that_they_have_alone(single, pair):
    texts = [TEXTS[0].encode(), *odd_texts.ODD, odd_texts.LONG, TEXTS[2].encode()]
    actual = odd_texts.assert_alone(signature(single[0]), {"text": texts})
    shares = actual["probabilities"]
    # What is no text, or not UTF-8, does not count.
    np.testing.assert_allclose(shares[2:4], shares[[1, 1]], atol=ROUNDING)
    np.testing.assert_allclose(shares[4], shares[6], atol=1)
    _, expected = single[0].probabilities(["a good film", "good ", "good  film"])
    np.testing.assert_allclose(shares[4:7], expected, atol=ROUNDING)
    columns = {"text_a": texts, "text_b": texts[::-1]}
    odd_texts.assert_alone(signature(pair), columns)


def test_versions_are_numbered_and_the_newest_is_taken(single):
    exported, module = single
    folder = exported.version_dir.parent
    assert exported.version_dir.name == "1"
    (folder / "incomplete").mkdir()  # of an export that was interrupted
    assert export.latest_version(str(folder)) == 1
    second = export.save(module, str(folder), {})
    assert second == str(folder / "2")
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]
    assert export.latest_version(str(folder)) == 2
    assert predictor.Predictor(str(folder)).export_dir == second
    assert predictor.Predictor(str(folder / "1")).export_dir == str(folder / "1")
    (folder / "00000010").mkdir()
    (folder / "11.old").mkdir()
    assert export.latest_version(str(folder)) == 10
    assert export.versions(str(folder))[10] == str(folder / "00000010")
    assert servables.number(f"{folder}/00000010") == 10
    assert export.latest_version(str(folder / "none")) == 0


@pytest.mark.slow
def test_answers_name_labels_or_are_a_number(single, pair, number):
    for exported, columns, name in (
        (single[0], (TEXTS,), "probabilities"),
        (pair, (TEXTS, OTHERS), "probabilities"),
        (number, (TEXTS,), "score"),
    ):
        names = LABEL_SETS[exported.problem_type].names
        _, expected = exported.probabilities(*columns)
        answers = answering(exported.version_dir).predict(*columns)
        for answer, row in zip(answers, expected, strict=True):
            assert [*answer] == (["label", name] if exported is single[0] else [name])
            values = answer[name] if names else {"score": answer[name]}
            assert not names or tuple(values) == names
            np.testing.assert_allclose([*values.values()], row, atol=ROUNDING)
        assert np.ptp(expected, axis=0).min() > 1e-3
    path = pair.version_dir / "assets.extra" / "label_map.json"
    assert head_classes.read(str(path)) == LABEL_SETS["multi_label"]
    _, swapped = pair.probabilities(OTHERS, TEXTS)
    assert np.abs(swapped - pair.probabilities(TEXTS, OTHERS)[1]).max() > 1e-3
    with pytest.raises(ValueError, match="takes text for each example, 2 given"):
        answering(single[0].version_dir).predict(["a"], ["b"])
    with pytest.raises(ValueError, match="takes text_a, text_b for each example, 1"):
        answering(pair.version_dir).predict(["a"])


@pytest.mark.parametrize("kind", daily.params(["single", "pair"], "single".__eq__))
def test_model_server_can_answer(request, kind):
    exported = request.getfixturevalue(kind)
    exported = exported[0] if kind == "single" else exported
    exported_ops.assert_servable(exported.version_dir)
    columns = [[]] * (1 + (kind == "pair"))
    assert answering(exported.version_dir).predict(*columns) == []
    described = exported_ops.described(
        tf.saved_model.load(str(exported.version_dir)).signatures
    )
    names = ("text_a", "text_b") if kind == "pair" else ("text",)
    assert described["serving_default"][0] == {n: ([None], "string") for n in names}
    assert described["ids"][0] == {n: ([None, None], "int32") for n in NAMES}


@pytest.mark.parametrize("name", ["messages", 'a "quoted" \\ name', "schön"])
def test_server_reads_what_is_written(tmp_path, name):
    export.write_server_config(str(tmp_path / name / "export") + "/")
    folder = tmp_path / name / "config"
    actual = text_format.Parse(
        (folder / "models.config").read_text("utf-8"),
        model_server_config_pb2.ModelServerConfig(),
    )
    (config,) = actual.model_config_list.config
    assert config.name == name
    assert config.base_path == f"/models/{name}"
    assert config.model_platform == "tensorflow"
    batching = (folder / "batching_parameters.txt").read_text("utf-8")
    lines = [line for line in batching.splitlines() if not line.startswith("#")]
    assert lines == [
        "max_batch_size { value: 32 }",
        "batch_timeout_micros { value: 2000 }",
        "num_batch_threads { value: 2 }",
        "max_enqueued_batches { value: 100 }",
    ]
