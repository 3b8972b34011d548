"""output_directory.py: a directory is whole, or as it was before."""

import pytest

from modeling.checkpoints import output_directory

OWN = ("a.txt", "w.*")


def check(path, overwrite=True, inputs=()):
    output_directory.check(path, own_files=OWN, overwrite=overwrite, inputs=inputs)


def complete(path):
    return output_directory.complete(path, own_files=OWN, overwrite=True)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "w.index").touch()
    return tmp_path / "out"


@pytest.mark.parametrize("exists", [False, True])
def test_new_or_empty_directory_is_written(tmp_path, exists):
    target = tmp_path / "out"
    if exists:
        target.mkdir()
    check(target, overwrite=False)
    with complete(f"{target}/") as folder:
        (tmp_path / folder / "a.txt").write_text("1")
        assert not exists or names(target) == []
    assert (target / "a.txt").read_text() == "1"
    assert names(tmp_path) == ["out"]


def test_files_of_others_are_not_replaced(target):
    with pytest.raises(ValueError, match=r"not empty \(it holds w.index\).*--overwri"):
        check(target, overwrite=False)
    check(target, inputs=[f"{target}-other/w"])
    with pytest.raises(ValueError, match="which is to be read"):
        check(target, inputs=[target / "w"])
    always = {"own_files": OWN, "overwrite": True, "always": (["a.*"], ["w.*"])}
    with pytest.raises(ValueError, match=r"holds w.index and no a\.\* or the like, so"):
        output_directory.check(target, **always)
    (target / "a.txt").touch()
    output_directory.check(target, **always)
    (target / "thesis.txt").touch()
    with pytest.raises(ValueError, match=r"holds thesis\.txt, which no conversion"):
        check(target)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{}/w.index", "is a file; name a directory"),
        ("{}/w.index/b/c", r"w\.index is a file; name a dir"),
        ("", "--output_dir is empty; name a directory"),
        ("gs://bucket/a", "gs://bucket/a is not local; name a local"),
    ],
)
def test_what_is_no_directory_is_refused(target, path, message):
    with pytest.raises(ValueError, match=message):
        check(path.format(target))


def busy(old, new, rename=output_directory.os.rename):
    if str(old).endswith(".incomplete"):
        raise OSError(16, "Device or resource busy", old)
    rename(old, new)


def refuse(path, **_):
    raise PermissionError(13, "Permission denied", path)


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [("makedirs", refuse, "denied"), ("rename", busy, "resource busy")],
)
def test_failure_keeps_what_was_there(target, monkeypatch, name, function, message):
    monkeypatch.setattr(output_directory.os, name, function)
    message = rf"--output_dir={target}: cannot .*{message}\); name another place"
    with (
        pytest.raises(OSError, match=message),
        complete(target) as folder,
    ):
        (target.parent / folder / "a.txt").touch()
    assert names(target.parent) == ["out"] and names(target) == ["w.index"]


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_directory_is_replaced_as_a_whole(target, error):
    def write():
        with complete(target) as folder:
            (target.parent / folder / "a.txt").touch()
            assert names(target) == ["w.index"]
            if error:
                raise error

    if error:
        with pytest.raises(error):
            write()
    else:
        write()
    assert names(target) == (["w.index"] if error else ["a.txt"])
    assert names(target.parent) == ["out"]


def test_killed_process_is_cleaned_up_after(target):
    """Between its two renames the old directory has another name, not none."""
    (target.parent / "out.incomplete").mkdir()
    (target.parent / "out.incomplete" / "half").touch()
    target.rename(target.parent / "out.replaced")
    with pytest.raises(ValueError), complete(target) as folder:
        assert names(target.parent / folder) == []
        raise ValueError
    assert names(target.parent) == ["out"] and names(target) == ["w.index"]


def test_what_the_next_process_has_begun_is_not_removed(target, monkeypatch):
    begun, rename = target.parent / "out.incomplete", output_directory.os.rename

    def rename_and_let_begin(old, new):
        rename(old, new)
        if str(old) == str(begun):
            begun.mkdir()
            (begun / "a.txt").touch()

    monkeypatch.setattr(output_directory.os, "rename", rename_and_let_begin)
    with complete(target) as folder:
        (target.parent / folder / "a.txt").touch()
    assert names(target) == names(begun) == ["a.txt"]
