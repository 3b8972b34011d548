"""Tests of data_pipeline/squad/split.py."""

import json

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.batches import padding, tf_records
from data_pipeline.squad import choice, files, scores, split
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import wordpiece
from tests import parsed_records, tiny, tiny_questions

LIMITS = {"max_seq_length": 24, "doc_stride": 8, "max_query_length": 4}
VOCAB = [*tiny.SPECIAL, *tiny.FILLERS, *tiny_questions.SIGNS]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
SETTINGS = choice.Settings(n_best_size=3)


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece.BertTokenizer(VOCAB)


def load(tokenizer, path, read=files.read_for_prediction, **changes):
    questions = read(str(path), version_2_with_negative=False)
    return split.load("dev", questions, tokenizer, **{**LIMITS, **changes})


@pytest.fixture(scope="module")
def data(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "dev.json"
    return load(tokenizer, tiny_questions.version_1(path, 4))


def right_logits(data, length=24):
    """Logits that point at the sign of each window."""
    ids = padding.grids(data.windows.packed, length)["input_ids"]
    signs = [VOCAB.index(sign) for sign in tiny_questions.SIGNS]
    found = np.where(np.isin(ids, signs), 9.0, -9.0).astype(np.float32)
    return {"start_logits": found, "end_logits": found.copy()}


def test_summary_is_one_line(tokenizer, tmp_path, capsys):
    path = tiny_questions.version_1(tmp_path / "dev.json", 4)
    data = load(tokenizer, path, max_query_length=1)
    mean = data.windows.packed.lengths.mean()
    assert capsys.readouterr().out == (
        f"dev: 4 questions from {path}, 4 windows, {mean:.1f} tokens on average, "
        "4 questions cut to 1\n"
    )


def test_answers_are_scored(data):
    scored = scores.decide(data, right_logits(data), TOKENIZER, SETTINGS)
    assert scored.scores == {"exact_match": 100.0, "f1": 100.0}
    wrong = {name: -values for name, values in right_logits(data).items()}
    worse = scores.decide(data, wrong, TOKENIZER, SETTINGS)
    assert worse.scores["exact_match"] == 0.0


def test_threshold_is_looked_for_among_withheld_answers(tokenizer, tmp_path):
    path = tiny_questions.version_2(tmp_path / "dev.json", 6)
    data = load(tokenizer, path)
    logits = right_logits(data)
    for values in logits.values():
        values[:, 0] = 10.0  # no answer is better than the right one, by little
    settings = choice.Settings(version_2_with_negative=True)
    scored = scores.decide(data, logits, TOKENIZER, settings)
    assert set(scored.answers.predictions.values()) == {""}
    assert set(scored.answers.best.values()) > set(tiny_questions.SIGNS[1:])
    found = scored.scores
    assert found["HasAns_f1"] == 0.0 and found["best_f1"] == 100.0
    assert found["best_f1_thresh"] == 2.0  # 2 * 10 - 2 * 9


def test_padding_takes_no_place_unless_all_windows_are_padded_alike(data):
    logits = right_logits(data)
    is_padding = np.arange(24) >= data.windows.packed.lengths[:, None]
    assert is_padding.sum(axis=1).min() >= 3  # as many as are kept
    for values in logits.values():
        values[is_padding] = 20.0
    scored = scores.decide(data, logits, TOKENIZER, SETTINGS)
    assert scored.scores["exact_match"] == 100.0
    original = scores.decide(data, logits, TOKENIZER, SETTINGS, pad_to=24)
    assert set(original.answers.predictions.values()) == {"empty"}


def test_questions_without_answers_have_no_scores(tokenizer, tmp_path):
    paragraphs = [tiny_questions.question(n, answers=[]) for n in range(2)]
    data = load(tokenizer, tiny_questions.write(tmp_path / "blind.json", paragraphs))
    scored = scores.decide(data, right_logits(data), TOKENIZER, SETTINGS)
    assert scored.scores == {}
    with pytest.raises(ValueError, match="leave out --evaluate_steps"):
        scores.score_names(data, SETTINGS)


def test_score_names_follow_the_version(data, tokenizer, tmp_path):
    assert scores.score_names(data, SETTINGS) == ("f1", "exact_match")
    path = tiny_questions.version_2(tmp_path / "dev.json", 4)
    second = load(tokenizer, path)
    version_2 = choice.Settings(version_2_with_negative=True)
    assert scores.score_names(second, SETTINGS) == ("f1", "exact")
    names = scores.score_names(second, version_2)
    scored = scores.decide(second, right_logits(second), TOKENIZER, version_2)
    assert set(names) <= scored.scores.keys()
    assert names[0] == "f1"


def test_digest_tells_data_apart(tokenizer, tmp_path):
    digests = set()
    for number, (count, changes) in enumerate(
        ((4, {}), (5, {}), (4, {"doc_stride": 3}))
    ):
        path = tiny_questions.version_1(tmp_path / f"{number}.json", count, start=15)
        data = load(tokenizer, path, files.read_for_training, **changes)
        digests.add(data.digest())
        assert load(tokenizer, path, files.read_for_training, **changes).digest() in (
            digests
        )
    assert len(digests) == 3


def test_windows_are_named_by_question(tokenizer, tmp_path):
    path = tiny_questions.version_1(tmp_path / "train.json", 3, start=15)
    data = load(tokenizer, path, files.read_for_training)
    questions = [data.questions.ids[i] for i in data.windows.question_index]
    assert len(set(questions)) == 3 and len(questions) == 6
    names = data.names(np.arange(6))
    assert sorted(names) == [
        f"{path}: question q{number} (window {part} of 2)"
        for number in (15, 16, 17)
        for part in (1, 2)
    ]
    for name, question in zip(names, questions, strict=True):
        assert f"question {question} " in name
    assert data.names(np.array([3, 0], np.int32)) == [names[3], names[0]]


def test_context_that_the_tokenizer_deletes_is_refused(tokenizer, tmp_path):
    question = tiny_questions.question(1, answers=[])
    question["context"] = "\u200b\u200b"
    path = tiny_questions.write(tmp_path / "empty.json", [question])
    with pytest.raises(ValueError, match="no context has a token"):
        load(tokenizer, path)


@pytest.mark.parametrize(
    ("name", "read", "file"),
    [
        ("train", files.read_for_training, "train.tf_record"),
        ("predict", files.read_for_prediction, "eval.tf_record"),
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
        wordpiece.BertTokenizer.from_file(str(vocab_file)),
        **{limit: golden[limit] for limit in limits},
    )
    monkeypatch.setattr(tf_records, "_CHUNK_ROWS", 7)
    data = split.QuestionSplit(str(path), windows.packed, questions, windows)
    split.write_records(str(tmp_path), data, 128)
    # run_squad.py, input_fn_builder; the reader does not look at is_impossible.
    names = {"unique_ids": "unique_id"}
    if name == "train":
        names |= {f"{end}_positions": f"{end}_position" for end in ("start", "end")}
        names["is_impossible"] = "is_impossible"
    sequence = tf.io.FixedLenFeature([128], tf.int64)
    inputs = ("input_ids", "input_mask", "segment_ids")
    spec = {key: sequence for key in inputs} | {
        key: parsed_records.SCALAR for key in names
    }
    found = parsed_records.parsed(tmp_path / file, spec)
    names |= {key: key for key in inputs}
    assert found == [
        {key: feature[original] for key, original in names.items()}
        for feature in golden["features"]
    ]
    (record, *_) = parsed_records.serialized(tmp_path / file)
    assert set(tf.train.Example.FromString(record).features.feature) == set(names)
