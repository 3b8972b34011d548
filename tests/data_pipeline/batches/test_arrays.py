"""Packing and batches without TensorFlow: equal to those of its operations."""

import numpy as np
import pytest

import bert_reborn as bert
from contract import features, tensorflow_later
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, labels
from tests.data_pipeline.text import test_roberta

TEXTS = ["the film", "", "a shop was great and it was okay", "abc " * 14, "sea", "a, b"]
SECONDS = ["it", "a b c d e f g h", "", "the sea " * 14, "great", "b"]
ANSWERS = [[f"{text} x", "a", "the sea was " * 3] for text in SECONDS]


@pytest.fixture
def elsewhere(monkeypatch):
    """A call of a function as on another backend of Keras."""

    def call(function, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(tensorflow_later, "is_backend", lambda: False)
            return function(*arguments, **options)

    return call


def assert_equal(actual, wanted):
    for name in ("tokens", "splits", "first_lengths"):
        a, b = getattr(actual, name), getattr(wanted, name)
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    assert actual.num_truncated == wanted.num_truncated
    assert actual.num_sequences == wanted.num_sequences


ORDERS = labels.Labels(("a", "b"), pair_input="both_orders")
CHOICE = labels.Labels(("x", "y", "z"), "choice")
CASES = {
    "texts": (None, (TEXTS,)),
    "pairs": (None, (TEXTS, SECONDS)),
    "orders": (ORDERS, (TEXTS, SECONDS)),
    "choices": (CHOICE, (TEXTS, None, ANSWERS)),
    "questions": (CHOICE, (TEXTS, SECONDS, ANSWERS)),
    "none": (None, ([],)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("length", [5, pytest.param(12, marks=pytest.mark.slow), 200])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_packed_texts_are_equal(model_dir, elsewhere, kind, case, length):
    tokenizer = test_roberta.make()
    if kind == "bert":
        tokenizer = bert.load(model_dir).tokenizer
    label_set, columns = CASES[case]
    encode = encoding.Encoder(tokenizer, length, label_set)
    wanted = encode.pack(*columns)
    actual = elsewhere(encode.pack, *columns)
    assert_equal(actual, wanted)
    assert case == "none" or (wanted.num_truncated > 0) == (length < 200)
    for pad_to in (None, 64):
        rows = np.array([2, 0, 2, len(TEXTS) - 1] if len(wanted) else [], np.int64)
        chosen = [x if x is None else [x[i] for i in rows] for x in columns]
        tokens, first_lengths = encode(*chosen)
        expected = packing.pad(tokens, first_lengths, pad_to, encode.num_sequences)
        for name, grid in packing.gather(wanted, rows, pad_to).items():
            np.testing.assert_array_equal(grid, expected[name])
            assert grid.dtype == np.int32


def test_a_text_of_gpt_stands_alone(elsewhere):
    from tests import tiny_gpt

    encode = encoding.Encoder(tiny_gpt.tokenizer(), 6)
    assert encode.tokenizer.start_id is None
    wanted = encode.pack(TEXTS)
    assert_equal(elsewhere(encode.pack, TEXTS), wanted)
    assert wanted.first_lengths.tolist() == wanted.sequence_lengths.tolist()


ROWS = [text or "x" for text in TEXTS * 4]
TABLES = {
    "classification": [(text, "ab"[len(text) % 2]) for text in ROWS],
    "multi_label": [(t, ["a,b", "c", "", "a"][len(t) % 4]) for t in ROWS],
    "regression": [(text, str(len(text) / 8)) for text in ROWS],
    "pairs": [(text, text[::-1], "ab"[len(text) % 2]) for text in ROWS],
}


def load(model_dir, kind):
    rows = TABLES[kind]
    problem_type = "classification" if kind == "pairs" else kind
    options = {"problem_type": problem_type, "max_seq_length": 12}
    return bert.classifier(model_dir, **options).read({"train": rows}).examples("train")


def choices(model_dir):
    encode = encoding.Encoder(bert.load(model_dir).tokenizer, 12, CHOICE)
    packed = encode.pack(TEXTS, None, ANSWERS)
    targets = {features.LABEL_IDS: np.arange(len(packed), dtype=np.int32) % 3}
    return batching.Examples(packed, str, str, targets)


def as_arrays(batches):
    return [
        ({name: np.asarray(grid) for name, grid in batch.items()}, np.asarray(target))
        for batch, target in batches
    ]


@pytest.mark.parametrize("kind", [*TABLES, "choice"])
@pytest.mark.parametrize("pad_to", [None, pytest.param(12, marks=pytest.mark.slow)])
def test_batches_of_arrays_are_those_of_tensorflow(model_dir, elsewhere, kind, pad_to):
    examples = choices(model_dir) if kind == "choice" else load(model_dir, kind)
    again = examples if kind == "choice" else elsewhere(load, model_dir, kind)
    for make in (batching.keras_training, batching.keras_in_order):
        wanted = make(examples, 4, pad_to=pad_to)
        actual = elsewhere(make, again, 4, pad_to=pad_to)
        assert len(actual) == len(wanted) > 0
        epochs = []
        for _ in range(3):
            pairs = zip(as_arrays(actual), as_arrays(wanted), strict=True)
            for (batch, target), (batch_tf, target_tf) in pairs:
                assert batch.keys() == batch_tf.keys()
                for name, grid in batch.items():
                    np.testing.assert_array_equal(grid, batch_tf[name])
                    assert grid.dtype == batch_tf[name].dtype
                np.testing.assert_array_equal(target, target_tf)
                assert target.dtype == target_tf.dtype
            epochs.append(
                [batch["input_ids"].tolist() for batch, _ in as_arrays(actual)]
            )
            actual.on_epoch_end()
        # Each epoch has another order, unless it is that of the rows.
        is_same = epochs[0] == epochs[1]
        assert is_same == (make is batching.keras_in_order) or kind == "choice"


def test_rows_without_labels_have_features_alone(model_dir, elsewhere):
    examples = batching.Examples(choices(model_dir).packed, str, str)
    first = elsewhere(batching.keras_in_order, examples, 4)[0]
    assert first["input_ids"].shape[:2] == (4, 3)


def test_fit_takes_the_batches_of_every_epoch(model_dir, elsewhere):
    import keras

    examples = load(model_dir, "classification")
    seen = []

    class Model(keras.Model):
        def train_step(self, data):
            seen.append(np.asarray(data[0]["input_ids"]).tolist())
            return {"loss": keras.ops.zeros(())}

    model = Model()
    model.compile(run_eagerly=True)
    batches = elsewhere(batching.keras_training, examples, 4)
    model.fit(batches, epochs=2, shuffle=False, verbose=0)
    wanted = batching.keras_training(examples, 4, seed=1)
    expected = [b["input_ids"].numpy().tolist() for _ in range(2) for b, _ in wanted]
    assert seen == expected and seen[:6] != seen[6:]


def test_fewer_examples_than_a_batch_are_refused(model_dir, elsewhere):
    with pytest.raises(ValueError, match="batch_size=7 exceeds 6 examples"):
        elsewhere(batching.keras_training, choices(model_dir), 7)
