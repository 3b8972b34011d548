"""An exported question answerer against run_squad.py's way to the same answers."""

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import packing
from data_pipeline.squad import choice, graph
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import wordpiece
from modeling import models
from serving import answers, export, predictor, windowed
from tests import served_answers
from tests.serving import exported_ops, networks, odd_texts

pytestmark = pytest.mark.slow

PIECES = "the fair opens on monday tue ##s ##day in par ##is who when ? . - ( ) 東 京"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
LENGTHS = {"max_seq_length": 16, "doc_stride": 4, "max_query_length": 5}
SLICE_TOKENS, SLICE_ROWS = 40, 3  # of 16 tokens
SETTINGS = choice.Settings(
    aligner="words",
    version_2_with_negative=True,
    null_score_diff_threshold=-1.0,
    n_best_size=4,
    max_answer_length=6,
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
COLUMNS = list(zip(*ROWS, strict=True))


@pytest.fixture(scope="module")
def network():
    """A model and its tensors."""
    config = networks.config_for(VOCAB)
    return networks.build(lambda: models.BertSpanPredictor(config))


@pytest.fixture(scope="module")
def version_dir(network, tmp_path_factory):
    """The network takes the windows of ROWS in many slices."""
    model, tensors = network
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "SLICE_TOKENS", SLICE_TOKENS)
        windows = tf.ones([9, LENGTHS["max_seq_length"]], tf.int32)
        assert export.plan_slices(windows, 0).ends[0] == SLICE_ROWS
        module = windowed.QuestionAnswerer(
            graph.encoder(TOKENIZER, **LENGTHS),
            lambda features: model(features, training=False),
            graph.chooser(SETTINGS),
            tensors,
        )
        return export.save(module, str(tmp_path_factory.mktemp("answerer")), {})


@pytest.fixture(scope="module")
def served(version_dir):
    return predictor.Predictor(version_dir)


def expected(model):
    """Answers of run_squad.py, and how many windows each question has."""
    questions = served_answers.ask(ROWS)
    windows = context_windows.make_windows(questions, TOKENIZER, **LENGTHS)
    packed = windows.packed
    tokens = tf.RaggedTensor.from_row_splits(packed.tokens, packed.splits)
    features = packing.pad(tokens, packed.first_lengths, 16)
    logits = model(features, training=False)
    real = features["input_mask"].numpy() > 0
    answers = choice.choose(
        choice.lay_out(windows, 16, TOKENIZER),
        np.where(real, logits["start_logits"], -np.inf),
        np.where(real, logits["end_logits"], -np.inf),
        TOKENIZER,
        SETTINGS,
    )
    return answers, np.bincount(windows.question_index, minlength=len(ROWS))


def test_answers_are_those_of_run_squad(network, served):
    model, _ = network
    answers, num_windows = expected(model)
    actual = served.predict(*COLUMNS)
    served_answers.assert_equal(actual, answers, ROWS)
    assert num_windows.max() > 2 * SLICE_ROWS and (num_windows == 0).sum() == 2
    texts = [row["answer"] for row in actual]
    assert len(set(texts)) > 4  # there is something to tell apart
    assert texts[4] == texts[5] == ""
    assert 2 < texts.count("") < len(texts) - 2  # both kinds of answers
    # The twin: the slices in another order.
    windows = graph.encoder(TOKENIZER, **LENGTHS)(*map(tf.constant, COLUMNS))
    logits = model(windows.features, training=False)
    turned = (
        tf.roll(logits[name], SLICE_ROWS, 0) for name in ("start_logits", "end_logits")
    )
    other = graph.chooser(SETTINGS)(windows, *turned)["answer"].numpy().tolist()
    assert other != [text.encode() for text in texts]


def test_nothing_is_asked(served):
    assert served.predict([], []) == []
    # One question, and no window: the network has nothing to do either.
    (row,) = served.predict(["who"], ["\u200b"])
    none = {"answer": "", "start": -1, "end": -1, "score": 0.0, "probability": 1.0}
    assert row == none | {"null_odds": 1e6}


def test_odd_texts_have_the_answers_that_they_have_alone(version_dir):
    contexts = [ROWS[1][1].encode(), *odd_texts.ODD, odd_texts.LONG_WORDS]
    questions = [ROWS[1][0].encode(), *odd_texts.ODD[::-1], b"when?"]
    columns = {
        "question": [*questions, odd_texts.LONG],
        "context": [*contexts, ROWS[-1][1].encode()],
    }
    signature = tf.saved_model.load(version_dir).signatures["serving_default"]
    batch = odd_texts.assert_alone(signature, columns)
    assert batch["answer"][0] != b"" and batch["start"][1:4].tolist() == [-1] * 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many contexts as"):
        signature(question=tf.constant(["who", "when"]), context=tf.constant(["fair"]))


def test_contexts_and_questions_go_together(served):
    with pytest.raises(ValueError, match="2 and 1 texts given for question, context"):
        served.predict(["who", "when"], ["fair"])
    with pytest.raises(ValueError, match="takes question, context for each example, 1"):
        served.predict(["who"])


def test_answers_as_lines():
    answer = {"answer": "on\n Monday", "start": 4, "end": 14, "probability": 0.75}
    none = {"answer": "", "start": -1, "end": -1, "probability": 0.5}
    lines = answers.lines(["When?", "Who?"], [answer, none], as_json=False)
    assert [*lines] == ["When?\n    on Monday  0.750", "Who?\n    (no answer)  0.500"]


def test_model_server_can_answer(version_dir):
    exported_ops.assert_servable(version_dir)
    signatures = exported_ops.described(tf.saved_model.load(version_dir).signatures)
    text, place, number = ([None], "string"), ([None], "int32"), ([None], "float32")
    outputs = {"answer": text, "start": place, "end": place, "score": number}
    outputs |= {"probability": number, "null_odds": number}
    inputs = {"question": text, "context": text}
    assert signatures["serving_default"] == (inputs, outputs)
    ids, logits = ([None, None], "int32"), ([None, None], "float32")
    names = ("input_ids", "input_mask", "segment_ids")
    assert signatures["ids"] == (
        dict.fromkeys(names, ids),
        {"start_logits": logits, "end_logits": logits},
    )
