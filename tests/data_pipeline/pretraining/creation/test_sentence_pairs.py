"""Pairs of segments, against a slow account of the same rules in plain Python.

Every token has a number of its own, so that each one found in a pair says which
document and which sentence it comes from.
"""

import bisect
import itertools
import random
import types
import zlib

import numpy as np
import pytest

from data_pipeline.batches import packing
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
    arguments = {"max_tokens": 29, "short_seq_prob": 0.1, "passes": 2, **changes}
    return sentence_pairs.cut_pairs(
        documents, sentence_task=task, seed=seed, **arguments
    )


def rows(pairs):
    """(document, a_start, a_end, b_start, b_end, target, label) of each pair."""
    return list(zip(*(column.tolist() for column in vars(pairs).values()), strict=True))


# --- A plain account of cutting.


def slow_next(sentences, target, rng):
    """[(A, B or None)] of a document: lists of sentences, each a list of tokens."""
    actual, chunk, place = [], [], 0
    while place < len(sentences):
        chunk.append(sentences[place])
        place += 1
        if place < len(sentences) and sum(map(len, chunk)) < target:
            continue
        size_a = 1
        if len(chunk) > 1:
            size_a += int(rng.random() * (len(chunk) - 1))
        if len(chunk) == 1 or rng.random() < 0.5:
            actual.append((chunk[:size_a], None))
            place -= len(chunk) - size_a
        else:
            actual.append((chunk[:size_a], chunk[size_a:]))
        chunk = []
    return [(flat(a), None if b is None else flat(b)) for a, b in actual]


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def slow_cut(lengths, seed, *, max_tokens, short_seq_prob, passes):
    """(document, target, A, B or None) of every pair of the next-sentence task."""
    rng, token = random.Random(seed), itertools.count(1)
    documents = [[[next(token) for _ in range(n)] for n in d] for d in lengths]
    for _ in range(passes):
        for number, sentences in enumerate(documents):
            target = max_tokens
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
            "max_tokens": rng.choice([2, 3, 13, 61]),
            "short_seq_prob": short_seq_prob,
            "passes": rng.randint(1, 3),
        }
        documents = documents_of(lengths)
        tokens = documents.tokens.tolist()
        actual = [
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
        assert actual == list(slow_cut(lengths, str(trial), **settings))


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


# --- The second segment of another document.


def test_random_b_is_whole_sentences_of_another_document():
    rng = random.Random(6)
    opened = 0
    for trial in range(60):
        documents = documents_of(random_lengths(rng, rng.randint(2, 6)))
        before = cut(documents)
        generator = np.random.default_rng(trial)
        after = sentence_pairs.fill(before, documents, generator)
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


# --- What the model reads.


# Checksums of what is drawn, cut and assembled, as jobs have always done it: one that
# goes on has to write the records that it would have written.
RECORDED = {"next": 232462953, "order": 2476652464, "none": 3587539021}


def special(*delimiters):
    return types.SimpleNamespace(start_id=CLS, delimiter_ids=delimiters, end_id=SEP)


BERT, ROBERTA = special(SEP), special(SEP, SEP)


def records_of(task, documents, seed, size=24, special=BERT):
    room = size - packing.num_special(special, task != "none")
    pairs = cut(documents, task, max_tokens=room, short_seq_prob=0.3, seed=seed)
    generator = np.random.default_rng(7)
    pairs = sentence_pairs.fill(pairs, documents, generator)
    pairs = sentence_pairs.truncate(pairs, room, task, generator)
    packed = sentence_pairs.assemble(
        pairs, documents.tokens, special=special, sentence_task=task
    )
    lengths = packed.sequence_lengths.astype(np.int32)
    input_ids = packing.grids(packed, size)["input_ids"]
    return pairs, (input_ids, lengths, packed.first_lengths)


@pytest.mark.parametrize("task", RECORDED)
def test_records_are_those_of_earlier_versions(task):
    lengths = random_lengths(random.Random(4), 40)

    def checksum(seed):
        pairs, arrays = records_of(task, documents_of(lengths), seed)
        arrays = [*vars(pairs).values(), *arrays]
        return zlib.crc32(b"".join(array.tobytes() for array in arrays))

    assert checksum("5") == RECORDED[task] != checksum("6")


@pytest.mark.parametrize("special", [BERT, ROBERTA])
@pytest.mark.parametrize("task", sentence_pairs.SENTENCE_TASKS)
def test_assembled_rows_are_those_of_lists(task, special):
    rng = random.Random(9)
    for trial in range(30):
        size = rng.choice([6, 16, 40])
        documents = documents_of(random_lengths(rng))
        pairs, arrays = records_of(task, documents, str(trial), size, special)
        input_ids, lengths, first_lengths = arrays
        tokens = documents.tokens.tolist()
        assert input_ids.dtype == np.int32 and input_ids.shape == (len(pairs), size)
        for i, (_, a_start, a_end, b_start, b_end, *_) in enumerate(rows(pairs)):
            between = (SEP,) if task == "none" else special.delimiter_ids
            expected = [CLS, *tokens[a_start:a_end], *between]
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
    actual = sentence_pairs.read_documents(lines, tokenizer)
    assert actual.tokens.dtype == np.int32
    tokens = tokenizer.ids_to_tokens(actual.tokens)
    sentences = [
        " ".join(tokens[a:b]) for a, b in itertools.pairwise(actual.sentence_ends)
    ]
    return [sentences[a:b] for a, b in itertools.pairwise(actual.document_ends)]


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
    lengths = [[], *(random_lengths(rng) for _ in range(3)), []]
    parts = [documents_of(part) for part in lengths]
    whole, pairs = sentence_pairs.join_parts([(part, cut(part)) for part in parts])
    expected = documents_of([document for part in lengths for document in part])
    assert np.array_equal(whole.sentence_ends, expected.sentence_ends)
    assert np.array_equal(whole.document_ends, expected.document_ends)
    assert whole.tokens.tolist() == np.concatenate([p.tokens for p in parts]).tolist()
    assert len(pairs) == sum(len(cut(part)) for part in parts)
    ends = set(whole.sentence_ends.tolist())
    assert set(pairs.a_start.tolist()) | set(pairs.b_end.tolist()) <= ends | {-1}
    bounds = whole.sentence_ends[whole.document_ends]
    assert (bounds[pairs.document] <= pairs.a_start).all()
    assert (pairs.a_end <= bounds[pairs.document + 1]).all()


# --- Words that spaces separate.

SEGMENTED_VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *"我使用语言模型来预测下一个词的概率",
    *("bert", "un", "##able", "2", ".", "0", "。", "，"),
]
# 我 | 使用 | BERT | 来 | 预测, and so on.
SEGMENTED = (
    "我 使用 BERT 来 预测 下 一 个 词 的 概率 。\n\n"
    "语言\u3000模型 unable 词 2.0  ，词\r"
)


def test_marked_tokens_are_those_of_the_text_without_spaces():
    tokenizer = wordpiece.BertTokenizer(SEGMENTED_VOCAB)
    size = tokenizer.vocab_size
    lines = SEGMENTED.encode().split(b"\n")
    marked = sentence_pairs.read_documents(lines, tokenizer, True)
    plain = sentence_pairs.read_documents(lines, tokenizer)
    joined = SEGMENTED.replace(" ", "").replace("\u3000", "").encode().split(b"\n")
    unsegmented = sentence_pairs.read_documents(joined, tokenizer)
    for other in (plain, unsegmented):
        assert (marked.tokens % size).tolist() == other.tokens.tolist()
        assert marked.sentence_ends.tolist() == other.sentence_ends.tolist()
        assert marked.document_ends.tolist() == other.document_ends.tolist()
    words, texts = [], tokenizer.ids_to_tokens(plain.tokens)
    for token, text in zip(marked.tokens.tolist(), texts, strict=True):
        words += [""] if token < size else []
        words[-1] += f"{text} "
    assert [word.rstrip() for word in words] == [
        *("我", "使 用", "bert", "来", "预 测", "下", "一", "个", "词", "的", "概 率"),
        *("。", "语 言", "模 型", "un ##able", "词", "2 . 0", "， 词"),
    ]
    empty = sentence_pairs.read_documents([b"", b" "], tokenizer, True)
    assert len(empty.tokens) == len(empty) == 0
