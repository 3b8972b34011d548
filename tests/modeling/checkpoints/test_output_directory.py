"""Tests of modeling/checkpoints/output_directory.py."""

import pytest

from modeling.checkpoints import output_directory

OWN = ("a.txt", "w.*")


def check(path, overwrite=False, inputs=()):
    output_directory.check(path, own_files=OWN, overwrite=overwrite, inputs=inputs)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("exists", [False, True])
def test_new_or_empty_directory_is_written(tmp_path, exists):
    target = tmp_path / "out"
    if exists:
        target.mkdir()
    check(target)
    with output_directory.complete(f"{target}/") as folder:
        (tmp_path / folder / "a.txt").write_text("1")
        assert not exists or names(target) == []
    assert (target / "a.txt").read_text() == "1"
    assert names(tmp_path) == ["out"]


def test_only_own_files_are_replaced(tmp_path):
    (tmp_path / "w.index").touch()
    with pytest.raises(
        ValueError, match=r"not empty \(it holds w.index\).*--overwrite"
    ):
        check(tmp_path)
    check(tmp_path, overwrite=True)
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ValueError, match=r"holds thesis\.txt, which no conversion"):
        check(tmp_path, overwrite=True)


def test_input_is_not_replaced(tmp_path):
    (tmp_path / "w.index").touch()
    with pytest.raises(ValueError, match="which is to be converted"):
        check(tmp_path, overwrite=True, inputs=[tmp_path / "w"])
    check(tmp_path, overwrite=True, inputs=[f"{tmp_path}-other/w"])


def test_file_is_no_directory(tmp_path):
    (tmp_path / "a.txt").touch()
    with pytest.raises(ValueError, match="is a file; name a directory"):
        check(tmp_path / "a.txt", overwrite=True)
    with pytest.raises(ValueError, match=r"a\.txt is a file; name a place below a dir"):
        check(tmp_path / "a.txt" / "b" / "c")
    with pytest.raises(ValueError, match="--output_dir is empty; name a directory"):
        check("")
    with pytest.raises(ValueError, match="gs://bucket/a is not local; name a local"):
        check("gs://bucket/a")


@pytest.mark.parametrize("name", ["makedirs", "rename"])
def test_what_cannot_be_written_is_named(tmp_path, monkeypatch, name):
    target = tmp_path / "out"
    target.mkdir()
    (target / "w.index").touch()

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(output_directory.os, name, refuse)
    with (
        pytest.raises(OSError, match=r"--output_dir=.*out: .*denied: .*another place"),
        output_directory.complete(target) as folder,
    ):
        (tmp_path / folder / "a.txt").touch()
    assert names(tmp_path) == ["out"] and names(target) == ["w.index"]


def test_failure_between_the_renames_brings_the_old_one_back(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.mkdir()
    (target / "w.index").touch()
    rename = output_directory.os.rename

    def busy(old, new):
        if str(old).endswith(".incomplete"):
            raise OSError(16, "Device or resource busy", old)
        rename(old, new)

    monkeypatch.setattr(output_directory.os, "rename", busy)
    with (
        pytest.raises(OSError, match="resource busy"),
        output_directory.complete(target) as folder,
    ):
        (tmp_path / folder / "a.txt").touch()
    assert names(tmp_path) == ["out"] and names(target) == ["w.index"]


def test_what_was_there_is_replaced_as_a_whole(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    (target / "w.index").touch()
    with output_directory.complete(target) as folder:
        (tmp_path / folder / "a.txt").touch()
        assert names(target) == ["w.index"]
    assert names(target) == ["a.txt"]
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failure_leaves_what_was_there(tmp_path, error):
    target = tmp_path / "out"
    target.mkdir()
    (target / "w.index").touch()
    with pytest.raises(error), output_directory.complete(target) as folder:
        (tmp_path / folder / "a.txt").touch()
        raise error
    assert names(target) == ["w.index"]
    assert names(tmp_path) == ["out"]


def test_killed_process_is_cleaned_up_after(tmp_path):
    """Between its two renames the old directory has another name, not none."""
    (tmp_path / "out.incomplete").mkdir()
    (tmp_path / "out.incomplete" / "half").touch()
    (tmp_path / "out.replaced").mkdir()
    (tmp_path / "out.replaced" / "w.index").touch()
    with (
        pytest.raises(ValueError),
        output_directory.complete(tmp_path / "out") as folder,
    ):
        assert names(tmp_path / folder) == []
        raise ValueError
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["w.index"]
