"""Cuts the lines of a file into shards, whose outputs are whole files or absent.

    vectors.jsonl.plan.json         what decides about the bytes of the shards
    vectors-00000-of-00062.jsonl    the output of the first lines, and so on

A shard that is there is finished, for the plan is the first file to be written. So a
command that was killed goes on when it is given again, on any engine.
"""

import functools
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, json_files, wording
from data_pipeline import engines
from data_pipeline.tables import text_rows
from terminal import progress

_ALONE = (
    threading.Lock()
)  # a process computes one shard at a time, whatever its threads


class Shard(NamedTuple):
    """A part of the input, and the path of its output."""

    path: str
    part: text_rows.Part


class Job(NamedTuple):
    """All shards of a file, and those that are not there yet, in order."""

    shards: list[Shard]
    waiting: list[Shard]

    @property
    def pattern(self) -> str:
        """A name for all output files."""
        return re.sub(r"-0+(-of-\d+[^/]*)$", r"-*\1", self.shards[0].path)

    def describe(self) -> str:
        """How much there is to do, in one line."""
        there = len(self.shards) - len(self.waiting)
        return f"shards: {len(self.shards)} as {self.pattern}, {there} of them finished"


def begin(
    input_file: str, output_file: str, lines_per_shard: int, rule: Mapping[str, Any]
) -> Job:
    """Cuts the input, and writes the plan unless it is there; reads the input once.

    Args:
        rule: what decides about the output, beside the input; values of JSON.

    Raises:
        OSError, InputError: a file cannot be read or written, or the place holds the
            plan, or shards, of another job.
    """
    starts, size, digest = _cut(input_file, lines_per_shard)
    record = {
        "input_file": input_file,
        "input_bytes": size,
        "input_sha256": digest,
        "lines_per_shard": lines_per_shard,
        **json.loads(json.dumps(rule)),  # lists for tuples, as in a file
    }
    plan = f"{output_file}.plan.json"
    before = json_files.read_object(plan) if tf.io.gfile.exists(plan) else None
    if before is not None and (differing := wording.differences(before, record)):
        raise errors.InputError(
            f"{plan} is the plan of another job: {differing[:1000]}; give its flags, "
            "or name another --output_file, or delete the plan and its shards"
        )
    stem, ending = os.path.splitext(output_file)
    names = [
        f"{stem}-{number:05}-of-{len(starts):05}{ending}"
        for number in range(len(starts))
    ]
    atomic_files.check_writable(plan)
    present = _listing(stem, ending)
    if before is None:
        if present:
            raise errors.InputError(
                f"{min(present)} is there, but not its plan {plan}; delete these "
                "shards, or name another --output_file"
            )
        atomic_files.write_json(plan, record)
    for path in present.difference(names):
        if atomic_files.SUFFIX in path:
            atomic_files.remove(path)  # of a command that was killed
    shards = [
        Shard(path, text_rows.Part(number * lines_per_shard, start, stop))
        for number, (path, start, stop) in enumerate(
            zip(names, starts, [*starts[1:], size], strict=True)
        )
    ]
    return Job(shards, [shard for shard in shards if shard.path not in present])


def _cut(path: str, lines_per_shard: int) -> tuple[list[int], int, str]:
    """Byte offsets of the shards, at least one; bytes and SHA-256 of the whole text."""
    starts, num_lines, size, digest = [0], 0, 0, hashlib.sha256()
    for block in text_rows.blocks(path):
        digest.update(block)
        ends = size + 1 + np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
        starts += ends[-(num_lines + 1) % lines_per_shard :: lines_per_shard].tolist()
        num_lines += len(ends)
        size += len(block)
    if size and starts[-1] == size:
        starts.pop()
    return starts, size, digest.hexdigest()


def _listing(stem: str, ending: str) -> set[str]:
    """Paths of shards, whole or not, by the beginning and the end of their names."""
    folder, name = os.path.split(stem)
    pattern = re.compile(
        rf"{re.escape(name)}-\d+-of-\d+{re.escape(ending)}({atomic_files.SUFFIX}-\w+)?"
    )
    there = tf.io.gfile.listdir(folder or ".")
    return {os.path.join(folder, file) for file in there if pattern.fullmatch(file)}


def run_local(
    job: Job, write: Callable[[Shard, Callable[[int], object]], int], name: str
) -> int:
    """Writes the waiting shards, one after another; returns the number of their lines.

    `write` takes a shard, and a function to call with the number of lines done of it;
    it returns the number of all.
    """
    total, num_lines = len(job.shards), 0
    with (
        engines.failures_explained(job.pattern),
        progress.Progress(f"{name}: shard") as report,
    ):

        def report_lines(done, before, lines):
            report(done, total, lines=before + lines)

        for done, shard in enumerate(job.waiting, start=total - len(job.waiting)):
            report_lines(done, num_lines, 0)
            num_lines += write(shard, functools.partial(report_lines, done, num_lines))
        report_lines(total, num_lines, 0)
    return num_lines


def run_beam(
    job: Job,
    write: Callable[[Any, Shard], Any],
    settings: Any,
    each: Callable[..., None],
) -> None:
    """Calls write(settings, shard) for the waiting shards; `each` is of `open_beam`.

    All workers must be able to read the input and the model, and to write the shards.
    """
    with engines.failures_explained(job.pattern):
        each(_write_alone, (write, settings), job.waiting)


def _write_alone(work: tuple[Callable[[Any, Shard], Any], Any], shard: Shard) -> None:
    write, settings = work
    with _ALONE:
        write(settings, shard)
