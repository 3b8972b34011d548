"""A directory that is whole under its name, or absent; see contract/atomic_files.py."""

import contextlib
import fnmatch
import os
import shutil

from contract import atomic_files, errors, locks


def check(path, *, own_files, overwrite, inputs=(), always=()):
    """Refuses to write a directory where that would cost somebody files.

    With `overwrite` files that match the patterns `own_files` may be replaced, but no
    `inputs`, and only beside one of each of `always`, which are such patterns.

    Raises:
        ValueError: there is no path, it is remote, it or one above it is a file, or it
            holds files that may not be replaced.
    """
    if not path:
        raise errors.InputError("--output_dir is empty; name a directory, new or not")
    if "://" in (path := os.fspath(path)):
        raise errors.InputError(
            f"--output_dir={path} is not local; name a local directory, and copy it"
        )
    path = above = os.path.realpath(path)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise errors.InputError(
            f"--output_dir={path}: {above} is a file; name a directory, new or not"
        )
    held = sorted(os.listdir(path)) if os.path.isdir(path) else []
    if held and not overwrite:
        raise errors.InputError(
            f"--output_dir={path} is not empty (it holds {held[0]}); choose another "
            "directory, or add --overwrite"
        )
    for name in held:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in own_files):
            raise errors.InputError(
                f"--output_dir={path} holds {name}, which no conversion has written; "
                "choose another directory"
            )
    for patterns in always if held else ():
        if not any(fnmatch.filter(held, pattern) for pattern in patterns):
            raise errors.InputError(
                f"--output_dir={path} holds {held[0]} and no {patterns[0]} or the like,"
                " so no conversion has written it; choose another directory"
            )
    for source in inputs:
        if held and os.path.commonpath([path, os.path.realpath(source)]) == path:
            raise errors.InputError(
                f"--output_dir={path} holds {source}, which is to be read; "
                "choose another directory"
            )


@contextlib.contextmanager
def complete(path, **rules):
    """Yields a temporary directory, which replaces `path` when all went well.

    `rules` are those of `check`, which is called with them when no other process writes
    the directory any more.

    Raises:
        InputError: as `check`, or another process writes the directory.
        OSError: something cannot be written in it, or it cannot take its name.
    """
    check(path, **rules)
    named, path = f"--output_dir={path}", os.path.realpath(path)
    temporary, replaced = path + atomic_files.SUFFIX, f"{path}.replaced"
    try:
        with locks.directory(temporary, named):
            yield from _replacing(path, temporary, replaced, rules)
    except OSError as error:
        text = str(atomic_files.unwritable(named, error))
        raise OSError(text.replace(atomic_files.SUFFIX, "")) from error


def _replacing(path, temporary, replaced, rules):
    if os.path.isdir(replaced) and not os.path.exists(path):  # killed at a rename
        os.rename(replaced, path)
    shutil.rmtree(replaced, ignore_errors=True)
    is_renamed = False
    try:
        os.makedirs(temporary, exist_ok=True)
        for left in os.scandir(temporary):  # of a killed process
            (shutil.rmtree if left.is_dir(follow_symlinks=False) else os.remove)(left)
        check(path, **rules)
        yield temporary
        if os.path.isdir(path):
            os.rename(path, replaced)
        os.rename(temporary, path)
        is_renamed = True
    finally:
        if not is_renamed:  # or the next process may have begun there
            shutil.rmtree(temporary, ignore_errors=True)
        if os.path.isdir(replaced) and not os.path.exists(path):
            os.rename(replaced, path)
    shutil.rmtree(replaced, ignore_errors=True)
