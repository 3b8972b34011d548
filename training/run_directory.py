"""The files of a run beside its checkpoints, and whose directory it is."""

import contextlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from training import checkpoints

RUN_FILE = "run.json"
RESULTS_FILE = "eval_results.txt"
# What --overwrite_output_dir removes: what runs write, and nothing else.
_OWN_PATTERNS = (
    "model.ckpt-*",
    "checkpoint",
    "*.incomplete*",
    RUN_FILE,
    RESULTS_FILE,
    "test_results.tsv",
    "test_predictions.jsonl",
    "*.tf_record",
    "label_map.json",
    "predictions.json",
    "nbest_predictions.json",
    "null_odds.json",
    "test_tags.*",
)
_OWN_DIRECTORIES = ("train", "eval", "export")


def resumes(directory: str, identity: Mapping[str, Any], *, overwrite: bool) -> bool:
    """Whether the directory holds checkpoints of the run about to start.

    Args:
        directory: --output_dir.
        identity: what makes two runs the same: model, data, batch size, seed. Of an
            evaluation, which goes with any run, {}.
        overwrite: what is there is to be replaced.

    Raises:
        ValueError: another run is there; says in what it differs. Or a file is there.
    """
    if tf.io.gfile.exists(directory) and not tf.io.gfile.isdir(directory):
        raise ValueError(
            f"--output_dir={directory} is a file; name a directory, new or not"
        )
    if overwrite:
        return False
    path = os.path.join(directory, RUN_FILE)
    if tf.io.gfile.exists(path):
        before = _identity(path)
        differing = [
            f"{key} was {before[key]!r} and is {value!r}"
            for key, value in identity.items()
            if key in before and before[key] != value
        ]
        if differing:
            raise ValueError(
                f"--output_dir={directory} holds another run: {'; '.join(differing)}; "
                "choose another directory, or add --overwrite_output_dir to replace it"
            )
    return bool(checkpoints.all_checkpoints(directory))


def _identity(path: str) -> dict[str, Any]:
    """What run.json says of the run that wrote it."""
    try:
        with tf.io.gfile.GFile(path) as file:
            return dict(json.loads(file.read())["identity"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: cannot be read ({error}), so it does not say whose run this is; "
            "choose another directory, or add --overwrite_output_dir to replace it"
        ) from error


def clear(directory: str) -> None:
    """Removes what an earlier run wrote, and nothing else."""
    for pattern in _OWN_PATTERNS:
        for path in tf.io.gfile.glob(os.path.join(directory, pattern)):
            tf.io.gfile.remove(path)
    for name in _OWN_DIRECTORIES:
        path = os.path.join(directory, name)
        if tf.io.gfile.isdir(path):
            tf.io.gfile.rmtree(path)


def begin(
    directory: str,
    *,
    overwrite: bool,
    identity: Mapping[str, Any],
    flags: Mapping[str, Any],
    command: str,
    files: Mapping[str, str],
) -> None:
    """Makes the directory and writes run.json and the files that go with the weights.

    Args:
        directory: --output_dir.
        overwrite: remove first what another run wrote there.
        identity: as in `resumes`.
        flags: every flag with its value.
        command: what starts the run.
        files: {name: text}, such as bert_config.json, so that the directory can serve
            as --pretrained of a later run.

    Raises:
        OSError: as in `write_text`.
    """
    if overwrite:
        clear(directory)
    record = {
        "identity": dict(identity),
        "command": command,
        "flags": dict(flags),
        "versions": {
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "numpy": np.__version__,
        },
        "git_revision": _git_revision(),
    }
    texts = {**files, RUN_FILE: json.dumps(record, indent=2, sort_keys=True) + "\n"}
    for name, text in texts.items():
        write_text(os.path.join(directory, name), text)


def write_text(path: str, text: str) -> None:
    """Writes a file, whole under its name or absent, and makes its directory.

    Raises:
        OSError: it cannot be written, or not as a whole.
    """
    temporary = f"{path}.incomplete"
    with _removed_on_failure(temporary, path):
        _write(temporary, text)
        tf.io.gfile.rename(temporary, path, overwrite=True)


def check_writable(path: str) -> None:
    """Refuses a path where no file can be written, before hours of work for it.

    The directory is made where there is none.

    Raises:
        ValueError: it is a directory.
        OSError: nothing can be written there.
    """
    if path.endswith("/") or tf.io.gfile.isdir(path):
        raise ValueError(f"{path} is a directory; name the file to write in it")
    trial = f"{path}.incomplete-trial"
    with _removed_on_failure(trial, path):
        _write(trial, "")
        tf.io.gfile.remove(trial)


def _write(path: str, text: str) -> None:
    tf.io.gfile.makedirs(os.path.dirname(path) or ".")
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(text)


@contextlib.contextmanager
def _removed_on_failure(temporary: str, path: str) -> Iterator[None]:
    """Where the file that becomes `path` cannot be written, nothing of it stays."""
    try:
        yield
    except tf.errors.OpError as error:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)
        raise OSError(
            f"{path}: cannot be written ({error.message}); make room there, or name "
            "another place"
        ) from error


def write_results(path: str, results: Mapping[str, Any]) -> None:
    """eval_results.txt: sorted lines of `key = value`, as the original writes them."""
    # str, not format: a float32 is printed with the digits it has
    lines = [f"{key} = {results[key]!s}\n" for key in sorted(results)]
    write_text(path, "".join(lines))


def _git_revision() -> str | None:
    """The commit that runs, or None outside a checkout."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        done = subprocess.run(
            ["git", "-C", here, "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
