"""Blocks for left-to-right models: no token is lost, and none is predicted twice.

The text has every word once, so the order of tokens says what followed what.
"""

import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining import metadata
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.vocabularies import byte_ranges
from tests import tiny_corpus

LENGTH = 16
CLS, SEP = (tiny_corpus.VOCAB.index(token) for token in ("[CLS]", "[SEP]"))
END = 50_000  # of documents


def job_of(source, place, count=1, **changes):
    return tiny_corpus.job_of(
        tiny_corpus.LEFT_TO_RIGHT,
        source,
        place,
        count,
        max_seq_length=LENGTH,
        **changes,
    )


class CharTokenizer:
    """Stands for GPT-2's tokenizer; its tokens are characters."""

    cls_id = unk_id = None

    def __init__(self, document_end_id=None):
        self.document_end_id, self.start_id = document_end_id, None

    def tokenize(self, texts):
        rows = [list(map(ord, text)) for text in texts]
        return tf.ragged.constant(rows, ragged_rank=1, dtype=tf.int32)


def make(job, tokenizer):
    """Runs a job; its totals, and the tokens of each block."""
    with tiny_corpus.tokenized_by(tokenizer):
        totals = tiny_corpus.run(job)
    return totals, blocks(job)


def blocks(job):
    arrays = tiny_corpus.parse(tiny_corpus.raw(*job.output_files))
    assert not arrays["segment_ids"].any() and not arrays["next_sentence_labels"].any()
    lengths = arrays["input_mask"].sum(1)
    assert np.array_equal(arrays["input_mask"], np.arange(LENGTH) < lengths[:, None])
    assert not arrays["input_ids"][arrays["input_mask"] == 0].any()
    return [
        row[:length].tolist()
        for row, length in zip(arrays["input_ids"], lengths, strict=True)
    ]


def whole_text(blocks, first):
    """The tokens of a unit: each block begins with the last token of another."""
    by_first = {block[0]: block for block in blocks}
    assert len(by_first) == len(blocks)
    tokens = [first]
    for _ in blocks:
        tokens += by_first[tokens[-1]][1:]
    return tokens


def test_each_word_piece_is_predicted_once_in_shuffled_blocks(source, tmp_path):
    word_pieces = creation_job.load_tokenizer(f"{source}/vocab.txt", True)
    totals, rows = make(job_of(source, tmp_path, count=3), word_pieces)
    predicted = collections.Counter(itertools.chain(*(row[1:-1] for row in rows)))
    texts = [" ".join(sentences) for sentences in tiny_corpus.documents()]
    expected = word_pieces.tokenize(texts)
    wanted = collections.Counter(expected.values.numpy().tolist())
    wanted[SEP] += len(texts)  # the ends of documents
    assert predicted == wanted
    assert {(row[0], row[-1]) for row in rows} == {(CLS, SEP)}
    following = set(itertools.pairwise(itertools.chain(*expected.to_list())))
    for row in rows:  # in the order of the text
        for pair in itertools.pairwise(row[1:-1]):
            assert SEP in pair or pair in following
    units = 4
    assert sum(len(row) < LENGTH for row in rows) <= units < len(rows) / 10
    assert totals["tokens"] == len(expected.values)
    assert totals["instances"] == len(rows)
    rising = sum(a[1] < b[1] for a, b in itertools.pairwise(rows))
    assert 0.3 < rising / len(rows) < 0.7
    _, other = make(job_of(source, tmp_path / "7", random_seed=7), word_pieces)
    assert sorted(other) != sorted(rows)  # other documents follow one another


LETTERS = "".join(map(chr, range(0x21, 0x7F)))


@pytest.mark.parametrize("ends", [[END], []], ids=["ends", "no ends"])
def test_text_of_a_file_is_kept(tmp_path, ends):
    text = f"{LETTERS[:40]}\n \n{LETTERS[40:]}\u00fc\n"
    (tmp_path / "text.txt").write_text(text, "utf-8")
    job = job_of(tmp_path, tmp_path, document_end="file")
    totals, rows = make(job, CharTokenizer(*ends))
    content = [*ends, *map(ord, text), *ends]
    assert whole_text(rows, content[0]) == content
    assert [len(row) for row in rows if len(row) < LENGTH] == [
        (len(content) - 1) % (LENGTH - 1) + 1
    ]
    assert (totals["words"], totals["bytes"]) == (2, len(text) + 1)
    assert (totals["tokens"], totals["documents"]) == (len(text), 1)
    written = metadata.read(job.output_files[0])
    assert written.num_predictions == len(content) - 1
    assert (written.num_words, written.num_text_bytes) == (2, len(text) + 1)


@pytest.mark.parametrize(
    ("text", "expected", "counts"),
    [
        (" ab\ncd \r\n \t\n\nef\n\n\u00e9\n".encode(), "|ab cd|ef|\u00e9|", (3, 4, 9)),
        # Damaged bytes are left out, and documents without a token.
        (b"a\xffb\n\n\xff\n\n \n\nc", "|ab|c|", (2, 2, 3)),
    ],
)
def test_blank_lines_end_documents(tmp_path, monkeypatch, text, expected, counts):
    monkeypatch.setattr(byte_ranges, "MAX_INVALID_SHARE", 1)
    (tmp_path / "text.txt").write_bytes(text)
    totals, (row,) = make(job_of(tmp_path, tmp_path), CharTokenizer(END))
    assert "".join("|" if token == END else chr(token) for token in row) == expected
    assert (totals["documents"], totals["words"], totals["bytes"]) == counts


def test_long_files_are_cut_at_lines_and_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(byte_ranges, "MAX_DOCUMENT_BYTES", 4096)
    lines = [f"{number:03} {'abc' * (number % 9)}\n" for number in range(700)]
    (tmp_path / "text.txt").write_text("".join(lines))
    job = job_of(tmp_path, tmp_path, document_end="file")
    totals, _ = make(job, CharTokenizer(END))
    size = sum(map(len, lines))
    assert (totals["documents"], totals["bytes"]) == (-(-size // 4096), size)
    text = byte_ranges.Corpus.from_files(list(job.input_files), whole_files=True)
    parts = [text.read(i).decode() for i in range(len(text.range_files))]
    assert "".join(parts) == "".join(lines)
    assert all(part.endswith("\n") for part in parts)
    (tmp_path / "text.txt").write_text("\u00fc" * 5000)  # no line ends at all
    parts = [text.read(i).decode() for i in range(3)]
    assert "".join(parts) == "\u00fc" * 5000 and len(parts[0]) == 2048
