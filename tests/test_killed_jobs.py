"""Each command whose work is kept is killed, goes on, and ends as if it never had been.

A row of JOBS is a command and the function that it calls for each part of its work. At
such a call it dies, once or more often; then the same command makes the calls that are
left, writes no finished file again, and leaves the files and bytes of a whole one.
Every night processes die of a signal instead, at any moment.
"""

import contextlib
import importlib
import shlex
import sqlite3
import types
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests import daily, forked, killed, tiny, tiny_corpus, tiny_export

TEXTS = [text for text, _ in tiny.rows(24)]
# Names of files that hold times.
CHANGING = ("tfevents", "run.json")


class Job(NamedTuple):
    """How a command works, and where it dies.

    Attributes:
        program: such as run_classifier.
        flags: with {d} for the directory of the input.
        part: a module or a class, and its function that is called for each part.
        kept: pattern of finished files; none if parts lie together.
        deaths: (number of the call, whether it was done) of each.
        lost: calls that were done in vain, so that they are made again.
        small: {constant: value} with which so little input has several parts.
        more: flags of a process.
    """

    program: str
    flags: str
    part: tuple[str, str]
    kept: str = ""
    deaths: tuple[tuple[int, bool], ...] = ((2, False),)
    lost: int = 0
    small: Mapping[str, int] = types.MappingProxyType({})
    more: str = ""


_TRAINING = (
    "--pretrained={d}/model --train_file={d}/train.tsv --dev_file={d}/dev.tsv "
    "--max_seq_length=16 --train_batch_size=8 --do_train --learning_rate=1e-3 "
    "--output_dir=out --nowrite_report --log_steps=100 "
)
JOBS = {
    "records": Job(
        "create_pretraining_data",
        "--input_file={d}/text.txt --vocab_file={d}/vocab.txt --output_file=a,b "
        "--max_seq_length=32 --max_predictions_per_seq=5 --dupe_factor=3 "
        "--num_workers=1",
        ("data_pipeline.pretraining.creation.tasks", "_write"),
        deaths=((1, False), (4, True)),
        small=tiny_corpus.SIZES,
        more="--num_workers=2",
    ),
    "vectors": Job(
        "extract_features",
        "--pretrained={d}/model --input_file={d}/texts.txt --output_file=v.jsonl "
        "--max_seq_length=16 --lines_per_shard=5 --layers=-1 --pooling=mean",
        ("tasks.extraction.Extractor", "write"),
        kept="v-*.jsonl",
    ),
    "answers": Job(
        "run_predictor",
        "--export_dir={d}/export --input_file={d}/texts.txt --input_format=lines "
        "--output_file=v.jsonl --lines_per_shard=5",
        ("serving.protocol.servables.Version", "predict"),
        kept="v-*.jsonl",
    ),
    "index": Job(
        "run_search",
        "--pretrained={d}/model --input_file={d}/texts.txt --index_dir=index",
        ("serving.search_index", "_encode"),
        deaths=((1, False), (1, True)),
        lost=1,
        small={"serving.search_index._ROWS_AT_ONCE": 5},
    ),
    "training": Job(
        "run_classifier",
        _TRAINING + "--save_checkpoints_steps=3 --num_train_epochs=1.5 --do_eval",
        ("training.checkpoints.RunCheckpoints", "save"),
        kept="out/model.ckpt-*",
        more="--num_train_epochs=10 --keep_checkpoint_max=99",
    ),
    "seeds": Job(
        "run_classifier",
        _TRAINING + "--num_train_epochs=0.34 --do_eval --seeds=1,2,3",
        ("training.checkpoints.RunCheckpoints", "save"),
        kept="out/seed-*/model.ckpt-*",
    ),
    "grid": Job(
        "run_classifier",
        _TRAINING + "--do_eval --grid=num_train_epochs=.2,.4,.6",
        ("training.checkpoints.RunCheckpoints", "save"),
        kept="out/num*/model.ckpt-*",
    ),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"), 1)


def write_inputs(place, times):
    """What the commands read; texts stand in their file so many times."""
    tiny.write_tables(place)
    tiny_corpus.write(place)
    tiny.write_model(place / "model", num_hidden_layers=1, hidden_act="relu")
    tiny_export.write(place / "export", "short", "long")
    (place / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS * times))
    return place


# tests/test_scripts.py has trainings.
DAILY = ("records", "answers")


@pytest.mark.parametrize("name", daily.params(JOBS, DAILY.__contains__))
def test_killed_command_goes_on(name, inputs, tmp_path, monkeypatch):
    job, place = JOBS[name], tmp_path / "place"
    path, function = job.part
    module, _, kind = path.rpartition(".")
    is_class = kind[0].isupper()
    owner = importlib.import_module(module if is_class else path)
    owner = getattr(owner, kind) if is_class else owner

    def run():
        flags = shlex.split(job.flags.format(d=inputs))
        with killed.counted(owner, function) as calls, tiny_corpus.sizes(job.small):
            done = tiny.run_program(job.program, *flags, draws=False)
        assert done.code == 0, done.err
        return len(calls)

    def begin():
        place.mkdir()
        monkeypatch.chdir(place)

    begin()
    left = run()
    whole = files_of(place)
    place.rename(tmp_path / "whole")
    begin()
    for number, is_done in job.deaths:
        with killed.at_call(owner, function, number=number, after=is_done):
            run()
        left -= number + is_done
        assert left + job.lost > 0 and files_of(place) != whole
    with killed.kept(place.glob(job.kept) if job.kept else ()) as finished:
        assert run() == left + job.lost
    assert files_of(place) == whole and bool(finished) == bool(job.kept)


def files_of(place):
    """{name: bytes} of its files; of a database the commands that make it."""
    files = tiny.listing(place)
    for name in list(files):
        if name.endswith(".sqlite"):
            with contextlib.closing(sqlite3.connect(place / name)) as database:
                files[name] = [*database.iterdump()]
        elif any(part in name for part in CHANGING):
            del files[name]
    return files


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("many"), 12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["records", "vectors", "answers", "training"])
def test_killed_process_goes_on(name, many, forked_server, tmp_path):
    job, place = JOBS[name], tmp_path / "killed"

    def start(kind):
        (tmp_path / kind).mkdir(exist_ok=True)
        return forked_server.start(
            job.program,
            *shlex.split(f"{job.flags.format(d=many)} {job.more}"),
            constants=dict(job.small),
            directory=tmp_path / kind,
        )

    def parts():
        """The files that say how far it is."""
        return list(place.glob(job.kept or "*.incomplete/*"))

    start("whole").succeed()
    whole = files_of(tmp_path / "whole")
    for least in (1, 9):
        process = start("killed")
        process.until(lambda n=least: len(parts()) >= n)
        workers = killed.children(process.pid)
        process.kill()
        assert len(workers) == 2 * ("num_workers=2" in job.more)
        forked.until(lambda pids=workers: not any(map(killed.is_running, pids)))
        assert files_of(place) != whole
    with killed.kept(parts() if job.kept else ()):
        start("killed").succeed()
    assert files_of(place) == whole
