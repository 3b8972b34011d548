"""Tests of texts that are added to an index: with the same answers as in one build."""

import json
import re
import shutil

import numpy as np
import pytest

from contract import errors, locks
from serving import search, search_encoders, search_graph, search_index, search_passages
from tests import full_disk, search_runs, tiny
from tests.refusals import refused
from tests.serving.test_search import Killed, build, refuse, table

assert table  # a fixture
TEXTS = [text for text, _ in tiny.rows(24)]


@pytest.fixture
def words(table, tmp_path):
    """Random vectors of TEXTS; a function that writes some of them, and its calls."""
    rng = np.random.default_rng(5)
    calls = table({text: rng.normal(size=16) for text in [*TEXTS, "query"]})

    def write(name, first, last):
        path = tmp_path / name
        path.write_text("".join(f"{text}\n" for text in TEXTS[first:last]))
        return str(path)

    return write, calls


@pytest.mark.parametrize("quantization", search_index.QUANTIZATIONS)
def test_added_texts_are_found_as_in_one_build(words, tmp_path, quantization):
    write, calls = words
    whole = build(tmp_path / "whole", write("all.txt", 0, 24), "any")
    index_dir, options = tmp_path / "index", {"quantization": quantization}
    build(index_dir, write("a.txt", 0, 13), "any", **options)
    before = tiny.listing(index_dir)
    calls.clear()
    index = search.Index.open(str(index_dir))
    assert index.add(write("b.txt", 13, 20)) == 20
    assert search.Index.open(str(index_dir)).add(write("c.txt", 20, 24)) == 24
    assert [len(texts) for texts in calls] == [7, 4]  # only the new ones
    expected = search.Index.open(str(tmp_path / "whole")).neighbours("query", 24)[0]
    actual = search.Index.open(str(index_dir)).neighbours("query", 24)[0]
    assert [(n.text, n.cosine) for n in actual] == [
        (n.text, n.cosine) for n in expected
    ]
    names = [f"{i + 1}" for i in range(13)] + [f"b.txt:{i + 1}" for i in range(7)]
    names += [f"c.txt:{i + 1}" for i in range(4)]
    assert {n.text_id: n.text for n in actual} == dict(zip(names, TEXTS, strict=True))
    after = tiny.listing(index_dir)
    assert {n: after[n] for n in before if n != "index.json"} == {
        n: before[n] for n in before if n != "index.json"
    }
    plan = json.loads((index_dir / "index.json").read_text())
    assert [part["num_texts"] for part in plan.pop("added")] == [7, 4]
    assert plan["texts"]["num_texts"] == 13 and whole["texts"]["num_texts"] == 24
    # The command of the build leaves them there.
    build(index_dir, write("a.txt", 0, 13), "any", **options)
    assert tiny.listing(index_dir) == after


def test_only_new_rows_of_a_file_that_has_grown_are_added(words, tmp_path, capsys):
    write, calls = words
    build(tmp_path / "index", write("a.txt", 0, 13), "any")
    calls.clear()
    index = search.Index.open(str(tmp_path / "index"))
    assert index.add(write("a.txt", 0, 13)) == 13
    assert f"index has all texts of {tmp_path}/a.txt\n" in capsys.readouterr().out
    assert index.add(write("a.txt", 0, 15)) == 15
    assert index.add(write("b.txt", 15, 16)) == 16
    assert index.add(write("b.txt", 15, 18)) == 18
    assert calls == [TEXTS[13:15], TEXTS[15:16], TEXTS[16:18]]
    found = {n.text_id for n in index.neighbours("query", 24)[0]}
    assert {"15", "b.txt:1", "b.txt:3"} < found


def test_another_text_of_an_id_is_refused(words, tmp_path):
    write, _ = words
    build(tmp_path / "index", write("a.txt", 0, 13), "any")
    index = search.Index.open(str(tmp_path / "index"))
    before = tiny.listing(tmp_path / "index")
    path = tmp_path / "more.jsonl"
    rows = [{"_id": "x", "text": TEXTS[20]}, {"_id": 3, "text": TEXTS[21]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    message = "more.jsonl:2: " + f"{tmp_path}/index has another text with the id '3'; "
    refuse(message, index.add, str(path))
    rows[1]["_id"] = "x"
    path.write_text("\n".join(map(json.dumps, rows)))
    refuse("id 'x' is already that of line 1", index.add, str(path))
    rows[1] = {"_id": 3, "text": TEXTS[2]}
    path.write_text("\n".join(map(json.dumps, rows)))
    assert tiny.listing(tmp_path / "index") == before
    assert index.add(str(path)) == 14


def test_killed_addition_goes_on_with_the_same_bytes(
    words, tmp_path, monkeypatch, capsys
):
    write, calls = words
    first, more = write("a.txt", 0, 4), write("b.txt", 4, 20)
    for name in ("whole", "index"):
        build(tmp_path / name, first, "any", texts_per_shard=5)
    whole, path = tmp_path / "whole", tmp_path / "index"
    search.Index.open(str(whole)).add(more)
    expected = tiny.listing(whole)
    write_shard, dies_at = search_index._write_shard, [3]

    def dying(index_dir, number, *arguments):
        if number in dies_at:
            raise Killed
        write_shard(index_dir, number, *arguments)

    monkeypatch.setattr(search_index, "_write_shard", dying)
    with pytest.raises(Killed):
        search.Index.open(str(path)).add(more)
    assert "00002.shard.json" in tiny.listing(path)
    # Until then the index is as before, and the build's command changes nothing.
    index = search.Index.open(str(path))
    assert len(index) == 4 and len(index.neighbours("query", 24)[0]) == 4
    build(path, first, "any", texts_per_shard=5)
    half = shutil.copytree(path, tmp_path / "half")
    dies_at.clear()
    calls.clear()
    assert search.Index.open(str(path)).add(more) == 20
    assert calls == [TEXTS[14:19], TEXTS[19:20]] and tiny.listing(path) == expected
    # Another file in its place: nothing of the first one stays.
    assert "drops" not in capsys.readouterr().out
    assert search.Index.open(str(half)).add(write("c.txt", 20, 22)) == 6
    line = f"{half}: drops the unfinished shards of {more}\n"
    assert capsys.readouterr().out.count(line) == 1
    assert "00002.shard.json" not in tiny.listing(half)
    rows = search.Index.open(str(half)).neighbours("query", 24)[0]
    assert {n.text for n in rows} == {*TEXTS[:4], *TEXTS[20:22]}
    assert search.Index.open(str(half)).add(write("d.txt", 22, 24)) == 8
    assert "drops" not in capsys.readouterr().out


def test_damaged_addition_names_its_remedy(words, tmp_path):
    write, _ = words
    path = tmp_path / "index"
    build(path, write("a.txt", 0, 4), "any")
    search.Index.open(str(path)).add(write("b.txt", 4, 6))
    (path / "00001.vectors.npy").write_bytes(b"")
    message = "but 0; build the index again without 00001.shard.json, which an addition"
    refuse(message, search.Index.open, str(path))
    plan = json.loads((path / "index.json").read_text())
    for value in (5, [5], [{}], [{"file": "a", "num_texts": -1, "digest": ""}]):
        (path / "index.json").write_text(json.dumps(plan | {"added": value}))
        refuse("index.json: added", search.Index.open, str(path))
    for value in (5, [], {}, {"tokens": 4, "stride": 0, "num_passages": 4}):
        (path / "index.json").write_text(json.dumps(plan | {"passages": value}))
        refuse("index.json: passages", search.Index.open, str(path))


def test_passages_are_added(tmp_path):
    model_dir = tiny.write_model(tmp_path / "uncased_tiny")
    source = search_encoders.Source(str(model_dir))
    size, files = search_passages.Size(6, 4), []
    for number, part in enumerate((TEXTS[:8], TEXTS[8:16], TEXTS)):
        files.append(tmp_path / f"{number}.jsonl")
        rows = [{"_id": t, "text": f"{t} {t}"} for t in part]
        files[-1].write_text("\n".join(map(json.dumps, rows)))
    for name, file in (("index", files[0]), ("whole", files[2])):
        search_index.build(str(tmp_path / name), str(file), source, passages=size)
    index = search.Index.open(str(tmp_path / "index"))
    index.add(str(files[1]))
    index.add(str(files[2]))
    whole = search.Index.open(str(tmp_path / "whole"))
    rows = [
        {(n.text_id, n.start, n.text, n.line) for n in one.neighbours("a", 999)[0]}
        for one in (index, whole)
    ]
    assert len(index) == len(whole) > 24
    assert {row[:3] for row in rows[0]} == {row[:3] for row in rows[1]}


def test_graph_is_extended(words, tmp_path):
    pytest.importorskip("faiss")
    write, _ = words
    path = tmp_path / "index"
    build(path, write("a.txt", 0, 13), "any")
    search_graph.build(search_index.Shards(str(path)))
    index = search.Index.open(str(path))
    index.add(write("b.txt", 13, 24))
    with pytest.raises(errors.InputError, match="has 13 vectors, and the index 24; "):
        index.query("query", approximate=True)
    search_graph.build(search_index.Shards(str(path)))
    rows = [
        search.Index.open(str(path)).query("query", 24, approximate=value)
        for value in (False, True)
    ]
    assert rows[0] == rows[1] and len(rows[0][0]) == 24


def test_command_adds_with_the_model_of_the_index(words, tmp_path):
    write, _ = words
    index = f"--index_dir={tmp_path / 'index'}"
    flags = index, f"--input_file={write('a.txt', 0, 4)}", "--pretrained=any"
    assert search_runs.run(*flags).code == 0
    more = f"--input_file={write('b.txt', 4, 6)}"
    done = search_runs.run(index, "--add", more, "--top_k=1", TEXTS[5])
    line = f"  1.0000  b.txt:2  {TEXTS[5]}"
    assert ", 6 texts of 16 numbers in " in done.out and line in done.out, done.err
    done = search_runs.run(*flags[:2], "--add", "--top_k=1", TEXTS[2])
    assert f"index has all texts of {tmp_path}/a.txt\n" in done.out
    other = search_runs.run(index, more, "--pretrained=any")
    assert other.code == 2 and "remove this one, or --add texts to it" in other.err
    new = search_runs.run(f"--index_dir={tmp_path / 'no'}", "--add", more)
    assert new.code == 2 and "there is no whole index; build it by" in new.err


def test_two_additions_at_once_lose_no_text(words, tmp_path, monkeypatch):
    """The second was opened before the first had ended; in between it is refused."""
    write, _ = words
    path = tmp_path / "index"
    build(path, write("a.txt", 0, 13), "any")
    first, second = (search.Index.open(str(path)) for _ in range(2))
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.0)
    write_shard = search_index._write_shard

    def collide(*arguments):
        monkeypatch.setattr(search_index, "_write_shard", write_shard)
        for attempt in (
            lambda: second.add(write("c.txt", 20, 24)),
            lambda: build(path, write("a.txt", 0, 13), "any"),
        ):
            with refused(f"--index_dir={path}: ", "writes it; wait for it, or name "):
                attempt()
        write_shard(*arguments)

    monkeypatch.setattr(search_index, "_write_shard", collide)
    assert first.add(write("b.txt", 13, 20)) == 20
    assert second.add(write("c.txt", 20, 24)) == 24
    found = search.Index.open(str(path)).neighbours("query", 24)[0]
    assert {n.text for n in found} == {*TEXTS}


def test_full_disk_under_an_index_is_one_line(words, tmp_path):
    write, _ = words
    with (
        full_disk.full_disk(after=1500),
        pytest.raises(
            OSError, match="make room there, or name another place"
        ) as caught,
    ):
        build(tmp_path / "index", write("a.txt", 0, 24), "any", texts_per_shard=24)
    place = tmp_path / "index" / "00000.vectors.npy"
    assert re.match(rf"{place}: cannot be written \([^\n]*$", str(caught.value))
    assert [*tiny.listing(tmp_path / "index")] == ["building.json"]
    build(tmp_path / "index", write("a.txt", 0, 24), "any", texts_per_shard=24)
    pytest.importorskip("faiss")
    place = tmp_path / "index" / "graph.faiss"
    with (
        full_disk.full_disk(after=1500),
        pytest.raises(
            OSError, match=rf"^{place}: cannot be written .* make room there"
        ),
    ):
        search_graph.build(search_index.Shards(str(tmp_path / "index")))
    assert not place.exists()
