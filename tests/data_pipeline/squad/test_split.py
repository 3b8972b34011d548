import numpy as np
import pytest

from data_pipeline.batches import packing
from data_pipeline.squad import choice, files, scores, split
from data_pipeline.text import wordpiece
from tests import tiny, tiny_questions

LIMITS = {"max_seq_length": 24, "doc_stride": 8, "max_query_length": 4}
VOCAB = [*tiny.SPECIAL, *tiny.FILLERS, *tiny_questions.SIGNS]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
SETTINGS = choice.Settings(n_best_size=3)


def load(path, read=files.read_for_prediction, **changes):
    questions = read(str(path), version_2_with_negative=False)
    return split.load("dev", questions, TOKENIZER, **{**LIMITS, **changes})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "dev.json"
    return load(tiny_questions.version_1(path, 4))


def right_logits(data, length=24):
    ids = packing.grids(data.windows.packed, length)["input_ids"]
    signs = [VOCAB.index(sign) for sign in tiny_questions.SIGNS]
    logits = np.where(np.isin(ids, signs), 9.0, -9.0).astype(np.float32)
    return {"start_logits": logits, "end_logits": logits.copy()}


def test_withheld_answers_count_for_the_best_threshold(tmp_path):
    path = tiny_questions.version_2(tmp_path / "dev.json", 6)
    data = load(path)
    logits = right_logits(data)
    for values in logits.values():
        values[:, 0] = 10.0  # no answer is better than the right one, by little
    settings = choice.Settings(version_2_with_negative=True)
    scored = scores.decide(data, logits, TOKENIZER, settings)
    assert set(scored.answers.predictions.values()) == {""}
    assert set(scored.answers.best.values()) > set(tiny_questions.SIGNS[1:])
    assert scored.scores["HasAns_f1"] == 0.0 and scored.scores["best_f1"] == 100.0
    assert scored.scores["best_f1_thresh"] == 2.0  # 2 * 10 - 2 * 9


def test_padding_takes_no_place_unless_all_windows_are_padded_alike(data):
    logits = right_logits(data)
    is_padding = np.arange(24) >= data.windows.packed.lengths[:, None]
    assert is_padding.sum(axis=1).min() >= 3  # as many as are kept
    for values in logits.values():
        values[is_padding] = 20.0
    scored = scores.decide(data, logits, TOKENIZER, SETTINGS)
    assert scored.scores == {"exact_match": 100.0, "f1": 100.0}
    original = scores.decide(data, logits, TOKENIZER, SETTINGS, pad_to=24)
    assert set(original.answers.predictions.values()) == {"empty"}


def test_score_names_follow_the_version(data, tmp_path):
    assert scores.score_names(data, SETTINGS) == ("f1", "exact_match")
    path = tiny_questions.version_2(tmp_path / "dev.json", 4)
    second = load(path)
    version_2 = choice.Settings(version_2_with_negative=True)
    assert scores.score_names(second, SETTINGS) == ("f1", "exact")
    names = scores.score_names(second, version_2)
    scored = scores.decide(second, right_logits(second), TOKENIZER, version_2)
    assert set(names) <= scored.scores.keys()
    assert names[0] == "f1"
    paragraphs = [tiny_questions.question(n, answers=[]) for n in range(2)]
    blind = load(tiny_questions.write(tmp_path / "blind.json", paragraphs))
    assert scores.decide(blind, right_logits(blind), TOKENIZER, SETTINGS).scores == {}
    with pytest.raises(ValueError, match="leave out --evaluate_steps"):
        scores.score_names(blind, SETTINGS)


def test_digest_tells_data_apart(tmp_path):
    digests = set()
    for count, changes in ((4, {}), (5, {}), (4, {"doc_stride": 3}), (4, {})):
        path = tiny_questions.version_1(tmp_path / "train.json", count, start=15)
        data = load(path, files.read_for_training, **changes)
        digests.add(data.digest())
    assert len(digests) == 3


def test_windows_are_named_by_question(tmp_path, capsys):
    path = tiny_questions.version_1(tmp_path / "train.json", 3, start=15)
    data = load(path, files.read_for_training)
    questions = [data.questions.ids[i] for i in data.windows.question_index]
    assert len(set(questions)) == 3 and len(questions) == 6
    names = data.names(np.arange(6))
    assert sorted(names) == [
        f"{path}: question q{number} (window {part} of 2)"
        for number in (15, 16, 17)
        for part in (1, 2)
    ]
    mean = data.windows.packed.lengths.mean()
    assert capsys.readouterr().out == (
        f"dev: 3 questions from {path}, 6 windows, {mean:.1f} tokens on average, "
        f"{data.packed.num_truncated} questions cut to 4\n"
    )
    assert data.names(np.array([3, 0], np.int32)) == [names[3], names[0]]


def test_context_that_the_tokenizer_deletes_is_refused(tmp_path):
    question = tiny_questions.question(1, answers=[])
    question["context"] = "\u200b\u200b"
    path = tiny_questions.write(tmp_path / "empty.json", [question])
    with pytest.raises(ValueError, match="no context has a token"):
        load(path)
