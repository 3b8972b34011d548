"""An exported tagger against run_tagger.py's way to the same tags."""

import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline import head_classes, label_maps
from data_pipeline.batches import packing
from data_pipeline.tagging import files as tagged_files
from data_pipeline.tagging import graph, schemes, scores
from data_pipeline.tagging import windows as windows_lib
from data_pipeline.text import offsets, wordpiece
from modeling import models
from modeling.configs import config
from serving import answers, export, predictor, windowed
from tests.serving import exported_ops, odd_texts

pytestmark = pytest.mark.slow

PIECES = "the fair of par ##is opens on mon ##day , . ' s 東 京"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
LIMITS = {"max_seq_length": 12, "stride": 4}
SLICE_TOKENS, SLICE_ROWS = 40, 4  # of 12 tokens
TAG_SET = schemes.TagNames(("O", "B-place", "I-place", "B-day", "I-day"), "BIO")
CONFIG = config.BertConfig(
    vocab_size=len(VOCAB),
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=12,
    type_vocab_size=2,
    initializer_range=0.5,
)
ROUNDING = 1e-5  # of float32; two graphs multiply matrices of different padding
LONG = "The fair of Paris , the fair on Monday . Mondayss of Oslo 's fair 東 京 opens"
SENTENCES = [
    LONG.split() * 3,
    ["Paris"],
    [],
    [*["of"] * 25, "\u200b", "on" * 30],
    ["Páris", "opens", "on", "Mondays"],
]
NOTHING = {"words": [], "tags": [], "probabilities": [], "starts": [], "ends": []}
TEXTS = [" ".join(row) for row in SENTENCES]


def new_model():
    keras.utils.set_random_seed(3)
    model = models.BertTagger(CONFIG, len(TAG_SET.names))
    model.build()
    kernel = model.tagger.logits.kernel  # wider than a head is born
    kernel.assign(tf.random.stateless_normal(kernel.shape, [1, 2]))
    return model


@pytest.fixture(scope="module")
def model():
    return new_model()


def make(model, tag_set=TAG_SET, **limits):
    """As run_tagger.py does it."""
    return windowed.WordTagger(
        offsets.split_words,
        graph.encoder(TOKENIZER, **{**LIMITS, **limits}),
        functools.partial(model, training=False),
        graph.chooser(tag_set),
        [variable.value for variable in model.variables],
    )


@pytest.fixture(scope="module")
def version_dir(model, tmp_path_factory):
    """The network takes the windows of SENTENCES in many slices."""
    files = {"label_map.json": label_maps.text(TAG_SET)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "SLICE_TOKENS", SLICE_TOKENS)
        windows = tf.ones([9, LIMITS["max_seq_length"]], tf.int32)
        assert export.plan_slices(windows, 0).ends[0] == SLICE_ROWS
        return export.save(make(model), str(tmp_path_factory.mktemp("tagger")), files)


@functools.cache  # loading takes longer than asking
def loaded(version_dir):
    return tf.saved_model.load(version_dir).signatures


@functools.cache
def asking(version_dir):
    return predictor.Predictor(version_dir)


def grid(rows):
    width = max(map(len, rows), default=0)
    cells = [[*row, *[""] * (width - len(row))] for row in rows]
    return tf.reshape(tf.constant(cells, tf.string), [len(rows), width])


def served(version_dir, rows):
    """(tags, probabilities) of each sentence, by the signature `words`."""
    return by_sentence(loaded(version_dir)["words"](words=grid(rows)), rows)


def by_sentence(actual, rows):
    actual = {name: values.numpy() for name, values in actual.items()}
    assert actual["words"].tolist() == grid(rows).numpy().tolist()
    for i, row in enumerate(rows):
        assert set(actual["tags"][i, len(row) :]) <= {b""}
        assert not actual["probabilities"][i, len(row) :].any()
    return (
        [
            [tag.decode() for tag in actual["tags"][i, : len(row)]]
            for i, row in enumerate(rows)
        ],
        [actual["probabilities"][i, : len(row)] for i, row in enumerate(rows)],
    )


def expected(model, rows):
    """What run_tagger.py says of these words, and the windows of each sentence."""
    sentences = tagged_files.Sentences(
        path="a.conll",
        tag_path="a.conll",
        file_format="conll",
        words=rows,
        tags=None,
        documents=np.zeros(len(rows), np.int32),
        lines=[[1] * len(row) for row in rows],
    )
    windows = windows_lib.make_windows(sentences, TOKENIZER, **LIMITS)
    logits = model(packing.grids(windows.packed, LIMITS["max_seq_length"]))["logits"]
    probabilities = keras.ops.softmax(logits)
    outputs = {
        "ids": np.argmax(logits, axis=-1),
        "probabilities": np.max(probabilities, axis=-1),
    }
    counts = np.bincount(windows.sentence_index, minlength=len(rows))
    return scores.decide(windows, outputs, TAG_SET), counts


def assert_tagged(actual, wanted):
    tags, probabilities = actual
    assert tags == wanted.predictions
    for row, values in zip(probabilities, wanted.probabilities, strict=True):
        np.testing.assert_allclose(row, values, atol=ROUNDING)


def test_tags_are_those_of_run_tagger(model, version_dir):
    wanted, num_windows = expected(model, SENTENCES)
    assert_tagged(served(version_dir, SENTENCES), wanted)
    assert num_windows.max() > 2 * SLICE_ROWS and num_windows[2] == 0
    assert len({tag for row in wanted.predictions for tag in row}) > 3


def test_other_windows_give_other_tags(model):
    """The twin of the test above: limits and the names of tags arrive in the graph."""
    wanted, _ = expected(model, SENTENCES)
    plain = schemes.TagNames(("a", "b", "c", "d", "e"), "plain")
    actual = make(model, plain, stride=9).functions["words"](grid(SENTENCES))
    tags, probabilities = by_sentence(actual, SENTENCES)
    assert {tag for row in tags for tag in row} <= set(plain.names)
    assert np.abs(probabilities[0] - wanted.probabilities[0]).max() > 1e-3


def test_slices_in_another_order_give_other_tags(model, version_dir):
    """The twin of the test above, which windows of one kind would pass in any order."""
    windows = graph.encoder(TOKENIZER, **LIMITS)(grid(SENTENCES))
    logits = model(windows.features, training=False)["logits"]
    choose = graph.chooser(TAG_SET)
    tags, _ = served(version_dir, SENTENCES)
    for first, is_equal in ((0, True), (SLICE_ROWS, False)):
        turned = tf.concat([logits[first:], logits[:first]], axis=0)
        actual = choose(windows, turned)["tags"].numpy().tolist()
        assert (actual[0] == [tag.encode() for tag in tags[0]]) == is_equal


def test_texts_are_tagged_like_their_words(model, version_dir):
    rows = asking(version_dir).predict(TEXTS)
    wanted, _ = expected(model, [row["words"] for row in rows])
    actual = [row["tags"] for row in rows], [row["probabilities"] for row in rows]
    assert_tagged(actual, wanted)
    assert rows[1]["words"] == ["Paris"] and rows[2]["words"] == []
    for text, row in zip(TEXTS, rows, strict=True):
        places = zip(row["starts"], row["ends"], strict=True)
        assert [text[start:end] for start, end in places] == row["words"]


def test_nothing_is_tagged(version_dir):
    signatures = loaded(version_dir)
    outputs = signatures["serving_default"](text=tf.constant([], tf.string))
    assert {tuple(values.shape) for values in outputs.values()} == {(0, 0)}
    outputs = signatures["serving_default"](text=tf.constant(["", " \n"]))
    assert {tuple(values.shape) for values in outputs.values()} == {(2, 0)}
    assert served(version_dir, []) == ([], [])
    assert asking(version_dir).predict([]) == []
    assert asking(version_dir).predict([""]) == [NOTHING]


def test_odd_texts_have_the_answers_that_they_have_alone(version_dir):
    texts = [TEXTS[0].encode(), *odd_texts.ODD, odd_texts.LONG_WORDS]
    signature = loaded(version_dir)["serving_default"]
    actual = odd_texts.assert_alone(signature, {"text": texts})
    counts = (actual["words"] != b"").sum(axis=1)
    assert counts.tolist()[1:3] == [0, 0] and counts[-1] == 1024


def test_ids_give_the_logits(model, version_dir):
    features = graph.encoder(TOKENIZER, **LIMITS)(grid(SENTENCES)).features
    logits = model(features, training=False)["logits"]
    by_ids = loaded(version_dir)["ids"]
    np.testing.assert_allclose(by_ids(**features)["logits"], logits, atol=ROUNDING)
    unmasked = {**features, "input_mask": tf.ones_like(features["input_mask"])}
    assert np.abs(by_ids(**unmasked)["logits"] - logits).max() > 1e-3


def test_tags_lie_beside_the_model(version_dir):
    path = f"{version_dir}/assets.extra/label_map.json"
    assert head_classes.read(str(path)) == TAG_SET


def test_tags_as_lines():
    def shown(text, *tags):
        places = [word.span() for word in re.finditer(r"\S+", text)]
        columns = {"starts": [a for a, _ in places], "ends": [b for _, b in places]}
        answer = {"words": text.split(), "tags": list(tags), **columns}
        first, *others = next(answers.lines([text], [answer], as_json=False)).split(
            "\n    "
        )
        assert first == text
        return others

    assert shown("to", "O") == ["(no tags)"]
    actual = shown("to New  York", "O", "B-place", "I-place")
    assert actual == ["New/B-place York/I-place", "place: New York"]
    # Spans of one type that touch, in two letters and in four, and of another type.
    for tags in (
        ("B-a", "I-a", "B-a", "B-b"),
        ("B-a", "E-a", "S-a", "S-b"),
        ("B-a", "L-a", "U-a", "U-b"),
    ):
        assert shown("x y z é", *tags)[1:] == ["a: x y", "a: z", "b: é"]
    # Parts of speech are no spans, nor are spans without a type shown.
    assert shown("x y z", "S", "PRP-x", "B") == ["x/S y/PRP-x z/B"]


def test_model_server_can_answer(version_dir):
    exported_ops.assert_servable(version_dir)
    signatures = exported_ops.described(loaded(version_dir))
    strings, numbers = ([None, None], "string"), ([None, None], "float32")
    ids = ([None, None], "int32")
    outputs = {"words": strings, "tags": strings, "probabilities": numbers}
    assert signatures["words"] == ({"words": strings}, outputs)
    assert signatures["serving_default"] == (
        {"text": ([None], "string")},
        {**outputs, "starts": ids, "ends": ids},
    )
    names = ("input_ids", "input_mask", "segment_ids")
    assert signatures["ids"] == (
        dict.fromkeys(names, ids),
        {"logits": ([None, None, len(TAG_SET.names)], "float32")},
    )
