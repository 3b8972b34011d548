"""An exported question answerer against run_squad.py's way to the same answers."""

import functools
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import packing
from data_pipeline.squad import choice, graph
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import wordpiece
from modeling import models
from modeling.configs import config
from serving import answers, export, predictor, windowed
from tests import served_answers
from tests.serving import exported_ops, odd_texts

PIECES = "the fair opens on monday tue ##s ##day in par ##is who when ? . - ( ) 東 京"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
LENGTHS = {"max_seq_length": 16, "doc_stride": 4, "max_query_length": 5}
SLICE_TOKENS, SLICE_ROWS = 40, 3  # of 16 tokens
CONFIG = config.BertConfig(
    vocab_size=len(VOCAB),
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=16,
    type_vocab_size=2,
    initializer_range=0.5,
)
LONG = "The fair\topens  (on Monday) in\xa0Páris.  東京 Tuesday - the fair. Who? " * 3
ROWS = [
    ("When?", LONG),
    ("Who opens the fair in Paris on Monday?", LONG),
    ("", LONG),
    ("who", "PARIS"),
    ("who", ""),
    ("who", " \t\u200b"),
    ("fair", "Tu\u0301esdays\r\n(fai\xadr)"),
    ("when", "東京 - 東 京 \N{FERRIS WHEEL}."),
    ("Monday?", "the fair " * 9 + "opens"),
]


class Exported(NamedTuple):
    """A model, how its answers are chosen, and where it lies."""

    model: models.BertSpanPredictor
    settings: choice.Settings
    version_dir: str

    def signature(self, name="serving_default"):
        return loaded(self.version_dir).signatures[name]

    def predict(self, *columns):
        return answering(self.version_dir).predict(*columns)


@functools.cache  # loading takes longer than asking
def loaded(version_dir):
    return tf.saved_model.load(version_dir)


@functools.cache
def answering(version_dir):
    return predictor.Predictor(version_dir)


def new_model():
    keras.utils.set_random_seed(3)
    model = models.BertSpanPredictor(CONFIG)
    model.build()
    kernel = model.span.logits.kernel  # wider than a head is born
    kernel.assign(tf.random.stateless_normal(kernel.shape, [1, 2]))
    return model


@pytest.fixture(scope="module")
def model():
    return new_model()


def served(model, settings):
    """As run_squad.py does it."""
    return windowed.QuestionAnswerer(
        graph.encoder(TOKENIZER, **LENGTHS),
        lambda features: model(features, training=False),
        graph.chooser(settings),
        [variable.value for variable in model.variables],
    )


def make(model, directory, **settings):
    """The network takes the windows of ROWS in many slices."""
    settings = choice.Settings(aligner="words", **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "SLICE_TOKENS", SLICE_TOKENS)
        assert export.slice_rows(LENGTHS["max_seq_length"]) == SLICE_ROWS
        path = export.save(served(model, settings), str(directory), {})
    return Exported(model, settings, path)


@pytest.fixture(scope="module")
def version_1(model, tmp_path_factory):
    return make(model, tmp_path_factory.mktemp("v1"))


@pytest.fixture(scope="module")
def version_2(model, tmp_path_factory):
    return make(
        model,
        tmp_path_factory.mktemp("v2"),
        version_2_with_negative=True,
        null_score_diff_threshold=-1.0,
        n_best_size=4,
        max_answer_length=6,
    )


def expected(exported, rows):
    """(answers of run_squad.py, number of windows of each question)."""
    questions = served_answers.ask(rows)
    windows = context_windows.make_windows(questions, TOKENIZER, **LENGTHS)
    packed = windows.packed
    tokens = tf.RaggedTensor.from_row_splits(packed.tokens, packed.splits)
    features = packing.pad(tokens, packed.first_lengths, 16)
    logits = exported.model(features, training=False)
    real = features["input_mask"].numpy() > 0
    answers = choice.choose(
        choice.lay_out(questions, windows, 16, TOKENIZER),
        np.where(real, logits["start_logits"], -np.inf),
        np.where(real, logits["end_logits"], -np.inf),
        TOKENIZER,
        exported.settings,
    )
    return answers, np.bincount(windows.question_index, minlength=len(rows))


VERSIONS = [pytest.param("version_1", marks=pytest.mark.slow), "version_2"]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_those_of_run_squad(request, version):
    exported = request.getfixturevalue(version)
    answers, num_windows = expected(exported, ROWS)
    served = exported.predict(*zip(*ROWS, strict=True))
    served_answers.assert_equal(served, answers, ROWS)
    assert num_windows.max() > 2 * SLICE_ROWS and (num_windows == 0).sum() == 2
    texts = [row["answer"] for row in served]
    assert len(set(texts)) > 4  # there is something to tell apart
    assert texts[4] == texts[5] == ""
    if version == "version_2":  # with both kinds of answers
        assert 2 < texts.count("") < len(texts) - 2


@pytest.mark.slow
def test_other_settings_give_other_answers(version_1, version_2):
    """The twin of the test above: thresholds and limits do arrive in the graph."""
    columns = list(zip(*ROWS, strict=True))
    first, second = (exported.predict(*columns) for exported in (version_1, version_2))
    differ = [a["answer"] != b["answer"] for a, b in zip(first, second, strict=True)]
    assert any(differ)
    answers, _ = expected(version_1, ROWS)
    with pytest.raises(AssertionError):
        served_answers.assert_equal(second, answers, ROWS)


def test_slices_in_another_order_give_other_answers(version_2):
    """The twin of the tests above, which like windows would pass in any order."""
    columns = list(zip(*ROWS, strict=True))
    windows = graph.encoder(TOKENIZER, **LENGTHS)(*map(tf.constant, columns))
    logits = version_2.model(windows.features, training=False)
    choose = graph.chooser(version_2.settings)
    wanted = [row["answer"].encode() for row in version_2.predict(*columns)]
    for first, is_equal in ((0, True), (SLICE_ROWS, False)):
        turned = [
            tf.concat([logits[name][first:], logits[name][:first]], axis=0)
            for name in ("start_logits", "end_logits")
        ]
        found = choose(windows, *turned)["answer"].numpy().tolist()
        assert (found == wanted) == is_equal


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_asked(request, version):
    exported = request.getfixturevalue(version)
    assert exported.predict([], []) == []
    # One question, and no window: the network has nothing to do either.
    (row,) = exported.predict(["who"], ["\u200b"])
    none = {"answer": "", "start": -1, "end": -1, "score": 0.0, "probability": 1.0}
    assert row == none | ({"null_odds": 1e6} if version == "version_2" else {})


@pytest.mark.parametrize("version", VERSIONS)
def test_odd_texts_have_the_answers_that_they_have_alone(request, version):
    contexts = [ROWS[1][1].encode(), *odd_texts.ODD, odd_texts.LONG_WORDS]
    questions = [ROWS[1][0].encode(), *odd_texts.ODD[::-1], b"when?"]
    columns = {
        "question": [*questions, odd_texts.LONG],
        "context": [*contexts, ROWS[-1][1].encode()],
    }
    signature = request.getfixturevalue(version).signature()
    found = odd_texts.assert_alone(signature, columns)
    assert found["answer"][0] != b"" and found["start"][1:4].tolist() == [-1] * 3


def test_contexts_and_questions_go_together(version_2):
    answer = version_2.signature()
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many contexts as"):
        answer(question=tf.constant(["who", "when"]), context=tf.constant(["fair"]))
    with pytest.raises(ValueError, match="2 and 1 texts given for question, context"):
        version_2.predict(["who", "when"], ["fair"])
    with pytest.raises(ValueError, match="takes question, context for each example, 1"):
        version_2.predict(["who"])


def test_invalid_bytes_do_not_count(version_2):
    question, context = ROWS[1]
    (row,) = version_2.predict([question], [context])
    broken = b"\xff\xfe" + context.encode() + b"\xe6\x9d"
    (found,) = version_2.predict([question], [broken])
    assert found == pytest.approx(row, abs=served_answers.ROUNDING)
    assert found["answer"] and context[found["start"] :].startswith(found["answer"])


def test_ids_give_the_logits(version_2):
    encode = graph.encoder(TOKENIZER, **LENGTHS)
    windows = encode(*map(tf.constant, zip(*ROWS, strict=True)))
    logits = version_2.model(windows.features, training=False)
    by_ids = version_2.signature("ids")
    served = by_ids(**windows.features)
    for name in ("start_logits", "end_logits"):
        np.testing.assert_allclose(
            served[name], logits[name], atol=served_answers.ROUNDING
        )
    unmasked = dict(windows.features)
    unmasked["input_mask"] = tf.ones_like(unmasked["input_mask"])
    moved = by_ids(**unmasked)["start_logits"] - logits["start_logits"]
    assert np.abs(moved).max() > 1e-3


def test_answers_as_lines():
    answer = {"answer": "on\n Monday", "start": 4, "end": 14, "probability": 0.75}
    line = next(answers.lines(["When?"], [answer], as_json=False))
    assert line == "When?\n    on Monday  0.750"
    none = {"answer": "", "start": -1, "end": -1, "probability": 0.5}
    assert (
        next(answers.lines(["When?"], [none], as_json=False))
        == "When?\n    (no answer)  0.500"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_model_server_can_answer(request, version):
    exported = request.getfixturevalue(version)
    exported_ops.assert_servable(exported.version_dir)
    signatures = exported_ops.described(loaded(exported.version_dir).signatures)
    text, place, number = ([None], "string"), ([None], "int32"), ([None], "float32")
    outputs = {"answer": text, "start": place, "end": place, "score": number}
    outputs["probability"] = number
    if version == "version_2":
        outputs["null_odds"] = number
    assert signatures["serving_default"] == (
        {"question": text, "context": text},
        outputs,
    )
    ids, logits = ([None, None], "int32"), ([None, None], "float32")
    names = ("input_ids", "input_mask", "segment_ids")
    assert signatures["ids"] == (
        dict.fromkeys(names, ids),
        {"start_logits": logits, "end_logits": logits},
    )
