"""Tests of texts that are added to an index, replaced and removed.

Answers are those of one build of the texts that are there.
"""

import json
import shutil

import numpy as np
import pytest

from contract import errors, locks
from serving import search, search_encoders, search_graph, search_index, search_passages
from tests import full_disk, killed, search_runs, tiny
from tests.refusals import refused
from tests.serving.test_search import build, contents, refuse, table

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
    build(tmp_path / "whole", write("all.txt", 0, 24), "any")
    index_dir, options = tmp_path / "index", {"quantization": quantization}
    build(index_dir, write("a.txt", 0, 13), "any", **options)
    _, before = contents(index_dir)
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
    after = contents(index_dir)
    assert before.items() <= after[1].items()
    # The command of the build leaves them there.
    build(index_dir, write("a.txt", 0, 13), "any", **options)
    assert contents(index_dir) == after


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


def test_rows_without_an_id_have_the_name_of_their_file(words, tmp_path):
    """Lines of JSON as others; else they would replace the build's line of a number."""
    write, _ = words
    build(tmp_path / "index", write("a.txt", 0, 3), "any")
    index = search.Index.open(str(tmp_path / "index"))
    path = tmp_path / "more.jsonl"
    rows = [{"text": TEXTS[20]}, {"id": "doc-7", "text": TEXTS[21]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert index.add(str(path), replace=True) == 5
    found = {n.text_id: n.text for n in index.neighbours("query", 24)[0]}
    assert found["1"] == TEXTS[0]
    assert (found["more.jsonl:1"], found["doc-7"]) == (TEXTS[20], TEXTS[21])


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
    monkeypatch.setattr(search_index, "_ROWS_AT_ONCE", 5)
    first, more = write("a.txt", 0, 4), write("b.txt", 4, 20)
    whole, path = tmp_path / "whole", tmp_path / "index"
    for each in (whole, path):
        build(each, first, "any")
    search.Index.open(str(whole)).add(more)
    with killed.at_call(search_index, "_encode", number=2, after=True):
        search.Index.open(str(path)).add(more)
    # Until then the index is as before, and the build's command changes nothing.
    index = search.Index.open(str(path))
    assert len(index) == 4 and len(index.neighbours("query", 24)[0]) == 4
    before = contents(path)
    build(path, first, "any")
    assert contents(path) == before
    half = shutil.copytree(path, tmp_path / "half")
    calls.clear()
    assert search.Index.open(str(path)).add(more) == 20
    assert calls == [TEXTS[14:19], TEXTS[19:20]] and contents(path) == contents(whole)
    # Another file in its place: nothing of the first one stays.
    assert "drops" not in capsys.readouterr().out
    assert search.Index.open(str(half)).add(write("c.txt", 20, 22)) == 6
    line = f"{half}: drops the unfinished texts of {more}\n"
    assert capsys.readouterr().out.count(line) == 1
    rows = search.Index.open(str(half)).neighbours("query", 24)[0]
    assert {n.text for n in rows} == {*TEXTS[:4], *TEXTS[20:22]}
    assert search.Index.open(str(half)).add(write("d.txt", 22, 24)) == 8
    assert "drops" not in capsys.readouterr().out


@pytest.mark.parametrize("quantization", search_index.QUANTIZATIONS)
def test_removed_texts_are_found_no_more(words, tmp_path, quantization):
    write, calls = words
    whole, path = tmp_path / "whole", tmp_path / "index"
    build(path, write("a.txt", 0, 13), "any", quantization=quantization)
    index = search.Index.open(str(path))
    index.add(write("b.txt", 13, 24))
    ids, gone = ["1", "2", "9", "b.txt:1", "b.txt:11"], [0, 1, 8, 13, 23]
    refuse("index has no text with the id '40'; ", index.remove, [*ids, "40"])
    assert len(index) == len(search.Index.open(str(path))) == 24
    other = search.Index.open(str(path))  # that of a server, say
    assert index.remove(ids) == len(search.Index.open(str(path))) == 19
    left = [text for i, text in enumerate(TEXTS) if i not in gone]
    (tmp_path / "left.txt").write_text("\n".join(left))
    build(whole, tmp_path / "left.txt", "any", quantization=quantization)
    expected = search.Index.open(str(whole)).query([*TEXTS, "query"], 24)
    expected = [[(text, cosine) for _, text, cosine in row] for row in expected]
    for each in (index, other):
        rows = each.query([*TEXTS, "query"], 24)
        assert [[(text, cosine) for _, text, cosine in row] for row in rows] == expected
    raw = (path / "index.sqlite").read_bytes()
    assert b"b.txt:10" in raw and b"b.txt:11" not in raw
    refuse("has no text with the id '1'; ", index.remove, "1")
    calls.clear()
    build(path, write("a.txt", 0, 13), "any", quantization=quantization)
    assert index.add(write("b.txt", 13, 24)) == 21 and calls == [[TEXTS[13], TEXTS[23]]]
    index.remove([n.text_id for n in index.neighbours("query", 24)[0]])
    assert len(index) == 0 and index.query(["query"], 3) == [[]]
    assert index.add(write("b.txt", 13, 24)) == 11


def test_texts_are_replaced_by_their_ids(words, tmp_path, monkeypatch):
    (_, calls), path, file = words, tmp_path / "index", tmp_path / "rows.jsonl"

    def write(*texts):
        lines = [{"_id": f"x{i}", "text": TEXTS[text]} for i, text in enumerate(texts)]
        file.write_text("\n".join(map(json.dumps, lines)))
        return str(file)

    build(path, write(0, 1, 2), "any")
    index, calls[:] = search.Index.open(str(path)), []
    refuse("rows.jsonl:2: ", index.add, write(0, 5, 2, 3))
    with killed.at_call(search_index, "_write_array", after=True):
        index.add(str(file), replace=True)
    rows = search.Index.open(str(path)).query("query")[0]
    assert {row[:2] for row in rows} == {(f"x{i}", TEXTS[i]) for i in range(3)}
    assert index.add(str(file), replace=True) == 4
    assert calls == [[TEXTS[5], TEXTS[3]], ["query"], [TEXTS[5], TEXTS[3]]]
    texts = {f"x{i}": TEXTS[text] for i, text in enumerate((0, 5, 2, 3))}
    assert {n.text_id: n.text for n in index.neighbours("query", 9)[0]} == texts


@pytest.mark.slow
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
    search_graph.build(search_index.Store(str(path)))
    index = search.Index.open(str(path))
    index.add(write("b.txt", 13, 24))
    with pytest.raises(errors.InputError, match="has 13 vectors, and the index 24; "):
        index.query("query", approximate=True)
    search_graph.build(search_index.Store(str(path)))
    rows = [
        search.Index.open(str(path)).query("query", 24, approximate=value)
        for value in (False, True)
    ]
    assert rows[0] == rows[1] and len(rows[0][0]) == 24
    index.remove(["1", "b.txt:2"])
    rows = [index.query("query", 24, approximate=value) for value in (False, True)]
    assert rows[0] == rows[1] and len(rows[0][0]) == 22


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
    done = search_runs.run(
        index, "--remove=2", "--remove=b.txt:2", "--top_k=6", "query"
    )
    assert done.out.startswith("removed: 2, b.txt:2\nquery\n"), done.err
    assert done.out.count("\n") == 6
    no = search_runs.run(index, "--remove=2")
    assert no.code == 2 and "index has no text with the id '2'; give one" in no.err
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
    encode = search_index._encode

    def collide(*arguments):
        monkeypatch.setattr(search_index, "_encode", encode)
        for attempt in (
            lambda: second.add(write("c.txt", 20, 24)),
            lambda: second.remove("1"),
            lambda: build(path, write("a.txt", 0, 13), "any"),
        ):
            with refused(f"--index_dir={path}: ", "writes it; wait for it, or name "):
                attempt()
        return encode(*arguments)

    monkeypatch.setattr(search_index, "_encode", collide)
    assert first.add(write("b.txt", 13, 20)) == 20
    assert second.add(write("c.txt", 20, 24)) == 24
    found = search.Index.open(str(path)).neighbours("query", 24)[0]
    assert {n.text for n in found} == {*TEXTS}


def test_full_disk_under_an_index_is_one_line(table, tmp_path):
    table({"a": np.ones(1 << 16), "b": np.arange(1 << 16)})
    (tmp_path / "texts.txt").write_text("a\nb\n")
    index_dir = tmp_path / "index"
    for size, name in ((1 << 10, "index.sqlite"), (1 << 18, "00000.vectors.npy")):
        with (
            full_disk.full_disk(after=size),
            pytest.raises(OSError, match=r"name another place$") as caught,
        ):
            build(index_dir, tmp_path / "texts.txt", "any")
        text = f"{caught.value}"
        assert text.startswith(f"{index_dir}/{name}: cannot be written (")
        assert "\n" not in text
    build(index_dir, tmp_path / "texts.txt", "any")
    pytest.importorskip("faiss")
    place = index_dir / "graph.faiss"
    with (
        full_disk.full_disk(after=1500),
        pytest.raises(
            OSError, match=rf"^{place}: cannot be written .* make room there"
        ),
    ):
        search_graph.build(search_index.Store(str(index_dir)))
    assert not place.exists()
