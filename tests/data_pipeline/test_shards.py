"""Shards of a file: their places, their plan, and commands that go on."""

import gzip
import json
import os
import pathlib
import re
import sys

import pytest

from contract import atomic_files, errors, locks
from data_pipeline import engines, shards
from data_pipeline.tables import text_rows
from tests.refusals import refused

TEXTS = {
    "a last line without its end": b"a\nbb\n\nccc\nd",
    "blank lines at both ends": b"\n\na\n\n",
    "CRLF": b"a\r\nb\r\n\r\nc\r\n",
    "a byte-order mark": b"\xef\xbb\xbfa\nb\nc\n",
    "one line": b"a",
    "an end alone": b"\n",
    "not UTF-8": b"\xff\n\xfe\na",
    "lines of many blocks": b"".join(b"%d" % i * (i % 9) + b"\n" for i in range(40)),
}


@pytest.fixture
def begin(tmp_path):
    def call(text=None, lines_per_shard=2, *, rule=(("size", 1),), name="in.txt"):
        path = tmp_path / name
        if text is not None:
            path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        output = str(tmp_path / "out" / "v.jsonl")
        return shards.begin(str(path), output, lines_per_shard, dict(rule))

    return call


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("lines_per_shard", [1, 2, 3, 100])
@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz"])
def test_shards_are_so_many_lines_each(
    begin, tmp_path, monkeypatch, text, lines_per_shard, name
):
    monkeypatch.setattr(text_rows, "_CHUNK_BYTES", 7)
    job = begin(text, lines_per_shard, name=name)
    parts = [
        b"".join(text_rows.blocks(str(tmp_path / name), shard.part))
        for shard in job.shards
    ]
    assert b"".join(parts) == text
    *full, last = (part.count(b"\n") + (part[-1:] != b"\n") for part in parts)
    assert set(full) <= {lines_per_shard} and 1 <= last <= lines_per_shard
    firsts = [shard.part.first_line for shard in job.shards]
    assert firsts == [lines_per_shard * number for number in range(len(parts))]
    paths = [re.fullmatch(r".*/v-(\d{5})-of-(\d{5}).jsonl", s.path) for s in job.shards]
    numbers = [(int(match[1]), int(match[2])) for match in paths]
    assert numbers == [(number, len(parts)) for number in range(len(parts))]
    assert job.waiting == job.shards


def test_lines_of_a_part_have_the_numbers_and_texts_of_the_whole(begin, tmp_path):
    text = TEXTS["a byte-order mark"] + TEXTS["lines of many blocks"]
    job = begin(text, 3)
    path = str(tmp_path / "in.txt")
    whole = list(text_rows.lines(path))
    assert whole[0] == (1, "a") and len(whole) == 43
    parts = [list(text_rows.lines(path, shard.part)) for shard in job.shards]
    assert [row for part in parts for row in part] == whole
    (tmp_path / "in.txt").write_bytes(b"a\nb\n\xff\nc")
    with pytest.raises(errors.InputError, match=r"in.txt:3: byte 0xff, number 1 of"):
        list(text_rows.lines(path, text_rows.Part(2, 4)))


def test_empty_file_is_one_empty_shard(begin, tmp_path):
    (shard,) = begin(b"").shards
    assert shard.part == text_rows.Part(0, 0, 0)
    assert shard.path.endswith("v-00000-of-00001.jsonl")
    assert list(text_rows.blocks(str(tmp_path / "in.txt"), shard.part)) == []


def write(settings, shard, report=bool):
    """The output is its path, in two pieces; every shard has three lines."""
    with (
        atomic_files.replacing(shard.path, shared=True) as (temporary,),
        open(temporary, "w") as file,
    ):
        file.write(shard.path[:3])
        report(2)
        file.write(shard.path[3:])
    return 3


def test_killed_command_goes_on(begin, tmp_path, capfd, monkeypatch):
    out = tmp_path / "out"

    def write_or_fail(settings, shard, report):
        if "-00002-" in shard.path:
            raise OSError("No space left on device")
        return write(settings, shard, report)

    job = begin(TEXTS["lines of many blocks"], 8)
    first_line = f"shards: 5 as {out}/v-*-of-00005.jsonl, 0 of them finished"
    assert capfd.readouterr().out.splitlines() == [first_line]
    remedy = r"^No space left on device; what is done stays in .*/v-\*-of-00005.jsonl: "
    with pytest.raises(OSError, match=f"{remedy}run the same command again"):
        job.run(write_or_fail, None, "writing")
    killed = out / f"v-00002-of-00005.jsonl{atomic_files.SUFFIX}-0a1b2c"
    killed.write_text("half")
    finished = {path: path.stat().st_mtime_ns for path in out.glob("v-*.jsonl")}
    assert sorted(p.name for p in finished) == [
        f"v-0000{number}-of-00005.jsonl" for number in range(2)
    ]

    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.0)
    with locks.held(str(killed), "it is not killed"):
        with refused(f"{out}/v.jsonl: process {os.getpid()} writes it; wait"):
            begin(lines_per_shard=8)
        assert killed.exists()

    job = begin(lines_per_shard=8)
    assert not killed.exists()
    assert [shard.part.first_line for shard in job.waiting] == [16, 24, 32]
    job.run(write, None, "writing")
    for path, changed in finished.items():
        assert path.stat().st_mtime_ns == changed
    assert [pathlib.Path(s.path).read_text() for s in job.shards] == [
        s.path for s in job.shards
    ]
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [
            *(f"v-0000{number}-of-00005.jsonl" for number in range(5)),
            "v.jsonl.plan.json",
        ]
    )
    assert begin(lines_per_shard=8).waiting == []


def test_interrupt_names_the_way_on(begin):
    def interrupt(settings, shard, report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"stays in .*v-\*-of-00003.jsonl: run"):
        begin(TEXTS["not UTF-8"] * 2).run(interrupt, None, "writing")


def test_progress_has_shards_and_lines(begin, capsys, monkeypatch):
    monkeypatch.setattr("terminal.progress._FILE_SECONDS", 0)
    job = begin(b"a\n" * 12, 3)
    job._replace(waiting=job.waiting[1:]).run(write, None, "writing")
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub(r"/s  .*?left  ", "", line)[:19] for line in lines][:2] == [
        "writing: shard 1/4 ",
        "writing: shard 1/4 ",
    ]
    assert re.search(r"1/4 \(25 %\) .* 2 lines", lines[1]), lines
    assert re.search(r"4/4 \(100 %\) .* 9 lines, \d+/s$", lines[-1]), lines


OTHER = {
    "text": ({"text": b"a\nb\nd"}, r"input_sha256 was '\w{64}' and is '\w{64}'; give"),
    "length": ({"text": b"a\nb\nc\n"}, "input_bytes was 5 and is 6; input_sha256 was"),
    "lines": ({"lines_per_shard": 3}, "lines_per_shard was 2 and is 3; give"),
    "rule": ({"rule": [("size", 2)]}, "size was 1 and is 2; give"),
    "new key": ({"rule": [("size", 1), ("b", [])]}, r"b was None and is \[\]; give"),
    "name": ({"text": b"a\nb\nc", "name": "b.txt"}, r"input_file was '.*/in.txt' and"),
}


@pytest.mark.parametrize("change", OTHER)
def test_another_job_is_refused_in_one_line(begin, tmp_path, change):
    begin(b"a\nb\nc")
    plan = tmp_path / "out" / "v.jsonl.plan.json"
    before = plan.read_bytes()
    changes, message = OTHER[change]
    with pytest.raises(errors.InputError, match=message) as caught:
        begin(**changes)
    text = str(caught.value)
    assert text.startswith(f"{plan} is the plan of another job: ") and "\n" not in text
    assert text.endswith(
        "or name another --output_file, or delete the plan and its shards"
    )
    assert plan.read_bytes() == before
    assert begin(b"a\nb\nc").waiting  # the same one is not refused


def test_plan_has_what_decides_about_the_bytes(begin, tmp_path):
    begin(b"a\nb\nc", rule=[("layers", (1, 2))])
    assert json.loads((tmp_path / "out" / "v.jsonl.plan.json").read_text()) == {
        "input_file": f"{tmp_path}/in.txt",
        "input_bytes": 5,
        "input_sha256": (
            "ea7fb08b7a2dc4619ffb7c7bb38d95a2047935fa165d71b12efd3852a2e6d0cc"
        ),
        "lines_per_shard": 2,
        "layers": [1, 2],
    }
    begin(rule=[("layers", (1, 2))])  # a tuple is a list in the file


def test_shards_without_a_plan_are_refused(begin, tmp_path):
    stranger = tmp_path / "out" / "v-00000-of-00007.jsonl"
    stranger.parent.mkdir()
    stranger.write_text("x")
    with pytest.raises(errors.InputError, match=f"{stranger} has no plan"):
        begin(b"a")
    stranger.rename(tmp_path / "out" / "w-00000-of-00007.jsonl")  # of another output
    assert len(begin(b"a").waiting) == 1


@pytest.mark.parametrize(
    "content", [b"not gzip", gzip.compress(b"a\n" * 99)[:-9]], ids=["other", "cut"]
)
def test_damaged_input_is_refused_before_the_plan(begin, tmp_path, content):
    (tmp_path / "in.gz").write_bytes(content)
    with pytest.raises(errors.InputError, match=r"in.gz: cannot be read \(.*; restore"):
        begin(name="in.gz")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_beam_writes_the_waiting_shards(begin):
    pytest.importorskip("apache_beam")
    job = begin(TEXTS["lines of many blocks"], 8)
    job._replace(waiting=job.waiting[1:3]).run(write, None, "writing")
    before = [pathlib.Path(s.path).read_text() for s in job.shards[1:3]]
    for shard in job.shards[1:3]:
        with open(shard.path, "w") as file:
            file.write("finished")
    each = engines.open_beam(["--runner=DirectRunner"])
    begin(lines_per_shard=8).run(write, None, "writing", each)
    assert before == [shard.path for shard in job.shards[1:3]]
    assert [pathlib.Path(s.path).read_text() for s in job.shards] == [
        "finished" if number in (1, 2) else shard.path
        for number, shard in enumerate(job.shards)
    ]
    begin(lines_per_shard=8).run(None, None, "writing", each)  # none is left


def test_absent_beam_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(errors.InputError, match=r"--engine=beam needs a package: pip"):
        engines.open_beam([])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--runner=Nope", "Unexpected pipeline runner: Nope. Valid"),
        ("--runner=a_module.Runner", "No module named 'a_module'"),
        ("--runner", "argument --runner: expected one argument"),
    ],
)
def test_wrong_options_of_beam_are_refused_at_once(option, reason, capfd):
    pytest.importorskip("apache_beam")
    match = rf"^--beam_option={option}: {reason}[^\n]*; correct it$"
    with pytest.raises(errors.InputError, match=match):
        engines.open_beam([option])
    assert "usage" not in capfd.readouterr().err
