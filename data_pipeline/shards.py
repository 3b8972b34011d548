"""Cuts the lines of a file into shards, whose outputs are whole files or absent.

    vectors.jsonl.plan.json         what decides about the bytes of the shards
    vectors-00000-of-00062.jsonl    the output of the first lines, and so on

A shard that is there is finished, for the plan is the first file to be written. So a
command that was killed goes on when it is given again, on any engine.
"""

import hashlib
import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from contract import atomic_files, errors, json_files, locks, wording
from data_pipeline import engines
from data_pipeline.tables import text_rows
from terminal import progress

_ALONE = threading.Lock()  # a process computes one shard at a time


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

    def run(
        self, write: Callable[..., int], settings: Any, name: str, each: Any = None
    ) -> None:
        """Calls write(settings, shard, report) for each waiting shard, in their order.

        `write` calls `report` with the number of lines done, and returns that of all.
        `each` of engines.open_beam calls it elsewhere, without a report.
        """
        total, lines = len(self.shards), 0
        explained = engines.failures_explained(self.pattern)
        with explained, progress.Progress(f"{name}: shard") as report:
            if each:
                each(_write_alone, (write, settings), self.waiting)
                return
            for done, shard in enumerate(self.waiting, total - len(self.waiting)):
                report(done, total, lines=lines)
                lines += write(
                    settings,
                    shard,
                    lambda n, at=done, old=lines: report(at, total, lines=old + n),
                )
            report(total, total, lines=lines)


def _write_alone(work, shard):
    write, settings = work
    with _ALONE:
        write(settings, shard)


def begin(
    input_file: str, output_file: str, lines_per_shard: int, rule: Mapping[str, Any]
) -> Job:
    """Reads the input once, cuts it, and writes the plan.

    `rule` holds, as values of JSON, what else decides about the output.
    """
    starts, size, digest = _cut(input_file, lines_per_shard)
    record = {
        "input_file": input_file,
        "input_bytes": size,
        "input_sha256": digest,
        "lines_per_shard": lines_per_shard,
        **json.loads(json.dumps(rule)),  # lists for tuples, as in a file
    }
    plan, count = f"{output_file}.plan.json", len(starts)
    before = json_files.read_object(plan) if tf.io.gfile.exists(plan) else None
    if before is not None and (differing := wording.differences(before, record)):
        raise errors.InputError(
            f"{plan} is the plan of another job: {differing[:1000]}; give its flags, "
            "or name another --output_file, or delete the plan and its shards"
        )
    atomic_files.check_writable(plan)
    stem, ending = os.path.splitext(output_file)
    present = _listing(stem, ending)
    if before is None and present:
        raise errors.InputError(
            f"{min(present)} has no plan {plan}; delete it or change --output_file"
        )
    atomic_files.write_json(plan, record)
    for path in present:
        if atomic_files.SUFFIX in path:  # of a command that was killed, or runs
            with locks.held(path, output_file):
                atomic_files.remove(path)
    shards = [
        Shard(
            f"{stem}-{number:05}-of-{count:05}{ending}",
            text_rows.Part(number * lines_per_shard, start, stop),
        )
        for number, (start, stop) in enumerate(itertools.pairwise([*starts, size]))
    ]
    job = Job(shards, [shard for shard in shards if shard.path not in present])
    finished = count - len(job.waiting)
    print(f"shards: {count} as {job.pattern}, {finished} of them finished", flush=True)
    return job


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
    """Paths of shards, whole or not."""
    folder, name = os.path.split(stem)
    pattern = re.compile(
        rf"{re.escape(name)}-\d+-of-\d+{re.escape(ending)}({atomic_files.SUFFIX}-\w+)?"
    )
    there = tf.io.gfile.listdir(folder or ".")
    return {os.path.join(folder, file) for file in there if pattern.fullmatch(file)}
