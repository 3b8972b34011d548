"""Counts of words against counting in plain Python, with little memory, from gzip."""

import collections
import gzip

import pytest
import tensorflow as tf

from data_pipeline import engines
from data_pipeline.vocabularies import byte_ranges, word_counts
from tests.data_pipeline import original_words

LINES = [
    *("The cat sat. The CAT sat!", "", "Éa ea ÉA", "中文 中国。", "x" * 300),
    *("the dog\u200b sat", "\xa0", "naïve naive"),
]


def expected(lines, lower=True):
    words = collections.Counter(
        word
        for line in lines
        for word in original_words.reference_words(line, lower)
        if len(word) <= 200
    )
    characters = collections.Counter()
    for word, count in words.items():
        characters.update({char: word.count(char) * count for char in word})
    return words, characters


def write(path, lines, end="\n"):
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return str(path)


def count(files, lower=True, report=lambda *_, **__: None):
    with engines.start_workers(1) as executor:
        text = byte_ranges.Corpus.from_files(files)
        return word_counts.count(
            text, executor, 1, split=word_counts.Words(lower), report=report
        )


@pytest.mark.parametrize("lower", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_words_and_characters_are_counted(tmp_path, lower):
    counts = count([write(tmp_path / "a", LINES), write(tmp_path / "b", LINES)], lower)
    words, characters = expected(LINES * 2, lower)
    assert counts.words == words
    assert counts.characters == characters
    assert counts.num_words == sum(words.values())
    assert counts.dropped_below == 0
    assert counts.words["the" if lower else "The"] == (6 if lower else 4)


def test_cutting_into_ranges_changes_nothing(tmp_path, monkeypatch):
    files = [write(tmp_path / "a", LINES * 50), write(tmp_path / "b", [])]
    whole = count(files)
    monkeypatch.setattr(byte_ranges, "RANGE_BYTES", 100)
    monkeypatch.setattr(word_counts, "GROUP_BYTES", 1000)
    reports = []
    cut = count(files, report=lambda *args, **kwargs: reports.append((args, kwargs)))
    assert cut == whole
    assert list(cut.words) == list(whole.words)
    ranges = len(byte_ranges.Corpus.from_files(files).range_files)
    assert len(reports) > 3
    assert reports[0] == ((0, ranges), {"MB": 0, "words": 0})
    assert reports[-1] == ((ranges, ranges), {"MB": 0, "words": cut.num_words})


def test_rare_words_are_dropped_where_memory_is_short(tmp_path, monkeypatch):
    monkeypatch.setattr(byte_ranges, "RANGE_BYTES", 100)
    monkeypatch.setattr(word_counts, "GROUP_BYTES", 100)
    lines = [f"often often again again w{i}q" for i in range(40)]
    lines = [line for text in lines for line in (text, "")]
    path = write(tmp_path / "a", lines)
    full = count([path])
    monkeypatch.setattr(word_counts, "MAX_WORDS", 10)
    short = count([path])
    assert short.dropped_below == 2
    assert len(short.words) < 20 < len(full.words) == 42
    assert short.words["often"] == short.words["again"] == 80
    assert short.characters == full.characters
    assert short.num_words == full.num_words == 200


def test_files_elsewhere_and_packed_ones_are_counted():
    tf.io.gfile.makedirs("ram://words")
    for name, data in (("a.txt", b"a b\n"), ("b.txt.gz", gzip.compress(b"b c\n"))):
        with tf.io.gfile.GFile(f"ram://words/{name}", "wb") as file:
            file.write(data)
    counts = word_counts.count_files(
        byte_ranges.find_files("ram://words/*"),
        engines.InThisProcess(),
        1,
        split=word_counts.Words(True),
        report=lambda *_, **__: None,
    )
    assert counts.words == {"a": 1, "b": 2, "c": 1}


@pytest.mark.parametrize("content", ["", "\n \n", "\u200b\x00", "x" * 201])
def test_text_without_words_is_refused(tmp_path, content):
    with pytest.raises(ValueError, match=r"no word in 1 files; give"):
        count([write(tmp_path / "a", [content], end="")])
