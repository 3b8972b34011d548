"""Tasks of creation: any order, any interruption, the same records.

The text has every word once, so that tokens say where they come from.
"""

import contextlib
import dataclasses
import functools
import gzip
import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from contract import json_files
from data_pipeline.pretraining import metadata
from data_pipeline.pretraining.creation import job as creation_job
from data_pipeline.pretraining.creation import tasks as creation_tasks
from data_pipeline.vocabularies import byte_ranges
from tests import killed, tiny, tiny_corpus

job_of = functools.partial(tiny_corpus.job_of, tiny_corpus.SETTINGS)
run = tiny_corpus.run
SINGLE = {"sentence_task": "none", "dupe_factor": 1, **tiny_corpus.UNMASKED}


@pytest.fixture(scope="module", autouse=True)
def one_tokenizer(source):
    """Building it takes a second, and all jobs here have the same."""
    with tiny_corpus.tokenized_by(job_of(source, source).tokenizer):
        yield


def contents(job):
    return [tiny_corpus.raw(path) for path in job.output_files]


def flat(lists):
    return [item for one in lists for item in one]


def corpus_tokens():
    """Ids of the text, [documents][sentences][tokens]."""
    ids = {token: i for i, token in enumerate(tiny_corpus.VOCAB)}

    def pieces(word):
        if word[-1] in "xy":
            return [ids[word[:-1]], ids[f"##{word[-1]}"]]
        return [ids[word]]

    return [
        [flat(map(pieces, sentence.split())) for sentence in document]
        for document in tiny_corpus.documents()
    ]


@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (1, tiny_corpus.SETTINGS),
        (3, tiny_corpus.LEFT_TO_RIGHT),
        pytest.param(9, tiny_corpus.SETTINGS, marks=pytest.mark.slow),
    ],
    ids=["1", "3 left to right", "9"],
)
def test_tasks_in_any_order_give_the_same_records(source, tmp_path, count, settings):
    expected = tiny_corpus.job_of(settings, source, tmp_path / "a", count)
    totals = run(expected)
    job = tiny_corpus.job_of(settings, source, tmp_path / "b", count)
    creation_job.begin(job)
    plan, rng = creation_job.write_plan(job), random.Random(count)
    units = list(range(len(plan.units)))
    assert len(units) >= 3 and all(len(plan.chunks(unit)) >= 2 for unit in units)
    ranges = np.concatenate(plan.units).tolist()
    assert ranges != sorted(ranges) == list(range(len(plan.text.range_files)))
    written = {}
    for tasks in (
        [
            (creation_tasks.write_chunk, unit, chunk)
            for unit in units
            for chunk in range(len(plan.chunks(unit)))
        ],
        [
            (creation_tasks.write_shards, unit, task)
            for unit in units
            for task in range(plan.num_tasks)
        ],
        [(creation_tasks.assemble, file) for file in range(count)],
    ):
        tasks = tasks + rng.sample(tasks, len(tasks) // 2)  # some of them twice
        rng.shuffle(tasks)
        done = {tuple(numbers): function(job, *numbers) for function, *numbers in tasks}
        written = written or (
            done if tasks[0][0] is creation_tasks.write_shards else {}
        )
    assert creation_tasks.add_counts(written.values()) == totals
    creation_job.end(job)
    assert tiny.listing(tmp_path / "b") == tiny.listing(tmp_path / "a")
    assert totals["instances"] == sum(map(len, contents(job)))


def test_no_sentence_task_keeps_every_token_exactly_once(source, tmp_path):
    job = job_of(source, tmp_path, 3, **SINGLE)
    totals = run(job)
    arrays = tiny_corpus.parse(flat(contents(job)))
    rows = arrays["input_ids"]
    expected = flat(flat(corpus_tokens()))
    assert sorted(rows[rows >= tiny_corpus.FIRST_PIECE].tolist()) == sorted(expected)
    assert not arrays["segment_ids"].any() and not arrays["next_sentence_labels"].any()
    documents, sentences = len(corpus_tokens()), sum(map(len, corpus_tokens()))
    assert totals == {
        "documents": documents,
        "sentences": sentences,
        "tokens": len(expected),
        "unknown_tokens": 0,
        "random_next": 0,
        "instances": len(rows),
        "segment_tokens": len(expected),
        "used_tokens": len(expected),
        "lines": sentences + documents - 1,
        "invalid_lines": 0,
        "ranges": totals["ranges"],
    }


def test_records_are_dealt_evenly(source, tmp_path):
    whole = job_of(source, tmp_path / "1", 1, **SINGLE)
    run(whole)
    (expected,) = contents(whole)
    for count in (3, 11):
        job = job_of(source, tmp_path / f"{count}", count, **SINGLE)
        creation_job.begin(job)
        units = len(creation_job.write_plan(job).units)
        run(job)
        records = contents(job)
        # Nothing is drawn here after the pairs are shuffled.
        assert sorted(flat(records)) == sorted(expected)
        sizes = list(map(len, records))
        assert max(sizes) - min(sizes) <= units


def test_metadata_are_true_also_of_more_files_than_records(source, tmp_path):
    (tmp_path / "text.txt").write_text("w1 w2 w3\nw4\n\nw5 w6\n")
    job = dataclasses.replace(
        job_of(source, tmp_path, 12, dupe_factor=1),
        input_files=(f"{tmp_path}/text.txt",),
    )
    count = run(job)["instances"]
    assert 3 <= count <= 4
    assert sorted(map(len, contents(job))) == [0] * (12 - count) + [1] * count
    for path, records in zip(job.output_files, contents(job), strict=True):
        size = tf.io.gfile.stat(path).length
        assert metadata.read(path) == dataclasses.replace(
            job.settings, num_instances=len(records), num_bytes=size
        )


def test_seed_decides_the_records(source, tmp_path):
    records = []
    for seed in (1, 2, -1):
        job = job_of(source, tmp_path / str(seed), random_seed=seed)
        run(job)
        records.append(contents(job)[0])
    assert len({tuple(sorted(each)) for each in records}) == 3


def test_first_records_are_described(source, tmp_path):
    job = job_of(source, tmp_path)
    run(job)
    lines = list(creation_tasks.describe(job, 2))
    arrays = tiny_corpus.parse(contents(job)[0][:2])
    assert len(lines) == 2 * (2 + len(arrays))
    assert lines[0] == lines[9] == "*** Example ***"
    tokens = lines[10].removeprefix("tokens: ").split()
    ids = [tiny_corpus.VOCAB.index(token) for token in tokens]
    assert ids == arrays["input_ids"][1].tolist()
    numbers = " ".join(map(str, arrays["masked_lm_positions"][1].tolist()))
    assert f"masked_lm_positions: {numbers}" in lines[11:]
    assert f"next_sentence_labels: {arrays['next_sentence_labels'][0, 0]}" in lines[:9]


# --- Interruptions.


# At which calls of a function of tf.io.gfile a run is killed; negative ones are from
# the end, where files are joined.
STOPS = {
    "makedirs": (0, 20),
    "rename": (1, 40, -6, -5, -3, -1),
    "remove": (4,),
    "rmtree": (0, 1),
}


@pytest.mark.slow
def test_job_goes_on_wherever_it_was_stopped(source, tmp_path):
    expected = job_of(source, tmp_path / "a", 2, dupe_factor=1)
    with killed.counted(tf.io.gfile, "rename") as renames:
        totals = run(expected)
    files = tiny.listing(tmp_path / "a")
    for name, counts in STOPS.items():
        for count in counts:
            job = job_of(source, tmp_path / f"{name}{count}", 2, dupe_factor=1)
            number = count if count >= 0 else len(renames) + count
            with killed.at_call(tf.io.gfile, name, number=number):
                run(job)
            assert run(job) == totals
            assert tiny.listing(tmp_path / f"{name}{count}") == files


@pytest.fixture
def few_shards(monkeypatch):
    """Jobs are as large ones are: a unit is a task, and writes few files."""
    monkeypatch.setattr(creation_job, "MAX_SHARDS", 7)


def test_large_jobs_have_the_records_of_others(source, tmp_path, request):
    """Every record once, of units that are written in any order."""
    small = job_of(source, tmp_path / "a", 5, **SINGLE)
    totals = run(small)
    request.getfixturevalue("few_shards")
    large = job_of(source, tmp_path / "b", 5, **SINGLE)
    assert run(large) == totals
    records = [flat(contents(job)) for job in (small, large)]
    assert sorted(records[0]) == sorted(records[1]) and records[0] != records[1]
    again = job_of(source, tmp_path / "c", 5, **SINGLE)
    creation_job.begin(again)
    units = list(range(len(creation_job.write_plan(again).units)))
    counts = [creation_tasks.write_unit(again, unit) for unit in units[::-1] + units]
    for unit in units:  # is written, so nothing is read or cut
        assert creation_tasks.write_unit(again, unit) == counts[-len(units) :][unit]
    for file in range(5):
        creation_tasks.assemble(again, file)
    assert contents(again) == contents(large)
    held = [metadata.read(path).num_instances for path in large.output_files]
    assert sum(held) == totals["instances"] and min(held) > 0


@pytest.mark.slow
def test_large_job_goes_on_wherever_it_was_stopped(source, tmp_path, few_shards):
    expected = job_of(source, tmp_path / "a", 3)
    totals = run(expected)
    for count in (1, 3, 6, 9, 14):
        job = job_of(source, tmp_path / f"{count}", 3)
        with killed.at_call(tf.io.gfile, "rename", number=count):
            run(job)
        assert run(job) == totals
        assert contents(job) == contents(expected)


@pytest.mark.parametrize("files", [1, 7, 1000, 70_000])
def test_shards_of_a_terabyte_are_as_few_as_its_units(files):
    units = [np.zeros(0)] * (10**12 // (1 << 24))
    plan = creation_job.UnitPlan(None, units, files)
    assert plan.is_large and plan.num_tasks == 1
    shards = [shard for unit in range(len(units)) for shard in plan.shards(unit, 0)]
    assert len(shards) < 2 * len(units) + creation_job.MAX_SHARDS
    counts = np.bincount([shard.file for shard in shards], minlength=files)
    assert counts.max() - counts.min() <= 1 and counts.min() > 0


def test_no_metadata_beside_other_records(source, tmp_path):
    job = job_of(source, tmp_path)
    run(job)
    old = tiny.listing(tmp_path)
    other = job_of(source, tmp_path, dupe_factor=1)
    creation_job.begin(other)
    for unit in range(len(creation_job.write_plan(other).units)):
        creation_tasks.write_unit(other, unit)
    seen = []
    for count in range(10):
        for name, content in old.items():
            (tmp_path / name).write_bytes(content)
        death = killed.dying(tf.io.gfile, "remove", "rename", number=count)
        with contextlib.suppress(killed.Killed), death:
            creation_tasks.assemble(other, 0)
        is_old = (tmp_path / "0.tfrecord").read_bytes() == old["0.tfrecord"]
        about = metadata.read(f"{tmp_path}/0.tfrecord")
        seen.append((is_old, about and about.dupe_factor))
        if tf.io.gfile.exists(other.file_path(0)):
            break
    steps = [(True, 2), (True, None), (False, None), (False, 1)]
    assert [step for step, _ in itertools.groupby(seen)] == steps


def test_a_file_is_not_joined_again_while_its_shards_are_removed(source, tmp_path):
    """By another process that began before it was complete: it would be cut."""
    job = job_of(source, tmp_path, 1)
    creation_job.begin(job)
    for unit in range(len(creation_job.write_plan(job).units)):
        creation_tasks.write_unit(job, unit)
    listdir, rmtree = tf.io.gfile.listdir, tf.io.gfile.rmtree

    def remove_some(directory):
        for name in sorted(listdir(directory))[::2]:
            tf.io.gfile.remove(f"{directory}/{name}")

    def list_later(directory):
        """Another process is faster, and has removed some of the shards."""
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(tf.io.gfile, "listdir", listdir)
            inner.setattr(tf.io.gfile, "rmtree", remove_some)
            creation_tasks.assemble(job, 0)
        return listdir(directory)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.io.gfile, "listdir", list_later)
        creation_tasks.assemble(job, 0)
    about, records = metadata.read(job.output_files[0]), contents(job)[0]
    assert about.num_instances == len(records)
    assert about.num_bytes == tf.io.gfile.stat(job.output_files[0]).length
    rmtree(job.work_dir)
    run(job)
    assert contents(job)[0] == records
    # Nor where all is done and gone.
    creation_tasks.assemble(job, 0)
    assert contents(job)[0] == records


@pytest.mark.parametrize("name", ["write_chunk", "write_shards", "assemble"])
def test_a_late_process_ends_quietly_where_the_records_are_there(
    source, tmp_path, monkeypatch, name
):
    job, other = (job_of(source, tmp_path, 2, dupe_factor=1) for _ in range(2))
    original, calls = getattr(creation_tasks, name), itertools.count()

    def late(*arguments):
        if next(calls) == 1:
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(creation_tasks, name, original)
                run(other)
        return original(*arguments)

    monkeypatch.setattr(creation_tasks, name, late)
    run(job)
    actual = tiny.listing(tmp_path)
    creation_job.end(job)
    monkeypatch.undo()
    expected = job_of(source, tmp_path / "alone", 2, dupe_factor=1)
    run(expected)
    alone = tiny.listing(tmp_path / "alone")
    assert {name: actual[name] for name in alone} == alone
    # Where they are not there, an error stays one.
    monkeypatch.setattr(
        creation_tasks, "write_chunk", lambda job, *_: creation_job.end(job)
    )
    with pytest.raises(OSError):
        run(job_of(source, tmp_path / "none", 2))


def test_end_of_a_job_takes_nothing_of_the_same_one_begun_meanwhile(
    source, tmp_path, monkeypatch
):
    job = job_of(source, tmp_path, 2, dupe_factor=1)
    run(job)
    remove, seen = tf.io.gfile.rmtree, []

    def late(path):
        creation_job.begin(job)
        creation_job.write_plan(job)
        seen.append(tiny.listing(job.work_dir))
        remove(path)

    monkeypatch.setattr(tf.io.gfile, "rmtree", late)
    creation_job.end(job)
    assert seen == [tiny.listing(job.work_dir)] and len(seen[0]) > 1
    assert [path.name for path in tmp_path.glob("*.done-*")] == []


def test_what_is_unpacked_stays_for_the_same_job(tmp_path):
    """That of a killed command, and of another process that begins with it."""
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(b"w1 w2\nw3 w4\n\nw5\nw6\n"))
    tiny_corpus.write(tmp_path)
    job = dataclasses.replace(job_of(tmp_path, tmp_path), input_files=(str(packed),))
    assert creation_job.begin(job) == [0]
    creation_job.unpack(job, 0)
    assert creation_job.begin(job) == []
    others = dataclasses.replace(job.settings, dupe_factor=7)
    with pytest.raises(ValueError, match="dupe_factor was 2 and is 7"):
        creation_job.begin(dataclasses.replace(job, settings=others))
    assert creation_job.begin(job) == []


def test_unpacked_input_alone_does_not_bind_the_next_job(tmp_path):
    packed = tmp_path / "text.txt.gz"
    whole = gzip.compress(b"w1 w2\nw3 w4\n\nw5\nw6\n")
    packed.write_bytes(whole[:-9])
    tiny_corpus.write(tmp_path)
    job = dataclasses.replace(job_of(tmp_path, tmp_path), input_files=(str(packed),))
    with pytest.raises(ValueError, match=r"gz: not a whole gzip file .* copy it"):
        run(job)
    packed.write_bytes(whole)
    assert run(job)["sentences"] == 4
    assert not tf.io.gfile.exists(job.work_dir)


@pytest.mark.parametrize("has_plan", [False, True])
def test_other_settings_are_refused_while_a_job_is_unfinished(
    source, tmp_path, has_plan
):
    """From its beginning on, for another process may unpack there for an hour."""
    job = job_of(source, tmp_path)
    creation_job.begin(job)
    if has_plan:
        creation_job.write_plan(job)
    for changes, message in (
        ({"dupe_factor": 7}, "dupe_factor was 2 and is 7"),
        ({"masking": "span"}, "masking was 'word_piece' and is 'span'"),
    ):
        with pytest.raises(ValueError) as error:
            creation_job.begin(job_of(source, tmp_path, **changes))
        text = str(error.value)
        for part in (message, "0.tfrecord.incomplete", "delete"):
            assert part in text
        assert text.count(" and is ") == 1
    assert creation_job.begin(job) == []
    with open(f"{source}/text.txt", "a") as file:
        file.write("\nw1\n")
    refused = pytest.raises(ValueError, match=r"input_sizes was \[\d+\] and is")
    try:
        with refused if has_plan else contextlib.nullcontext():
            creation_job.begin(job)
    finally:
        tiny_corpus.write(source)
    # Of a directory that is half removed, nothing is used.
    tf.io.gfile.remove(job.path("job.json"))
    creation_job.begin(job_of(source, tmp_path, dupe_factor=7))
    assert tf.io.gfile.listdir(job.work_dir) == ["job.json"]
    record = json_files.read_object(job.path("job.json"))
    assert record["gpt_tokenizer"] is None  # a job of an earlier version goes on


def test_records_made_elsewhere_are_those_made_here(source, tmp_path):
    here = job_of(source, tmp_path, 2)
    run(here)
    packed = gzip.compress((source / "text.txt").read_bytes())
    for name, data in (
        ("text.txt.gz", packed),
        ("vocab.txt", (source / "vocab.txt").read_bytes()),
    ):
        tf.io.gfile.makedirs("ram://corpus")
        with tf.io.gfile.GFile(f"ram://corpus/{name}", "wb") as file:
            file.write(data)
    files = byte_ranges.find_files("ram://corpus/*.gz,ram://corpus/t*")
    assert files == ["ram://corpus/text.txt.gz"]
    job = job_of("ram://corpus", "ram://records", 2)
    job = dataclasses.replace(job, input_files=tuple(files))
    run(job)
    assert contents(job) == contents(here)
    read = metadata.read
    assert list(map(read, job.output_files)) == list(map(read, here.output_files))
    assert not tf.io.gfile.exists(job.work_dir)
