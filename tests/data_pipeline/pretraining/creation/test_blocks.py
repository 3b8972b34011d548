"""Blocks for left-to-right models: no token is lost, and none is predicted twice.

The text has every word once, so the order of tokens says what followed what.
"""

import collections
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining import metadata
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.pretraining.creation import runners, tasks
from data_pipeline.vocabularies import byte_ranges, processes
from tests import tiny_corpus

LENGTH = 16
SETTINGS = metadata.Metadata(
    objective="left_to_right",
    max_seq_length=LENGTH,
    max_predictions_per_seq=0,
    masking="none",
    masked_lm_prob=0.0,
    sentence_task="none",
    do_lower_case=True,
    vocab_size=len(tiny_corpus.VOCAB),
    vocab_digest=metadata.vocab_digest(tiny_corpus.VOCAB),
    dupe_factor=1,
    short_seq_prob=0.0,
    random_seed=12345,
)
CLS, SEP = (tiny_corpus.VOCAB.index(token) for token in ("[CLS]", "[SEP]"))
END = 50_000  # of documents
job_of = functools.partial(tiny_corpus.job_of, SETTINGS)


class CharTokenizer:
    """A stand-in for GPT-2's tokenizer, whose tokens are characters."""

    def __init__(self, document_end_id=None):
        self.document_end_id, self.start_id = document_end_id, None

    def tokenize(self, texts):
        rows = [list(map(ord, text)) for text in texts]
        return tf.ragged.constant(rows, ragged_rank=1, dtype=tf.int32)


@pytest.fixture(autouse=True, scope="module")
def small_units():
    with tiny_corpus.sizes(tiny_corpus.SIZES):
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return tiny_corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def word_pieces(source):
    return creation_job.load_tokenizer(f"{source}/vocab.txt", True)


def made(job, tokenizer):
    """What a job makes: its totals, and the tokens of each block."""
    with tiny_corpus.tokenized_by(tokenizer):
        totals = runners.run_local(
            job, processes.InThisProcess(), 1, lambda *_, **__: None
        )
    return totals, blocks(job)


def blocks(job):
    records = tiny_corpus.raw(*job.output_files)
    found = tiny_corpus.parse(records)
    assert not found["segment_ids"].any() and not found["next_sentence_labels"].any()
    lengths = found["input_mask"].sum(1)
    assert np.array_equal(found["input_mask"], np.arange(LENGTH) < lengths[:, None])
    assert not found["input_ids"][found["input_mask"] == 0].any()
    return [
        row[:length].tolist()
        for row, length in zip(found["input_ids"], lengths, strict=True)
    ]


def whole_text(blocks, first):
    """The tokens of a unit: each block begins with the last token of another."""
    by_first = {block[0]: block for block in blocks}
    assert len(by_first) == len(blocks)
    found = [first]
    for _ in blocks:
        found += by_first[found[-1]][1:]
    return found


def corpus_texts():
    return [" ".join(sentences) for sentences in tiny_corpus.documents()]


def test_each_word_piece_is_predicted_once(source, tmp_path, word_pieces):
    job = job_of(source, tmp_path, count=3)
    totals, found = made(job, word_pieces)
    predicted = collections.Counter(itertools.chain(*(row[1:-1] for row in found)))
    expected = word_pieces.tokenize(corpus_texts())
    wanted = collections.Counter(expected.values.numpy().tolist())
    wanted[SEP] += len(corpus_texts())  # the ends of documents
    assert predicted == wanted
    assert {(row[0], row[-1]) for row in found} == {(CLS, SEP)}
    following = set(itertools.pairwise(itertools.chain(*expected.to_list())))
    for row in found:  # in the order of the text
        for pair in itertools.pairwise(row[1:-1]):
            assert SEP in pair or pair in following
    units = 4
    assert sum(len(row) < LENGTH for row in found) <= units < len(found) / 10
    assert totals["tokens"] == len(expected.values)
    assert totals["instances"] == len(found)


def test_blocks_are_shuffled(source, tmp_path, word_pieces):
    _, found = made(job_of(source, tmp_path), word_pieces)
    firsts = [row[1] for row in found]
    rising = sum(a < b for a, b in itertools.pairwise(firsts))
    assert 0.3 < rising / len(firsts) < 0.7
    _, again = made(job_of(source, tmp_path, random_seed=7), word_pieces)
    assert again != found
    assert sorted(again) != sorted(found)  # other documents follow one another


LETTERS = "".join(map(chr, range(0x21, 0x7F)))


@pytest.mark.parametrize("ends", [[END], []], ids=["ends", "no ends"])
def test_text_of_a_file_is_kept(tmp_path, ends):
    text = f"{LETTERS[:40]}\n \n{LETTERS[40:]}\u00fc\n"
    (tmp_path / "text.txt").write_text(text, "utf-8")
    job = job_of(tmp_path, tmp_path, document_end="file")
    totals, found = made(job, CharTokenizer(*ends))
    content = [*ends, *map(ord, text), *ends]
    assert whole_text(found, content[0]) == content
    assert [len(row) for row in found if len(row) < LENGTH] == [
        (len(content) - 1) % (LENGTH - 1) + 1
    ]
    assert (totals["words"], totals["bytes"]) == (2, len(text) + 1)
    assert (totals["tokens"], totals["documents"]) == (len(text), 1)
    said = metadata.read(job.output_files[0])
    assert said.num_predictions == len(content) - 1
    assert (said.num_words, said.num_text_bytes) == (2, len(text) + 1)


def test_lines_become_sentences_where_blank_lines_end_documents(tmp_path):
    (tmp_path / "text.txt").write_text(" ab\ncd \r\n \t\n\nef\n\n\u00e9\n", "utf-8")
    totals, found = made(job_of(tmp_path, tmp_path), CharTokenizer(END))
    (read,) = found
    parts = "".join("|" if token == END else chr(token) for token in read)
    assert parts == "|ab cd|ef|\u00e9|"
    assert (totals["documents"], totals["words"], totals["bytes"]) == (3, 4, 9)


def test_documents_without_a_token_and_damaged_bytes_are_left_out(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"a\xffb\n\n\xff\n\n \n\nc")
    totals, found = made(job_of(tmp_path, tmp_path), CharTokenizer(END))
    assert found == [[END, ord("a"), ord("b"), END, ord("c"), END]]
    assert totals["documents"] == 2
    job = job_of(tmp_path, tmp_path / "none")
    (tmp_path / "text.txt").write_bytes(b"\n\n")
    with pytest.raises(ValueError, match="hold no document with a token"):
        made(job, CharTokenizer(END))


def test_long_files_are_cut_at_lines_and_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(byte_ranges, "MAX_DOCUMENT_BYTES", 4096)
    lines = [f"{number:03} {'abc' * (number % 9)}\n" for number in range(700)]
    (tmp_path / "text.txt").write_text("".join(lines))
    job = job_of(tmp_path, tmp_path, document_end="file")
    totals, _ = made(job, CharTokenizer(END))
    size = sum(map(len, lines))
    assert (totals["documents"], totals["bytes"]) == (-(-size // 4096), size)
    text = byte_ranges.Corpus.from_files(list(job.input_files), whole_files=True)
    parts = [text.read(i).decode() for i in range(len(text.range_files))]
    assert "".join(parts) == "".join(lines)
    assert all(part.endswith("\n") for part in parts)
    (tmp_path / "text.txt").write_text("\u00fc" * 5000)  # no line ends at all
    parts = [text.read(i).decode() for i in range(3)]
    assert "".join(parts) == "\u00fc" * 5000 and len(parts[0]) == 2048


@pytest.mark.parametrize("count", [1, 9])
def test_units_in_any_order_and_continued_give_the_same_files(
    source, tmp_path, word_pieces, count
):
    expected = job_of(source, tmp_path / "a", count)
    totals, _ = made(expected, word_pieces)
    job = job_of(source, tmp_path / "b", count)
    with tiny_corpus.tokenized_by(word_pieces):
        creation_job.begin(job)
        units = len(creation_job.write_plan(job).units)
        assert units >= 3
        for unit in reversed(range(units)):
            tasks.write_unit(job, unit)
        assert tasks.totals(job) == totals
        runners.run_local(job, processes.InThisProcess(), 1, lambda *_, **__: None)
    for one, other in zip(expected.output_files, job.output_files, strict=True):
        for suffix in ("", metadata.SUFFIX):
            with open(one + suffix, "rb") as first, open(other + suffix, "rb") as then:
                assert first.read() == then.read()
