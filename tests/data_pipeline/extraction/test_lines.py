import itertools
import re

import pytest

from data_pipeline.extraction import lines as input_lines
from data_pipeline.text import wordpiece
from tests import tiny

VOCAB = [*tiny.SPECIAL, *"abcdefgh", "|"]


@pytest.fixture(scope="module")
def tokenizer():
    return wordpiece.BertTokenizer(VOCAB)


@pytest.fixture
def make_lines(tokenizer, tmp_path):
    def make(content, max_seq_length=8):
        path = tmp_path / "input.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return input_lines.TextLines(str(path), tokenizer, max_seq_length)

    return make


def tokens_of(packed):
    splits = packed.splits.tolist()
    return [
        " ".join(VOCAB[i] for i in packed.tokens[start:end])
        for start, end in itertools.pairwise(splits)
    ]


def rows_by_line(batches):
    """{line number: (input ids, segment ids) without padding} of all batches."""
    actual = {}
    for batch in batches.as_numpy_iterator():
        for row, number in enumerate(batch["unique_ids"].tolist()):
            if number >= 0:
                assert number not in actual
                length = batch["input_mask"][row].sum()
                assert not batch["input_ids"][row, length:].any()
                actual[number] = tuple(
                    batch[name][row, :length].tolist()
                    for name in ("input_ids", "segment_ids")
                )
    return actual


LINES = "a;a ||| b;a ||| b ||| c;a ||| ||| b;a|||b;||| b;\xa0a  ||| b\x1d;  "


@pytest.mark.parametrize("line", [*LINES.split(";"), "a |||", "a ||| \u200b"])
def test_line_is_split_as_the_original_does(line):
    assert input_lines.split(f"\r{line}\r") == input_lines.split(line)
    both = re.match(r"^(.*) \|\|\| (.*)$", line.strip())
    wanted = both.groups() if both else (line.strip(), "")
    assert input_lines.split(line) == wanted


def test_single_texts_and_pairs_mix(tokenizer):
    pairs = [("a b", ""), ("a", "b c"), ("", ""), ("", "d"), ("e", "\u200b")]
    packed = input_lines.pack(pairs, tokenizer, 8)
    assert tokens_of(packed) == [
        "[CLS] a b [SEP]",
        "[CLS] a [SEP] b c [SEP]",
        "[CLS] [SEP]",
        "[CLS] [SEP] d [SEP]",
        "[CLS] e [SEP]",  # nothing is left of the second text, so it is not there
    ]
    assert packed.first_lengths.tolist() == [4, 3, 2, 2, 3]
    assert packed.num_truncated == 0
    pairs = [("a b c", ""), ("a b c d", ""), ("a b c d", "e f"), ("a", "e")]
    packed = input_lines.pack(pairs, tokenizer, 5)
    assert tokens_of(packed) == [
        "[CLS] a b c [SEP]",
        "[CLS] a b c [SEP]",
        "[CLS] a [SEP] e [SEP]",
        "[CLS] a [SEP] e [SEP]",
    ]
    assert packed.num_truncated == 2


@pytest.mark.parametrize("ending", ["", "\n"])
def test_file_is_measured(make_lines, ending):
    lines = make_lines("a b\n\na ||| b\na b c d e f g h" + ending)
    assert lines.measure() == input_lines.Size(4, 4 + 2 + 5 + 8, 1, (0, 10))


def test_empty_files_are_refused(make_lines):
    with pytest.raises(ValueError, match=r"input\.txt: is empty; give"):
        make_lines("").measure()


TEXT = "a b c d\na\nb ||| c\n\na b c d e f g h\nb\nc d e\n"
EXPECTED = ["a b c d", "a", "b [SEP] c", "", "a b c d e f", "b", "c d e"]


@pytest.mark.parametrize(("max_tokens", "chunk_lines"), [(1, 2), (9, 8192), (1000, 2)])
def test_every_line_comes_once(make_lines, monkeypatch, max_tokens, chunk_lines):
    monkeypatch.setattr(input_lines, "_CHUNK_LINES", chunk_lines)
    lines = make_lines(TEXT)
    actual = rows_by_line(lines.batches(2, max_tokens=max_tokens, pad_to=None))
    assert sorted(actual) == list(range(7))
    for number, text in enumerate(EXPECTED):
        tokens = ["[CLS]", *text.split(), "[SEP]"]
        assert [VOCAB[i] for i in actual[number][0]] == tokens
    assert actual[2][1] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("keeps", [True, False])
def test_lines_that_were_measured_are_not_tokenized_again(
    make_lines, monkeypatch, keeps
):
    monkeypatch.setattr(input_lines, "_CHUNK_LINES", 2)
    monkeypatch.setattr(input_lines, "_KEPT_BYTES", 4 * 32 if keeps else 4 * 31)
    lines = make_lines(TEXT)
    expected = rows_by_line(lines.batches(2, max_tokens=9, pad_to=None))
    size = lines.measure()
    assert (size.num_tokens, len(size.chunks)) == (32, 4 if keeps else 0)
    read = []
    original = input_lines.pack
    monkeypatch.setattr(
        input_lines, "pack", lambda *args: read.append(args) or original(*args)
    )
    batches = lines.batches(2, max_tokens=9, pad_to=None, chunks=size.chunks)
    assert rows_by_line(batches) == expected
    assert len(read) == (0 if keeps else 4)


def waiting(batches):
    """The most tokens that wait for an earlier line, if lines leave in order."""
    pending, next_line, most = {}, 0, 0
    for batch in batches.as_numpy_iterator():
        for row, number in enumerate(batch["unique_ids"].tolist()):
            if number >= 0:
                pending[number] = batch["input_mask"][row].sum()
        most = max(most, sum(pending.values()))
        while next_line in pending:
            pending.pop(next_line)
            next_line += 1
    return most


def test_few_tokens_wait_for_their_turn(make_lines):
    lines = make_lines("a b c d e f\na\n" * 30)
    assert waiting(lines.batches(4, max_tokens=44, pad_to=None)) <= 44
    assert waiting(lines.batches(4, max_tokens=1000, pad_to=None)) > 44


def test_batches_hold_lines_of_similar_length(make_lines):
    lines = make_lines("a b c d e f\na\n" * 3)
    batches = list(lines.batches(4, max_tokens=1000, pad_to=None).as_numpy_iterator())
    assert [batch["input_ids"].shape for batch in batches] == [(4, 3), (4, 8)]
    numbers = [batch["unique_ids"].tolist() for batch in batches]
    # Filling stands before the shortest line, where it costs least.
    assert numbers == [[-1, -1, 1, 3], [5, 0, 2, 4]]
