import json

import numpy as np
import pytest

from data_pipeline import findings
from data_pipeline.batches import packing
from data_pipeline.squad import choice, files, scores
from data_pipeline.squad import windows as context_windows
from data_pipeline.text import wordpiece
from tests import tiny, tiny_questions

PIECES = "the fair opens on monday japanese a b ab ##b ##c c ( ) - . 1895 1943 中 文"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *PIECES.split()]
TOKENIZER = wordpiece.BertTokenizer(VOCAB)
ARRAYS = ("question_index", "window_index", "excerpt_starts", "start_positions")


def ask(*rows):
    """Questions for training, of (context, question, answer or None, start)."""
    contexts = list(dict.fromkeys(row[0] for row in rows))
    words = [(-1, -1) if row[2] is None else words_of(row[0], *row[2:]) for row in rows]
    return files.Questions(
        path="questions.json",
        contexts=contexts,
        ids=[str(number) for number in range(len(rows))],
        texts=[row[1] for row in rows],
        context_index=np.array([contexts.index(row[0]) for row in rows], np.int32),
        answer_texts=[[] if row[2] is None else [row[2]] for row in rows],
        answer_starts=[[] if row[2] is None else [row[3]] for row in rows],
        is_impossible=[row[2] is None for row in rows],
        is_version_2=True,
        answer_words=np.array(words, np.int32),
    )


def words_of(context, answer, start):
    ends = start + 1, start + len(answer)
    return [len(files.split_words(context[:end])) - 1 for end in ends]


def cut(questions, max_seq_length=16, doc_stride=4, max_query_length=3):
    return context_windows.make_windows(
        questions,
        TOKENIZER,
        max_seq_length=max_seq_length,
        doc_stride=doc_stride,
        max_query_length=max_query_length,
    )


def pieces(text, tokenizer=TOKENIZER):
    return tokenizer.tokenize(text).numpy().tolist()


def excerpts(windows):
    grids = context_windows.token_grids(windows, windows.packed.lengths.max())
    firsts, lengths = windows.packed.first_lengths, windows.excerpt_lengths
    return [
        [grid[window, first : first + length].tolist() for grid in grids]
        for window, (first, length) in enumerate(zip(firsts, lengths, strict=True))
    ]


def golden(name, shared_file):
    tokenizer = wordpiece.BertTokenizer.from_file(
        str(shared_file("data/vocab/bert-base-uncased-vocab.txt"))
    )
    expected = json.loads(
        shared_file(f"golden/squad/features-{name}.json").read_text("utf-8")
    )
    read = {"train": files.read_for_training, "predict": files.read_for_prediction}[
        name
    ]
    path = shared_file("golden/squad/dev-small-v2.json")
    questions = read(str(path), version_2_with_negative=True)
    assert expected["qas_ids"] == questions.ids
    limits = ("max_seq_length", "doc_stride", "max_query_length")
    return (
        context_windows.make_windows(
            questions, tokenizer, **{limit: expected[limit] for limit in limits}
        ),
        questions,
        expected["features"],
        expected["max_seq_length"],
    )


@pytest.mark.parametrize("name", ["train", "predict"])
def test_windows_equal_those_of_the_original(name, shared_file):
    """Golden files hold the results of its convert_examples_to_features."""
    windows, questions, expected, length = golden(name, shared_file)
    assert len(windows) == len(expected) == 82
    word_grid, max_grid = context_windows.token_grids(windows, length)
    segments = np.arange(length) >= windows.packed.first_lengths[:, None]
    is_real = np.arange(length) < windows.packed.lengths[:, None]
    for window, (words, is_max) in enumerate(excerpts(windows)):
        begin, end = windows.packed.splits[window : window + 2]
        first_length = windows.packed.first_lengths[window]
        tokens = windows.packed.tokens[begin:end].tolist()
        numbers = [str(place) for place in range(first_length, len(tokens) - 1)]
        features = {
            "unique_id": windows.unique_ids[window],
            "example_index": windows.question_index[window],
            "doc_span_index": windows.window_index[window],
            "input_ids": tokens + [0] * (length - len(tokens)),
            "input_mask": is_real[window].astype(int).tolist(),
            "segment_ids": (segments & is_real)[window].astype(int).tolist(),
            "token_to_orig_map": dict(zip(numbers, words, strict=True)),
            "token_is_max_context": dict(zip(numbers, is_max, strict=True)),
        }
        if name == "train":
            features["start_position"] = windows.start_positions[window]
            features["end_position"] = windows.end_positions[window]
            question = windows.question_index[window]
            features["is_impossible"] = questions.is_impossible[question]
        assert features == expected[window]
    assert np.sum(word_grid >= 0) == windows.excerpt_lengths.sum()
    assert not max_grid[word_grid < 0].any()
    if name == "predict":
        assert windows.start_positions is windows.end_positions is None


def test_chunks_do_not_change_windows(monkeypatch):
    contexts = ("a b. ab c " * 5, "Fair (1895-1943).", "\u200b", "on Monday")
    rows = [(context, "the fair", context[:1], 0) for context in contexts]
    questions = ask(*rows, *((context, "c", None, 0) for context in contexts))
    whole = cut(questions)
    monkeypatch.setattr(context_windows, "_CHUNK_ROWS", 3)
    chunked = cut(questions)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(chunked, name), getattr(whole, name))
    for name in ("tokens", "splits", "first_lengths", "num_truncated"):
        actual, expected = getattr(chunked.packed, name), getattr(whole.packed, name)
        np.testing.assert_array_equal(actual, expected)


YEARS = "The fair (1895-1943). Monday"


@pytest.mark.parametrize(
    ("context", "answer", "tokens"),
    [
        (YEARS, "1895", ["1895"]),
        (YEARS, "1895-1943", ["1895", "-", "1943"]),
        (YEARS, "fair (1895", ["fair", "(", "1895"]),
        ("a b-c", "c", ["c"]),  # the last place of a word
        ("on Japanese on", "Japan", ["japanese"]),
        ("a-b-a-b. c", "a-b", ["a", "-", "b"]),  # the first place counts
        ("a (zz) b", "zz", ["[UNK]"]),
        ("a \u200b b", "\u200b", []),  # a word without tokens
    ],
)
def test_answer_is_narrowed_to_its_tokens(context, answer, tokens):
    windows = cut(ask((context, "on", answer, context.index(answer))), 32)
    first, last = windows.start_positions[0], windows.end_positions[0]
    assert TOKENIZER.ids_to_tokens(windows.packed.tokens[first : last + 1]) == tokens
    assert first == 3 + (len(pieces(context[: context.index(answer)])))


def test_answer_outside_of_a_window_is_nowhere():
    context = "a b a b fair opens a b a b"
    questions = ask((context, "c", "fair opens", 8), (context, "c", None, 0))
    windows = cut(questions, max_seq_length=9, doc_stride=2)
    # Five of ten tokens each, [CLS] c [SEP] before them; tokens 4 and 5 are the answer.
    assert windows.excerpt_starts.tolist() == [0, 2, 4, 6] * 2
    assert windows.excerpt_lengths.tolist() == [5, 5, 5, 4] * 2
    assert windows.start_positions.tolist() == [0, 5, 3, 0] + [0] * 4
    assert windows.end_positions.tolist() == [0, 6, 4, 0] + [0] * 4
    # Windows are never further apart than they are long, and need no question.
    windows = cut(questions, max_seq_length=9, doc_stride=50)
    assert windows.excerpt_starts.tolist() == [0, 5] * 2
    windows = cut(questions, max_seq_length=9, doc_stride=6, max_query_length=0)
    assert windows.excerpt_starts.tolist() == [0, 6] * 2
    assert windows.window_index.tolist() == [0, 1] * 2


def test_long_window_counts_for_more_than_a_token_of_context():
    windows = cut(ask((" ".join("a" * 340), "fair", "a", 0)), 304, 190)
    assert windows.excerpt_lengths.tolist() == [300, 150]
    # Token 245 has 54 others after it in window 0, and 55 before it in window 1.
    (_, first), (_, second) = excerpts(windows)
    assert np.flatnonzero(first)[-1] == 245 and np.flatnonzero(second)[0] == 56
    # The last token has none after it, and stands right behind a window twice as long.
    windows = cut(ask((" ".join("a" * 301), "fair", "a", 0)), 304, 190)
    assert excerpts(windows)[1][1][-1]


def test_long_question_is_cut_and_counted():
    context = "a b c a b c"
    questions = ask((context, "on a b", "a", 0), (context, "c", "a", 0))
    windows = cut(questions, max_seq_length=9, max_query_length=2)
    assert windows.packed.first_lengths.tolist() == [4, 4, 3, 3]
    assert windows.packed.num_truncated == 1  # a question, of two windows
    assert cut(questions, max_query_length=3).packed.num_truncated == 0


def test_context_without_tokens_has_no_window():
    questions = ask(("\u200b", "a", None, 0), ("fair", "a", None, 0))
    windows = cut(questions)
    assert windows.question_index.tolist() == [1]
    assert windows.unique_ids.tolist() == [1_000_000_000]
    only = cut(ask(("\u200b", "a", None, 0)))
    assert len(only) == 0
    assert only.packed.tokens.tolist() == []
    assert context_windows.token_grids(only, 8)[0].shape == (0, 8)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((16, 0, 3), "--doc_stride=0 is not positive; give"),
        ((16, 4, 13), r"--max_query_length=13 is outside 0..12; .*_length=16"),
        ((16, 4, -1), "--max_query_length=-1 is outside"),
    ],
)
def test_lengths_that_leave_no_room_are_refused(limits, message):
    questions = ask(("fair", "a", "fair", 0))
    with pytest.raises(ValueError, match=message):
        cut(questions, *limits)
    assert len(cut(questions, 16, 4, 12)) == 1


LIMITS = {"max_seq_length": 24, "doc_stride": 8, "max_query_length": 4}
SIGN_VOCAB = [*tiny.SPECIAL, *tiny.FILLERS, *tiny_questions.SIGNS]
SIGN_TOKENIZER = wordpiece.BertTokenizer(SIGN_VOCAB)
SETTINGS = choice.Settings(n_best_size=3)


def load(path, read=files.read_for_prediction, **changes):
    questions = read(str(path), version_2_with_negative=False)
    return context_windows.load(
        "dev", questions, SIGN_TOKENIZER, findings.show, **{**LIMITS, **changes}
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "dev.json"
    return load(tiny_questions.version_1(path, 4))


def right_logits(data, length=24):
    ids = packing.grids(data.packed, length)["input_ids"]
    signs = [SIGN_VOCAB.index(sign) for sign in tiny_questions.SIGNS]
    logits = np.where(np.isin(ids, signs), 9.0, -9.0).astype(np.float32)
    return {"start_logits": logits, "end_logits": logits.copy()}


def test_withheld_answers_count_for_the_best_threshold(tmp_path):
    path = tiny_questions.version_2(tmp_path / "dev.json", 6)
    data = load(path)
    logits = right_logits(data)
    for values in logits.values():
        values[:, 0] = 10.0  # no answer is better than the right one, by little
    settings = choice.Settings(version_2_with_negative=True)
    scored = scores.decide(data, logits, SIGN_TOKENIZER, settings)
    assert set(scored.predictions.predictions.values()) == {""}
    assert set(scored.predictions.best.values()) > set(tiny_questions.SIGNS[1:])
    assert scored.scores["HasAns_f1"] == 0.0 and scored.scores["best_f1"] == 100.0
    assert scored.scores["best_f1_thresh"] == 2.0  # 2 * 10 - 2 * 9


def test_padding_takes_no_place_unless_all_windows_are_padded_alike(data):
    logits = right_logits(data)
    is_padding = np.arange(24) >= data.packed.lengths[:, None]
    assert is_padding.sum(axis=1).min() >= 3  # as many as are kept
    for values in logits.values():
        values[is_padding] = 20.0
    scored = scores.decide(data, logits, SIGN_TOKENIZER, SETTINGS)
    assert scored.scores == {"exact_match": 100.0, "f1": 100.0}
    original = scores.decide(data, logits, SIGN_TOKENIZER, SETTINGS, pad_to=24)
    assert set(original.predictions.predictions.values()) == {"empty"}


def test_score_names_follow_the_version(data, tmp_path):
    assert scores.score_names(data, SETTINGS) == ("f1", "exact_match")
    path = tiny_questions.version_2(tmp_path / "dev.json", 4)
    second = load(path)
    version_2 = choice.Settings(version_2_with_negative=True)
    assert scores.score_names(second, SETTINGS) == ("f1", "exact")
    names = scores.score_names(second, version_2)
    scored = scores.decide(second, right_logits(second), SIGN_TOKENIZER, version_2)
    assert set(names) <= scored.scores.keys()
    assert names[0] == "f1"
    paragraphs = [tiny_questions.question(n, answers=[]) for n in range(2)]
    blind = load(tiny_questions.write(tmp_path / "blind.json", paragraphs))
    assert (
        scores.decide(blind, right_logits(blind), SIGN_TOKENIZER, SETTINGS).scores == {}
    )
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
    questions = [data.questions.ids[i] for i in data.question_index]
    assert len(set(questions)) == 3 and len(questions) == 6
    names = data.names(np.arange(6))
    assert sorted(names) == [
        f"{path}: question q{number} (window {part} of 2)"
        for number in (15, 16, 17)
        for part in (1, 2)
    ]
    mean = data.packed.lengths.mean()
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
