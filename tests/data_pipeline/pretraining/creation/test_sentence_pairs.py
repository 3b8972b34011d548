"""Pairs of segments, against a slow account of the same rules in plain Python.

Every token has a number of its own, so that each one found in a pair says which
document and which sentence it comes from.
"""

import bisect
import itertools
import random

import numpy as np
import pytest

from data_pipeline.pretraining.creation import sentence_pairs
from data_pipeline.text import wordpiece

CLS, SEP = 10**6, 10**6 + 1


def documents_of(lengths):
    """Documents whose tokens are 1, 2, 3, ...; lengths[d][s] tokens a sentence."""
    flat = [length for document in lengths for length in document]
    return sentence_pairs.Documents(
        np.arange(1, sum(flat) + 1, dtype=np.int32),
        np.cumsum([0, *flat]),
        np.cumsum([0, *map(len, lengths)]),
    )


def random_lengths(rng, count=None):
    """Documents of few and many, short and long sentences."""
    longest = rng.choice([1, 3, 12, 60])
    return [
        [rng.randint(1, longest) for _ in range(rng.choice([1, 2, 5, 30]))]
        for _ in range(count or rng.randint(1, 6))
    ]


def cut(documents, task="next", seed="7", **changes):
    arguments = {"max_seq_length": 32, "short_seq_prob": 0.1, "passes": 2, **changes}
    return sentence_pairs.cut_pairs(
        documents, sentence_task=task, seed=seed, **arguments
    )


def rows(pairs):
    """(document, a_start, a_end, b_start, b_end, target, label) of each pair."""
    return list(zip(*(column.tolist() for column in vars(pairs).values()), strict=True))


# --- A plain account of cutting.


def slow_next(sentences, target, rng):
    """[(A, B or None)] of a document: lists of sentences, each a list of tokens."""
    found, chunk, place = [], [], 0
    while place < len(sentences):
        chunk.append(sentences[place])
        place += 1
        if place < len(sentences) and sum(map(len, chunk)) < target:
            continue
        size_a = 1
        if len(chunk) > 1:
            size_a += int(rng.random() * (len(chunk) - 1))
        if len(chunk) == 1 or rng.random() < 0.5:
            found.append((chunk[:size_a], None))
            place -= len(chunk) - size_a
        else:
            found.append((chunk[:size_a], chunk[size_a:]))
        chunk = []
    return [(flat(a), None if b is None else flat(b)) for a, b in found]


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def slow_cut(lengths, seed, *, max_seq_length, short_seq_prob, passes):
    """(document, target, A, B or None) of every pair of the next-sentence task."""
    rng, token = random.Random(seed), itertools.count(1)
    documents = [[[next(token) for _ in range(n)] for n in d] for d in lengths]
    for _ in range(passes):
        for number, sentences in enumerate(documents):
            target = max_seq_length - 3
            if rng.random() < short_seq_prob:
                target = rng.randint(2, target)
            for a, b in slow_next(sentences, target, rng):
                yield number, target, a, b


@pytest.mark.parametrize("short_seq_prob", [0.0, 0.5])
def test_pairs_are_those_of_the_plain_account(short_seq_prob):
    rng = random.Random(1)
    for trial in range(150):
        lengths = random_lengths(rng)
        settings = {
            "max_seq_length": rng.choice([5, 6, 16, 64]),
            "short_seq_prob": short_seq_prob,
            "passes": rng.randint(1, 3),
        }
        documents = documents_of(lengths)
        tokens = documents.tokens.tolist()
        found = [
            (
                document,
                target,
                tokens[a_start:a_end],
                None if b_start < 0 else tokens[b_start:b_end],
            )
            for document, a_start, a_end, b_start, b_end, target, _ in rows(
                cut(documents, seed=str(trial), **settings)
            )
        ]
        assert found == list(slow_cut(lengths, str(trial), **settings))


def test_no_token_is_lost_and_none_is_used_twice_in_a_pass():
    rng = random.Random(3)
    for task in ("next", "none", "order"):
        for trial in range(40):
            lengths = random_lengths(rng)
            documents = documents_of(lengths)
            pairs = cut(documents, task, seed=str(trial), passes=1)
            used = np.zeros(len(documents.tokens), int)
            for _, a_start, a_end, b_start, b_end, *_ in rows(pairs):
                used[a_start:a_end] += 1
                used[max(b_start, 0) : max(b_end, 0)] += 1
            if task != "order":  # which needs two tokens
                assert (used == 1).all()
            else:
                sizes = np.repeat(np.concatenate(lengths), np.concatenate(lengths))
                assert (used <= 1).all() and (used[sizes > 1] == 1).all()


def test_short_targets_have_their_share_and_are_uniform():
    documents = documents_of([[40]] * 5000)
    share, longest = 0.3, 29
    target = cut(documents, short_seq_prob=share, passes=4).target
    assert target.min() == 2 and target.max() == longest
    expected = np.full(longest + 1, share / (longest - 1))
    expected[:2] = 0
    expected[longest] += 1 - share
    found = np.bincount(target, minlength=longest + 1) / len(target)
    error = np.sqrt(expected * (1 - expected) / len(target))
    assert (np.abs(found - expected) <= 4 * error).all()
    assert set(cut(documents, short_seq_prob=0.0).target.tolist()) == {longest}
    # One target for all pairs of a document in a pass.
    pairs = cut(documents_of([[4] * 60]), short_seq_prob=1.0, passes=30)
    runs = [target for target, _ in itertools.groupby(pairs.target.tolist())]
    assert len(runs) <= 30 < len(pairs)


# --- The order of two segments.


def test_order_swaps_half_of_the_pairs():
    documents = documents_of([[5] * 400] * 20)
    pairs = cut(documents, "order", max_seq_length=64, short_seq_prob=0.0, passes=4)
    assert abs(pairs.label.mean() - 0.5) < 3 * 0.5 / len(pairs) ** 0.5
    for _, a_start, a_end, b_start, b_end, _, label in rows(pairs):
        first, second = (a_start, a_end), (b_start, b_end)
        if label:
            first, second = second, first
        assert first[0] < first[1] == second[0] < second[1]


def test_order_splits_a_lone_sentence_between_its_tokens():
    pairs = cut(documents_of([[4]] * 400), "order", passes=1)
    found = {(row[1] % 4, row[2] % 4 or 4, row[3] % 4, row[6]) for row in rows(pairs)}
    assert found == {
        *((0, k, k, 0) for k in (1, 2, 3)),
        *((k, 4, 0, 1) for k in (1, 2, 3)),
    }
    assert len(cut(documents_of([[1]] * 9), "order")) == 0  # has no two segments


# --- No second task.


def test_none_takes_whole_sentences_that_fit():
    documents = documents_of([[4, 4, 4, 25, 4, 2], [3], [5, 4]])
    settings = {"max_seq_length": 12, "short_seq_prob": 0.0, "passes": 1}
    found = [row[:5] for row in rows(cut(documents, "none", **settings))]
    assert found == [
        (0, 0, 8, 8, 8),
        (0, 8, 12, 12, 12),
        (0, 12, 22, 22, 22),
        (0, 22, 32, 32, 32),
        (0, 32, 41, 41, 41),
        (0, 41, 43, 43, 43),
        (1, 43, 46, 46, 46),
        (2, 46, 55, 55, 55),
    ]


# --- The second segment of another document.


def filled(documents, seed=0, **changes):
    pairs = cut(documents, **changes)
    rng = np.random.default_rng(seed)
    return pairs, sentence_pairs.fill(pairs, documents, rng)


def test_random_b_is_whole_sentences_of_another_document():
    rng = random.Random(6)
    opened = 0
    for trial in range(60):
        documents = documents_of(random_lengths(rng, rng.randint(2, 6)))
        before, after = filled(documents, trial)
        ends = documents.sentence_ends.tolist()
        bounds = documents.sentence_ends[documents.document_ends].tolist()
        for old, new in zip(rows(before), rows(after), strict=True):
            if old[3] >= 0:
                assert old == new
                continue
            opened += 1
            document, a_start, a_end, b_start, b_end, target, label = new
            assert (*old[:3], *old[5:]) == (document, a_start, a_end, target, label)
            other = bisect.bisect_right(bounds, b_start) - 1
            assert other != document
            wanted = target - (a_end - a_start)
            stop = ends.index(b_start) + 1
            while ends[stop] - b_start < wanted and ends[stop] < bounds[other + 1]:
                stop += 1
            assert b_end == ends[stop]
    assert opened > 300


def test_random_b_begins_anywhere_with_equal_probability():
    lengths = [[40], *([2] * n for n in (1, 3, 6))]
    documents = documents_of(lengths)
    pairs = cut(documents_of([[40]]), passes=6000)  # all of document 0
    after = sentence_pairs.fill(pairs, documents, np.random.default_rng(1))
    sentence = (after.b_start - 40) // 2  # 0; 1 to 3; 4 to 9
    expected = np.array([1] + [1 / 3] * 3 + [1 / 6] * 6) / 3
    found = np.bincount(sentence, minlength=10) / len(sentence)
    error = np.sqrt(expected * (1 - expected) / len(sentence))
    assert (np.abs(found - expected) < 4 * error).all()


# --- Truncation.


def pairs_of(lengths_a, lengths_b):
    """Pairs whose A and B begin at 1000 and 5000."""
    a, b = np.array(lengths_a, np.int64), np.array(lengths_b, np.int64)
    zero = np.zeros(len(a), np.int32)
    return sentence_pairs.Pairs(
        zero, 1000 + 0 * a, 1000 + a, 5000 + 0 * b, 5000 + b, zero, zero
    )


def slow_lengths(a, b, limit):
    while a + b > limit:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    return a, b


def test_truncated_lengths_are_those_of_popping_tokens():
    max_seq_length = 12
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(1, 41), np.arange(1, 41)))
    rng = np.random.default_rng(0)
    after = sentence_pairs.truncate(pairs_of(a, b), max_seq_length, "next", rng)
    found = zip(after.a_end - after.a_start, after.b_end - after.b_start, strict=True)
    limit = max_seq_length - 3
    expected = [slow_lengths(*pair, limit) for pair in zip(a, b, strict=True)]
    assert list(found) == expected
    # A piece of what was there, and all of it where it fits.
    assert (after.a_start >= 1000).all() and (after.a_end <= 1000 + a).all()
    assert (after.b_start >= 5000).all() and (after.b_end <= 5000 + b).all()
    fits = a + b <= limit
    assert (after.a_start[fits] == 1000).all() and (after.b_start[fits] == 5000).all()


def test_half_of_the_tokens_go_at_the_front():
    count, over = 2000, 30
    before = pairs_of([10 + over] * count, [10 + over] * count)
    after = sentence_pairs.truncate(before, 23, "order", np.random.default_rng(1))
    for front in (after.a_start - 1000, after.b_start - 5000):
        assert abs(front.mean() - over / 2) < 3 * (over / 4 / count) ** 0.5
        assert abs(front.var() - over / 4) < 0.1 * over / 4
    # A and B are cut independently of each other.
    correlation = np.corrcoef(after.a_start, after.b_start)[0, 1]
    assert abs(correlation) < 3 / count**0.5


# --- What the model reads.


@pytest.mark.parametrize("task", sentence_pairs.SENTENCE_TASKS)
def test_assembled_rows_are_those_of_lists(task):
    rng = random.Random(9)
    for trial in range(30):
        size = rng.choice([5, 16, 40])
        documents = documents_of(random_lengths(rng))
        pairs = cut(documents, task, max_seq_length=size, seed=str(trial))
        generator = np.random.default_rng(trial)
        pairs = sentence_pairs.fill(pairs, documents, generator)
        pairs = sentence_pairs.truncate(pairs, size, task, generator)
        input_ids, lengths, first_lengths = sentence_pairs.assemble(
            pairs,
            documents.tokens,
            cls_id=CLS,
            sep_id=SEP,
            max_seq_length=size,
            sentence_task=task,
        )
        tokens = documents.tokens.tolist()
        assert input_ids.dtype == np.int32 and input_ids.shape == (len(pairs), size)
        for i, (_, a_start, a_end, b_start, b_end, *_) in enumerate(rows(pairs)):
            expected = [CLS, *tokens[a_start:a_end], SEP]
            assert first_lengths[i] == len(expected)
            if task != "none":
                assert 0 <= b_start < b_end
                expected += [*tokens[b_start:b_end], SEP]
            assert lengths[i] == len(expected) <= size
            expected += [0] * (size - len(expected))
            assert input_ids[i].tolist() == expected


# --- Documents.


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece.BertTokenizer(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "c", "海"]
    )


def read(lines, tokenizer):
    """Documents as lists of sentences, each the text of its tokens."""
    found = sentence_pairs.read_documents(lines, tokenizer)
    assert found.tokens.dtype == np.int32
    tokens = tokenizer.ids_to_tokens(found.tokens)
    sentences = [
        " ".join(tokens[a:b]) for a, b in itertools.pairwise(found.sentence_ends)
    ]
    return [sentences[a:b] for a, b in itertools.pairwise(found.document_ends)]


def plain_rule(lines):
    """The same in plain Python, for lines of single letters."""
    documents = [[]]
    for line in (line.decode("utf-8", "ignore") for line in lines):
        if not line.strip():
            documents.append([])
        kept = "".join(c for c in line if c in "abc海 \t\r\u00a0\u3000\u2028")
        if kept.split():
            documents[-1].append(" ".join(kept.split()))
    return [document for document in documents if document]


BLANKS = [b"", b" ", b"\t\r", "\u00a0".encode(), "\u3000\u2028".encode(), b"\xff\xfe"]
SILENT = [b"\x00", b"\x07 \x07", *(c.encode() for c in "\u200b\ufeff\u0301")]


def test_random_lines_are_those_of_the_plain_rule(tokenizer):
    rng = random.Random(10)
    sentences = [b"a b", b"c", "a 海 b".encode(), b" c\r", b"b\xff a"]
    for _ in range(40):
        kinds = [BLANKS, SILENT, sentences, sentences]
        lines = [rng.choice(rng.choice(kinds)) for _ in range(rng.randrange(30))]
        assert read(lines, tokenizer) == plain_rule(lines)


def test_parts_are_joined():
    rng = random.Random(11)
    lengths = [random_lengths(rng) for _ in range(3)] + [[]]
    parts = [documents_of(part) for part in lengths]
    whole = sentence_pairs.join_documents([documents_of([]), *parts])
    expected = documents_of([document for part in lengths for document in part])
    assert np.array_equal(whole.sentence_ends, expected.sentence_ends)
    assert np.array_equal(whole.document_ends, expected.document_ends)
    assert whole.tokens.tolist() == np.concatenate([p.tokens for p in parts]).tolist()
    moved, tokens, documents = [], 0, 0
    for part in parts:
        moved.append(cut(part).move(tokens, documents))
        tokens, documents = tokens + len(part.tokens), documents + len(part)
    pairs = sentence_pairs.join_pairs(moved)
    ends = set(whole.sentence_ends.tolist())
    bounds = whole.sentence_ends[whole.document_ends]
    assert len(pairs) == sum(len(cut(part)) for part in parts)
    assert set(pairs.a_start.tolist()) | set(pairs.b_end.tolist()) <= ends | {-1}
    assert (bounds[pairs.document] <= pairs.a_start).all()
    assert (pairs.a_end <= bounds[pairs.document + 1]).all()
    taken = pairs.take(np.array([3, 0]))
    assert rows(taken) == [rows(pairs)[3], rows(pairs)[0]]
