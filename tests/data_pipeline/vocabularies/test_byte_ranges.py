"""Ranges: nothing is lost, nothing is twice, and no document is cut."""

import gzip
import io
import itertools
import os
import random

import numpy as np
import pytest

from data_pipeline.tables import text_rows
from data_pipeline.vocabularies import byte_ranges

CONTENTS = {
    "nothing": b"",
    "one newline": b"\n",
    "only blank lines": b"\n" * 97,
    "no blank line": b"".join(b"line %d\n" % i for i in range(40)),
    "no newline": b"x" * 300,
    "no newline in Chinese": "海の上".encode() * 99,
    "no newline in words": b"to be or not to be " * 20,
    "one long line among short ones": b"a\n\n" + b"y" * 500 + b"\n\nb\n\nc\n",
    "no final newline": b"one\n\ntwo\n\nthree and four and five",
    "CRLF": b"one\r\ntwo\r\n\r\nthree\r\n\r\n\r\nfour\r\n" * 9,
    "blank lines of whitespace": b"one\n \t\ntwo\n\f\v \nthree\n   \n" * 9,
    "blank line longer than a block": b"one\n" + b" " * 700 + b"\ntwo\n\nthree\n",
    "begins with blank lines": b"\n\n\none\n\ntwo\n",
    "ends with blank lines": b"one\n\ntwo\n\n\n\n",
    "several bytes a letter": "мама мыла раму\n\n海の上\n\n".encode() * 8,
    "not UTF-8": bytes(range(256)) * 2,
}


def ranges(path):
    text = byte_ranges.Corpus.from_files([str(path)])
    return [text.read(i) for i in range(len(text.range_files))]


def cuts(path):
    """Where ranges begin, without the beginning and the end of the file."""
    ends = list(itertools.accumulate(map(len, ranges(path))))
    return {end for end in ends if 0 < end < path.stat().st_size}


def ends_of_blank_lines(content):
    """Where each blank line ends; the plain reference."""
    actual, place = set(), 0
    for line in content.split(b"\n"):
        place += len(line) + 1
        if not line.strip(b" \t\r\f\v"):
            actual.add(place)
    return actual


def bound(monkeypatch, range_bytes, max_document_bytes):
    monkeypatch.setattr(byte_ranges, "RANGE_BYTES", range_bytes)
    monkeypatch.setattr(byte_ranges, "MAX_DOCUMENT_BYTES", max_document_bytes)


@pytest.mark.parametrize("name", CONTENTS)
def test_ranges_are_a_partition(tmp_path, monkeypatch, name):
    path = tmp_path / "text.txt"
    path.write_bytes(CONTENTS[name])
    for limit, range_bytes in itertools.product((1, 40, 4096), (1, 7, 16, 64, 1000)):
        bound(monkeypatch, range_bytes, limit)
        parts = ranges(path)
        assert b"".join(parts) == CONTENTS[name], range_bytes
        assert len(parts) == -(-len(CONTENTS[name]) // range_bytes)


@pytest.mark.parametrize(
    ("text", "cut_at"), [("海上中国" * 300, ""), ("größe naïveté " * 200, " ")]
)
@pytest.mark.parametrize("whole_files", [False, True])
def test_a_text_without_line_feeds_is_cut_between_characters(
    tmp_path, monkeypatch, text, cut_at, whole_files
):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    bound(monkeypatch, 101, 307)
    files, sizes = [str(path)], [path.stat().st_size]
    boundaries = None if whole_files else byte_ranges.find_boundaries(files, sizes)
    corpus = byte_ranges.Corpus.from_files(
        files, sizes, boundaries, whole_files=whole_files
    )
    count = len(corpus.range_files)
    parts = [corpus.read(i).decode("utf-8") for i in range(count)]
    assert "".join(parts) == text and count >= 10
    assert all(part.startswith(cut_at) for part in parts[1:] if part)
    # A cut every so many bytes is none between characters.
    with pytest.raises(UnicodeDecodeError):
        [text.encode()[at : at + 101].decode() for at in range(0, len(text), 101)]


def random_text(rng):
    """Lines and blank lines of every kind; each line is its own number."""
    blank, end = rng.choice([0.1, 0.3, 0.7]), rng.choice([b"\n", b"\r\n"])
    lines = [
        rng.choice([b"", b"", b"  ", b"\t", b"\f "])
        if rng.random() < blank
        else b"%d " % i + b"word " * rng.randrange(6)
        for i in range(rng.randrange(1, 60))
    ]
    return end.join(lines) + rng.choice([b"", end])


def longest_document(content):
    places = sorted({0, *ends_of_blank_lines(content), len(content)})
    return max(b - a for a, b in itertools.pairwise([*places, places[-1]]))


def test_ranges_begin_after_blank_lines(tmp_path, monkeypatch):
    rng = random.Random(1)
    path = tmp_path / "text.txt"
    many = 0
    for _ in range(60):
        content = random_text(rng)
        path.write_bytes(content)
        bound(monkeypatch, rng.choice([5, 32, 100]), 1 + longest_document(content))
        assert b"".join(ranges(path)) == content
        assert cuts(path) <= ends_of_blank_lines(content)
        many += len(cuts(path))
    assert many > 200  # there was something to cut


def test_boundaries_are_found_in_one_pass_where_reading_finds_them(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(byte_ranges, "_is_blank_near", lambda *_: False)
    rng = random.Random(3)
    path = tmp_path / "text.txt"
    num_places = num_cut = 0
    for content in [*CONTENTS.values(), *(random_text(rng) for _ in range(60))]:
        path.write_bytes(content)
        step, limit = rng.choice([(5, 20), (7, 300), (32, 64), (16, 1 << 12)])
        bound(monkeypatch, step, limit)
        actual = byte_ranges.find_boundaries([str(path)], [len(content)]).get("0", [])
        with open(path, "rb") as file:
            places = range(step, len(content), step)
            assert actual == [
                byte_ranges._boundary(file, p, len(content)) for p in places
            ]
        text = byte_ranges.Corpus.from_files(
            [str(path)], None, {"0": actual} if actual else None
        )
        read = [text.read(i) for i in range(len(text.range_files))]
        assert read == ranges(path)
        num_places += len(actual)
        num_cut += sum(place not in ends_of_blank_lines(content) for place in actual)
    assert num_places > 500 and num_cut > 100


def test_a_file_of_long_documents_is_read_at_most_twice(tmp_path, monkeypatch):
    num_bytes = []

    class Counting(io.FileIO):
        def read(self, n=-1):
            content = super().read(n)
            num_bytes.append(len(content))
            return content

    monkeypatch.setattr(byte_ranges.remote_files, "open_file", Counting)
    line = b"a sentence of the one-billion-word corpus , without a blank line .\n"
    header = b"\n\n" + line
    path = tmp_path / "text.txt"
    path.write_bytes(header + line * (10 * byte_ranges.RANGE_BYTES // len(line)))
    size = path.stat().st_size
    boundaries = byte_ranges.find_boundaries([str(path)], [size])
    text = byte_ranges.Corpus.from_files([str(path)], [size], boundaries)
    assert sum(len(text.read(i)) for i in range(len(text.range_files))) == size
    assert size <= sum(num_bytes) <= 2.2 * size
    num_bytes.clear()
    path.write_bytes((line * 50 + b"\n") * (10 * byte_ranges.RANGE_BYTES // 3450))
    assert byte_ranges.find_boundaries([str(path)], [path.stat().st_size]) == {}
    assert sum(num_bytes) == byte_ranges._FIRST_BLOCK_BYTES


def test_a_part_holds_the_files_of_its_ranges_alone():
    files = [f"a/rather/long/directory/{number:06}.txt" for number in range(10_000)]
    text = byte_ranges.Corpus.from_files(files, [5000] * len(files))
    part = text.part(np.array([7, 9000, 3]))
    assert [part.files[number] for number in part.range_files] == [
        *(files[7], files[9000], files[3])
    ]
    assert part.range_sizes().tolist() == [5000] * 3
    assert len(part.files) == 3


def test_groups_cover_every_range_once_in_order(monkeypatch):
    monkeypatch.setattr(byte_ranges, "RANGE_BYTES", 100)
    rng = np.random.default_rng(2)
    for _ in range(200):
        sizes = rng.integers(0, 1500, size=rng.integers(1, 9)).tolist()
        text = byte_ranges.Corpus.from_files([f"{i}" for i in range(len(sizes))], sizes)
        order = rng.permutation(len(text.range_files))
        max_bytes = int(rng.choice([1, 100, 250, 1000, 10**6]))
        groups = text.groups(order, max_bytes)
        joined = np.concatenate([*groups, np.zeros(0, int)])
        assert joined.tolist() == order.tolist()
        each = [int(text.range_sizes()[group].sum()) for group in groups]
        assert all(0 < size <= max_bytes + 100 for size in each)
        assert len(groups) <= -(-text.num_bytes // max_bytes)
        if max_bytes >= 1000 and groups:
            mean = text.num_bytes / len(groups)
            assert all(abs(size - mean) <= 200 for size in each)
    assert byte_ranges.Corpus.from_files(["0"], [0]).groups(np.zeros(0, int), 10) == []


@pytest.mark.parametrize("content", [b"", b"one\n\ntwo\n", bytes(range(100, 200))])
def test_gzip_files_are_unpacked(tmp_path, monkeypatch, content):
    monkeypatch.setattr(byte_ranges, "_BLOCK_BYTES", 7)
    (tmp_path / "text.txt.gz").write_bytes(gzip.compress(content))
    byte_ranges.unpack(f"{tmp_path}/text.txt.gz", f"{tmp_path}/text.txt")
    assert (tmp_path / "text.txt").read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["text.txt", "text.txt.gz"]
    assert byte_ranges.is_packed("text.txt.gz") and not byte_ranges.is_packed(
        "text.txt"
    )


def _damaged(packed):
    middle = len(packed) // 2
    return packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-4],
        lambda packed: packed + b"garbage",
        lambda packed: b"just text\n" * 50,
        _damaged,
    ],
    ids=["no end", "garbage after", "text", "damaged"],
)
def test_bad_gzip_files_are_refused(tmp_path, damage):
    content = random.Random(3).randbytes(5000)
    (tmp_path / "text.gz").write_bytes(damage(gzip.compress(content)))
    with pytest.raises(ValueError, match=r"text\.gz: not a whole gzip file"):
        byte_ranges.unpack(f"{tmp_path}/text.gz", f"{tmp_path}/text.txt")
    assert os.listdir(tmp_path) == ["text.gz"]


def test_the_mark_of_utf_8_is_no_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\n\ntwo \ufeff\n".encode())
    text = byte_ranges.Corpus.from_files([str(path)])
    assert text.read(0).decode() == "one\n\ntwo \ufeff\n"


def test_text_of_an_old_mac_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"A b.\rC d.\r\rE f.\r")
    with pytest.raises(ValueError, match=r"a.txt:1: carriage returns alone end its li"):
        text_rows.check_beginning(str(path))
    path.write_bytes(b"A b.\rC d.\r\rE f.\n")
    text_rows.check_beginning(str(path))


def test_gzip_is_known_by_its_name_in_any_case(tmp_path):
    path = tmp_path / "a.txt.GZ"
    path.write_bytes(gzip.compress(b"one\n"))
    assert byte_ranges.is_packed(str(path))
    assert [*text_rows.lines(str(path))] == [(1, "one")]
