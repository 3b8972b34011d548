"""Tests of Chinese questions: places of answers without spaces, and scores."""

import json
import random

import pytest

from contract import outcomes
from data_pipeline.squad import chinese_scores, choice, files, scores, windows
from data_pipeline.text import wordpiece
from tests.shown import shown

CONTEXT = "他说天上有一只鸟，鸟在飞。树上也有一只鸟，共10只。"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "10", *sorted(set(CONTEXT) - {*"10"})]
VOCAB += sorted({*"哪里几只谁?"} - {*VOCAB})


def write(path, *answers, context=CONTEXT):
    qas = [
        {"id": str(i), "question": "谁?", "answers": given}
        for i, given in enumerate(answers)
    ]
    data = [{"paragraphs": [{"context": context, "qas": qas}]}]
    path.write_text(json.dumps({"data": data}), "utf-8")
    return str(path)


def answer(text, start):
    return [{"text": text, "answer_start": start}]


def trained_places(path, *, at_ideographs):
    """The text, and where it begins, that each question is trained to answer."""
    read = files.read_for_training(
        path, version_2_with_negative=False, at_ideographs=at_ideographs
    )
    questions = shown(read)
    tokenizer = wordpiece.BertTokenizer(VOCAB)
    data = windows.make_windows(
        questions, tokenizer, max_seq_length=64, doc_stride=32, max_query_length=8
    )
    first = data.packed.first_lengths[0]
    ids = data.packed.tokens[: data.packed.splits[1]]
    characters = [VOCAB[i] for i in ids[first:]]
    return [
        (
            "".join(characters[a - first : b - first + 1]),
            len("".join(characters[: a - first])),
        )
        for a, b in zip(data.start_positions, data.end_positions, strict=True)
    ]


def test_an_answer_is_trained_where_it_stands(tmp_path, caplog):
    place = CONTEXT.rindex("一只鸟")
    path = write(tmp_path / "train.json", answer("一只鸟", place))
    assert trained_places(path, at_ideographs=True) == [("一只鸟", place)]
    assert "earlier" not in caplog.text
    # google-research/bert takes the first of its words, which whitespace cuts.
    assert trained_places(path, at_ideographs=False) == [
        ("一只鸟", CONTEXT.index("一只鸟"))
    ]
    assert "1 of 1 answers also stand earlier" in caplog.text
    assert "--task_name=drcd" in caplog.text


def test_a_start_that_is_off_moves_to_the_left(tmp_path, capsys):
    place = CONTEXT.rindex("树上")
    given = [answer("树上", place + shift) for shift in (0, 3)]
    path = write(tmp_path / "train.json", *given)
    assert trained_places(path, at_ideographs=True) == [("树上", place)] * 2
    assert f"{path}: 1 answer moved by up to 3 characters" in capsys.readouterr().out
    far = write(tmp_path / "far.json", given[0], answer("树上", place + 4))
    assert len(trained_places(far, at_ideographs=True)) == 1


def test_tokens_are_those_of_words_between_spaces(tmp_path):
    """A sign that BERT does not cut, such as a wide tilde, stays where it is."""
    context = "500～600毫米。 13.2°至ABC度"
    vocab = ["[UNK]", "[CLS]", "[SEP]", "500", "##～6", "##00", "毫", "米", "。", "13"]
    vocab += [".", "2", "##°", "至", "abc", "度"]
    tokenizer = wordpiece.BertTokenizer(vocab)
    ids = [
        windows.tokenize_contexts([context], tokenizer, at_ideographs=at).tokens
        for at in (False, True)
    ]
    assert ids[0].tolist() == ids[1].tolist()
    assert len(ids[0]) == 13


def test_secret_answers_are_none(tmp_path, capsys):
    path = write(tmp_path / "test.json", answer("FAKE_ANSWER_1", -1))
    read = files.read_for_prediction(path, version_2_with_negative=False)
    assert shown(read).answer_texts == [[]]
    assert "answers begin at -1, so they are read as secret" in capsys.readouterr().out
    path = write(tmp_path / "dev.json", answer("FAKE", -1), answer("鸟", 7))
    questions = files.read_for_prediction(path, version_2_with_negative=False)
    assert questions.answer_texts == [["FAKE"], ["鸟"]]


@pytest.mark.parametrize(
    ("gold", "given", "exact", "f1"),
    [
        ("《天上》", "天上", 1.0, 1.0),
        ("天上。", "天上.", 0.0, 2 * (2 / 3) * 1 / (2 / 3 + 1)),  # an ASCII stop stays
        ("天上有鸟", "上有", 0.0, 2 * 1 * 0.5 / 1.5),
        ("天上有鸟", "天鸟", 0.0, 2 * 0.5 * 0.25 / 0.75),  # a run, no subsequence
        ("ABC 公司", "abc公司", 0.0, 1.0),  # blanks within count for the exact match
        ("1998年5月", "5月", 0.0, 2 * 1 * 0.5 / 1.5),
        ("天", "……", 0.0, 0.0),
        ("u-boat 7", "UBOAT 7", 1.0, 1.0),  # a sign goes before words are cut
    ],
)
def test_scores_of_an_answer(gold, given, exact, f1):
    assert chinese_scores.exact(gold, given) == exact
    assert chinese_scores.f1(gold, given) == pytest.approx(f1, abs=1e-12)


def longest_run(a, b):
    return max(
        (
            size
            for i in range(len(a))
            for j in range(len(b))
            for size in range(1, min(len(a) - i, len(b) - j) + 1)
            if a[i : i + size] == b[j : j + size]
        ),
        default=0,
    )


def test_the_longest_run_of_500_random_answers():
    random_values = random.Random(7)
    signs = "天上有鸟，。、 a1"
    for _ in range(500):
        pair = ["".join(random_values.choices(signs, k=9)) for _ in range(2)]
        wanted, written = map(chinese_scores.segments, pair)
        common = longest_run(wanted, written)
        if common:
            precision, recall = common / len(written), common / len(wanted)
            expected = 2 * precision * recall / (precision + recall)
        assert chinese_scores.f1(*pair) == (expected if common else 0.0)
        assert "，" not in "".join(wanted)


def test_scores_of_a_file(tmp_path):
    path = write(
        tmp_path / "dev.json", answer("鸟", 7), answer("树上", CONTEXT.index("树上"))
    )
    questions = files.read_for_prediction(
        path, version_2_with_negative=False, at_ideographs=True
    )
    data = windows.make_windows(
        questions,
        wordpiece.BertTokenizer(VOCAB),
        max_seq_length=64,
        doc_stride=32,
        max_query_length=8,
    )
    entry = {"probability": 1.0, "start_logit": 0.0, "end_logit": 0.0}
    given = {"0": "《鸟》", "1": "树"}
    answers = choice.Answers(
        given, given, {k: [entry | {"text": v}] for k, v in given.items()}, None
    )
    scored = scores.score(data, answers, is_chinese=True)
    half = 100 * (1 + 2 / 3) / 2
    assert scored == pytest.approx(
        {"exact_match": 50.0, "f1": half, "average": (50 + half) / 2}
    )
    assert scores.score(data, answers)["exact_match"] == 0.0  # by words of SQuAD
    given = outcomes.Scored(predictions=answers, scores=scored)
    seen = scores.outcomes("dev", data, given, is_chinese=True)
    assert seen.is_correct.tolist() == [True, False]
    assert seen.losses.tolist() == [0.0, 0.0]
    settings = choice.Settings(is_chinese=True)
    assert scores.score_names(data, settings) == ("average", "f1", "exact_match")


@pytest.mark.parametrize(
    ("name", "count"), [("drcd/train", 318), ("cmrc2018/train", 25)]
)
def test_real_answers_are_trained_where_they_stand(shared_file, name, count):
    path = str(shared_file(f"data/clue/{name}.json"))
    questions = files.read_for_training(
        path,
        version_2_with_negative=False,
        multiple_answers="first",
        at_ideographs=True,
    )
    assert len(questions) == count
    for row, (first, last) in enumerate(questions.answer_words.tolist()):
        context = questions.contexts[questions.context_index[row]]
        words = files.split_words(context, at_ideographs=True)
        before = "".join(words[:first])
        start = questions.answer_starts[row][0]
        spaceless = "".join(files.split_words(context[:start]))
        assert spaceless.startswith(before)
        assert len(spaceless) - len(before) < len(words[first])
        text = "".join(files.split_words(questions.answer_texts[row][0]))
        assert text in "".join(words[first : last + 1])
