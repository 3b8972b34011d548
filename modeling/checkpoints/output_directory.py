"""A directory that is whole under its name, or absent; see contract/atomic_files.py."""

import contextlib
import fnmatch
import os
import shutil

from contract import atomic_files, errors


def check(path, *, own_files, overwrite, inputs=()):
    """Refuses to write a directory where that would cost somebody files.

    With `overwrite` files that match the patterns `own_files` may be replaced, but no
    `inputs`.

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
    for source in inputs:
        if held and os.path.commonpath([path, os.path.realpath(source)]) == path:
            raise errors.InputError(
                f"--output_dir={path} holds {source}, which is to be converted; "
                "choose another directory"
            )


@contextlib.contextmanager
def complete(path):
    """Yields a temporary directory, which replaces `path` when all went well.

    Raises:
        OSError: no directory can be made beside it, or take its name.
    """
    path = os.path.realpath(path)
    temporary, replaced = path + atomic_files.SUFFIX, f"{path}.replaced"
    with _writable(path):
        if os.path.isdir(replaced) and not os.path.exists(path):  # killed at a rename
            os.rename(replaced, path)
        for left in (temporary, replaced):
            shutil.rmtree(left, ignore_errors=True)
        os.makedirs(temporary)
    try:
        yield temporary
        with _writable(path):
            if os.path.isdir(path):
                os.rename(path, replaced)
            os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if os.path.isdir(replaced) and not os.path.exists(path):
            os.rename(replaced, path)
    shutil.rmtree(replaced, ignore_errors=True)


@contextlib.contextmanager
def _writable(path):
    try:
        yield
    except OSError as error:
        raise OSError(
            f"--output_dir={path}: cannot be written ({error.strerror}: "
            f"{error.filename}); name another place"
        ) from error
