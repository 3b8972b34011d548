"""Tests of data_pipeline/whole_files.py."""

import pytest

from data_pipeline import whole_files
from tests import full_disk, tiny


def test_parts_become_files_in_new_directories(tmp_path):
    files = {f"{tmp_path}/a/b.txt": ["é\n", "2"], f"{tmp_path}/c": iter(["3"])}
    whole_files.write(files)
    assert tiny.listing(tmp_path) == {"a/b.txt": "é\n2".encode(), "c": b"3"}


def test_file_may_be_made_of_the_one_it_replaces(tmp_path):
    path = tmp_path / "a"
    path.write_text("x\n" * 1_000_000)  # more than is read at once

    def lines():
        with open(path) as file:
            for line in file:
                yield line.upper()

    whole_files.write({str(path): lines()})
    assert path.read_text() == "X\n" * 1_000_000


def fails(parts):
    yield from parts
    raise KeyError("as the second file is made")


@pytest.mark.parametrize("is_full", [True, False])
def test_one_that_cannot_be_written_leaves_all_as_they_were(tmp_path, is_full):
    for name in "ab":
        (tmp_path / name).write_text("old")
    a, b = f"{tmp_path}/a", f"{tmp_path}/b"
    if is_full:
        said = rf"^{b}: cannot be written \(.*File too large.*\); make room there"
        with full_disk.full_disk(after=5), pytest.raises(OSError, match=said) as raised:
            whole_files.write({a: ["new"], b: ["longer"]})
        assert "\n" not in str(raised.value)
    else:
        with pytest.raises(KeyError):
            whole_files.write({a: ["new"], b: fails(["new"])})
    assert tiny.listing(tmp_path) == {"a": b"old", "b": b"old"}


def test_place_that_is_no_directory(tmp_path):
    (tmp_path / "a").write_text("a file")
    with pytest.raises(OSError, match="cannot be written"):
        whole_files.write({f"{tmp_path}/a/b": ["text"]})
    assert tiny.listing(tmp_path) == {"a": b"a file"}
