"""Runs the tasks of creation: on the cores of this machine, or on a cluster by Beam."""

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from typing import Any

from contract import errors, json_files
from data_pipeline import engines
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.pretraining.creation import summary
from data_pipeline.pretraining.creation import tasks as creation_tasks

Totals = dict[str, int]  # keys: tasks.count_names


def run_local(
    job: creation_job.Job,
    executor: futures.Executor,
    num_workers: int,
    report: Callable[..., None],
) -> Totals:
    """Does what is left of a job, on the `num_workers` of `engines.start_workers`.

    Returns the counts, or {} where another process has ended the job meanwhile. Calls
    report(done, total, instances=n), also before the first task.
    """
    totals: collections.Counter[str] = collections.Counter()
    with _done_elsewhere(job), engines.failures_explained(job.work_dir):
        packed = creation_job.begin(job)
        _results(executor.submit(creation_job.unpack, job, index) for index in packed)
        plan = creation_job.write_plan(job)
        total = len(plan.units) * plan.num_tasks
        report(0, total, instances=0)
        # A task is sent with what it needs; the files of the corpus lie in its plan.
        sent = dataclasses.replace(job, input_files=())
        written = _written_units if plan.is_large else _written
        for done, counts in enumerate(written(sent, executor, num_workers), start=1):
            totals.update(counts)
            if done == plan.num_tasks:
                _check(job, totals, is_whole=False)
            report(done, total, instances=totals["instances"])
        _check(job, totals, is_whole=True)
        files = range(len(job.output_files))
        _results(executor.submit(creation_tasks.assemble, sent, file) for file in files)
        creation_job.end(job)
        return dict(totals)
    return {}


def _written_by(each, job, units):
    """Counts of units that a pipeline writes, and adds up."""
    sums = creation_tasks.add_counts
    each(creation_tasks.write_unit, job, units, sums=sums, path=job.totals_path)
    return json_files.read_object(job.totals_path) if units else sums(())


@contextlib.contextmanager
def _done_elsewhere(job: creation_job.Job) -> Iterator[None]:
    """Drops an error where another process has ended the same job."""
    try:
        yield
    except _Refused:
        raise
    except (OSError, errors.InputError):  # a file of the job cannot be read
        if not creation_job.is_done(job):
            raise


def _written(
    job: creation_job.Job, executor: futures.Executor, num_workers: int
) -> Iterator[Totals]:
    plan, submit = creation_job.load_plan(job), executor.submit
    # Enough units are begun to keep all workers busy while one unit ends.
    ahead = 1 + num_workers // plan.num_tasks
    cuts: collections.deque[list[futures.Future]] = collections.deque()
    writes: collections.deque[list[futures.Future]] = collections.deque()
    begun = finished = 0
    while finished < len(plan.units):
        while begun < len(plan.units) and len(cuts) + len(writes) <= ahead:
            chunks = range(len(plan.chunks(begun)))
            cuts.append(
                [submit(creation_tasks.write_chunk, job, begun, n) for n in chunks]
            )
            begun += 1
        if cuts and len(writes) < ahead:
            _results(cuts.popleft())
            unit, tasks = finished + len(writes), range(plan.num_tasks)
            writes.append(
                [submit(creation_tasks.write_shards, job, unit, n) for n in tasks]
            )
            continue
        for task in writes.popleft():
            yield task.result()
        creation_tasks.remove_chunks(job, finished)
        finished += 1


def _written_units(
    job: creation_job.Job, executor: futures.Executor, num_workers: int
) -> Iterator[Totals]:
    """`_written` of units that are one task each."""
    begun: collections.deque[futures.Future] = collections.deque()
    for unit in range(len(creation_job.load_plan(job).units)):
        begun.append(executor.submit(creation_tasks.write_unit, job, unit))
        if len(begun) > 2 * num_workers:
            yield begun.popleft().result()
    yield from (each.result() for each in begun)


def _results(submitted: Iterable[futures.Future]) -> list[Any]:
    return [future.result() for future in list(submitted)]


def _check(job: creation_job.Job, totals: Totals, *, is_whole: bool) -> None:
    """Ends a job whose text is refused, by its first unit (a sample) or as a whole."""
    try:
        summary.check(job, totals)
        if is_whole and not totals["instances"]:
            raise errors.InputError(
                f"--input_file: {len(job.input_files)} files hold no document with a "
                "token; give UTF-8 text, one sentence a line, blank lines between texts"
            )
    except errors.InputError as error:
        creation_job.end(job)
        raise _Refused(str(error)) from error


class _Refused(errors.InputError):
    """The text is refused, whatever other processes do."""


def run_beam(job: creation_job.Job, options: Sequence[str]) -> Totals:
    """As `run_local`, by pipelines of Apache Beam, whose workers reach all paths."""
    each = engines.open_beam(options)
    with _done_elsewhere(job), engines.failures_explained(job.work_dir):
        each(creation_job.unpack, job, creation_job.begin(job))
        units = range(len(creation_job.write_plan(job).units))
        for is_whole in (False, True):  # the first unit before all others
            totals = _written_by(each, job, units if is_whole else units[:1])
            _check(job, totals, is_whole=is_whole)
        each(creation_tasks.assemble, job, range(len(job.output_files)))
        creation_job.end(job)
        return totals
    return {}
