"""The comparison with a peer: turns, figures, flags and the report."""

import dataclasses
import json
import sys

import pytest

from benchmarks import compare, report, rows, sides
from tests import refusals, tiny


def test_side_that_fails_says_why(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "side.py").write_text(
        "import sys\n"
        "if sys.argv[1] == '{}': raise SystemExit('no compiler')\n"
        "print('log'); print(sys.argv[1].strip('\"'))"
    )
    monkeypatch.setattr(compare, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)  # which python -m searches first
    with pytest.raises(compare.SideFailed, match="exit code 1\nno compiler"):
        compare.run_module(sys.executable, "side", {})
    assert compare.run_module(sys.executable, "side", {"a": 1}) == {"a": 1}
    for printed in ("", "no figures"):
        with pytest.raises(compare.SideFailed, match=r"side: prints no figures$"):
            compare.run_module(sys.executable, "side", printed)
    with pytest.raises(compare.SideFailed, match=r"side: Permission denied$"):
        compare.run_module(str(tmp_path / "benchmarks" / "side.py"), "side", {})


def test_figures_of_other_rows_are_not_lost(tmp_path, monkeypatch):
    def settings(names):
        flags = f"--rows={names}", f"--output_dir={tmp_path}", "--name=x"
        return tiny.settings_of("benchmarks.compare", *flags)

    monkeypatch.setattr(compare, "name_commit", lambda: "abc")
    measured = {"title": "t", "unit": "s", "examples": 1, "runs": {}, "skipped": {}}
    monkeypatch.setattr(compare, "measure", lambda *_: dict(measured))
    path = tmp_path / "cpu" / "x.json"
    compare.measure_all(settings("start,classifier"))
    compare.measure_all(settings("start"))
    assert [*read(path)["rows"]] == ["start", "classifier"]
    path.write_text(json.dumps({**read(path), "rows": {"pairs": measured}}))
    compare.measure_all(settings("pairs,start"))  # without --near_file
    assert read(path)["rows"] == {"pairs": measured, "start": measured}
    path.write_text(json.dumps({**read(path), "commit": "an older one"}))
    with pytest.raises(ValueError, match=r"has pairs, timed with .*\(an older one\)"):
        compare.measure_all(settings("start"))
    compare.measure_all(settings("pairs,start"))  # replaces all of it
    assert read(path)["rows"]["pairs"] == {"why": "--near_file is not set"}
    # Rows that other flags have made, or files that have changed, are others.
    with monkeypatch.context() as changed, pytest.raises(ValueError, match="has pairs"):
        changed.setattr(sys, "argv", ["compare", "--steps=3", "--rows=start"])
        compare.measure_all(settings("start"))
    monkeypatch.setattr(compare, "name_commit", lambda: "abc-dirty")
    compare.measure_all(settings("pairs,start"))
    with pytest.raises(ValueError, match=r"has pairs, timed with .*\(abc-dirty\)"):
        compare.measure_all(settings("start"))
    path.write_text("{")
    with pytest.raises(ValueError, match=r"x\.json: "):
        compare.measure_all(settings("start"))


def read(path):
    return json.loads(path.read_text())


def job_of(action):
    return dataclasses.asdict(sides.Job(action, "classifier", 3, "", "", 3, 7))


def test_fastest_of_a_family_takes_all_turns(monkeypatch):
    arguments = "--peer_python=their_python --rounds=2 --near_file=t.tsv"
    given = tiny.settings_of("benchmarks.compare", *arguments.split())
    calls = []

    def run(python, module, settings):
        calls.append((python, module, settings.get("variant")))
        if module == "preparation":
            assert settings["path"] == "t.tsv"
            # Beside them lie the "classifier" and "text_encoder" that rows share.
            assert settings["directory"] == "directory/rows/pairs"
            return {"job": job_of("train"), "examples": 224}
        assert settings["begun"] > 0 and settings["checked"] == ""
        return {"seconds": 8.0 if "sdpa" in settings["variant"] else 4.0}

    monkeypatch.setattr(compare, "run_module", run)
    row = rows.ROWS["pairs"]
    measured = compare.measure(given, "pairs", row, "directory", {})
    ours_, theirs = sys.executable, "their_python"
    assert calls == [
        (ours_, "preparation", None),
        (ours_, "ours", ""),
        (theirs, "peer", "sdpa"),
        (theirs, "peer", "eager"),
        (theirs, "peer", "sdpa_compiled"),
        (ours_, "ours", ""),
        (theirs, "peer", "eager"),
    ]
    figures = {s: [t["figure"] for t in turns] for s, turns in measured["runs"].items()}
    assert figures == {
        "this project, Python": [56.0, 56.0],
        "transformers, sdpa": [28.0],
        "transformers, eager": [56.0, 56.0],
        "transformers, sdpa, compiled": [28.0],
    }
    assert measured["title"] == "vectors of pairs, batches of 32"


@pytest.mark.parametrize("slowest", [1.9, 2.1])
def test_row_of_unsteady_turns_is_timed_once_more(slowest, monkeypatch):
    seconds = iter([1.0, slowest, 3.0, 9.0])

    def run(python, module, settings):
        if module == "preparation":
            return {"job": job_of("train"), "examples": 224}
        return {"seconds": next(seconds)}

    monkeypatch.setattr(compare, "run_module", run)
    monkeypatch.setattr(rows, "sides_of", lambda row: [rows.Side("x")])
    given = tiny.settings_of("benchmarks.compare", "--rounds=2")
    row = rows.ROWS["start"]._replace(unit="")
    measured = compare.measure(given, "start", row, "directory", {})

    def taken(name):
        return [turn["seconds"] for turn in measured.get(name, {"x": []})["x"]]

    first = [1.0, slowest]
    twice = slowest > 2
    assert (taken("runs"), taken("before")) == (
        ([3.0, 9.0], first) if twice else (first, [])
    )


def test_sides_run_the_same_weights_and_are_scored_once(monkeypatch):
    words = "--peer_python=p", "--backends_python=q", "--rounds=2"
    given = tiny.settings_of("benchmarks.compare", *words)
    missing = "File /a/b/c.py\nModuleNotFoundError: No module named 'x' (/a/b/x.py)"
    exports = {side.title: (side.title, "") for side in rows.EXPORTS}
    exports["this project, ONNX, static int8"] = "", "is not known"
    shared = {"weights": "w", "checked": "c", "right": [1, 2, 0, 1], "exports": exports}
    turns, num_checked = [], [0]

    def run(python, module, settings):
        if module == "preparation":
            head = settings["row"]["head"]
            return {"job": {**job_of("answer"), "head": head}, "examples": 7}
        if settings["variant"].startswith("openvino"):
            raise compare.SideFailed(missing)
        turns.append((python, module, settings["variant"], settings["export"]))
        assert settings["pretrained"] == "w" and settings["cache"] == "directory"
        figures = {"seconds": 1.0, "p50_ms": 5.0}
        num_checked[0] += settings["checked"] != "" and settings["head"] == "classifier"
        return figures | ({"answers": [1, 2, 2, 1]} if settings["checked"] else {})

    monkeypatch.setattr(compare, "run_module", run)
    head = {"classifier": shared, "text_encoder": {**shared, "right": [4, 1, 2, 3]}}
    row = rows.ROWS["sentence"]
    measured = compare.measure(given, "sentence", row, "directory", head)
    assert measured["skipped"] == {
        "this project, ONNX, static int8": "is not known",
        **dict.fromkeys(
            (
                "OpenVINO",
                "OpenVINO, bfloat16",
                "OpenVINO, static int8",
                "OpenVINO, static int8, bfloat16",
            ),
            "ModuleNotFoundError: No module named 'x' (x.py)",
        ),
    }
    runs = measured["runs"]
    assert [turn["score"] for turn in runs["ONNX Runtime, int8"]] == [0.75] * 2
    assert {len(each) for each in runs.values()} == {1, 2}
    assert ("p", "peer_runtimes", "onnxruntime_fused", "") in turns
    assert (sys.executable, "ours", "", "this project, ONNX, int8") in turns
    again = compare.measure(given, "batch", rows.ROWS["batch"], "directory", head)
    assert again["runs"]["ONNX Runtime, int8"][0]["score"] == 0.75
    assert num_checked == [len(runs)]  # once for all rows
    measured = compare.measure(given, "v", rows.ROWS["vectors"], "directory", head)
    score = measured["runs"]["fastembed"][0][
        "score"
    ]  # ranks 1.5, 3.5 beside 4, 1, 2, 3
    assert score == pytest.approx(-0.8944, abs=1e-4)
    assert ("q", "peer", "sentence_onnx", "") in turns
    assert ("p", "peer", "sentence_torch", "") in turns


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("--rows=pairs", ""),
        ("--near_file=none.tsv", "--near_file=none.tsv: no such file; check the path"),
        ("--rows=classifier --near_file=none.tsv", ""),  # nothing reads it
        ("--peer_python=none", "--peer_python=none: no such file; check the path"),
        ("--dev_file=none.tsv", "--dev_file=none.tsv: no such file; check the path"),
        ("--rows=none", "--rows=none"),
        ("--name=a/b", "--name=a/b has a /; leave it out"),
        ("--rounds=0", "flag --rounds=0: 0 is not"),
    ],
)
def test_wrong_flag_is_named_at_once(argument, line, tmp_path):
    # models/minilm is not set up everywhere.
    words = f"--pretrained={tmp_path}", *argument.split()
    actual = refusals.line_of("benchmarks.compare", *words)
    assert actual.startswith(line) and bool(actual) == bool(line)


def test_side_that_fails_ends_the_comparison(monkeypatch, tmp_path):
    def run(python, module, settings):
        raise compare.SideFailed("exit code 1")

    monkeypatch.setattr(compare, "run_module", run)
    words = f"--pretrained={tmp_path}", "--rows=classifier"
    output = f"--output_dir={tmp_path}/out"
    done = tiny.run_program("benchmarks.compare", *words, output)
    assert done.code == "exit code 1" and done.out == ""


def test_rows_of_one_commit_stay_until_they_are_timed_again(monkeypatch, tmp_path):
    seconds = iter((1.0, 2.0, 4.0, 5.0))

    def run(python, module, settings):
        if module == "preparation":
            return {"job": job_of("train"), "examples": 8}
        versions = {"versions": {}, "environment": {}, "peak_gflops": 1.0}
        return {"seconds": next(seconds), "start_s": 1.0, **versions}

    monkeypatch.setattr(compare, "run_module", run)
    monkeypatch.setattr(compare, "name_commit", lambda: "abc")
    file = tmp_path / "cpu" / "minilm.json"
    for name in ("classifier", "start", "classifier"):
        words = f"--rows={name}", "--rounds=1", f"--output_dir={tmp_path}"
        given = tiny.settings_of("benchmarks.compare", *words)
        page = compare.measure_all(given)
        assert page == (tmp_path / "cpu.md").read_text("utf-8")
    measured = json.loads(file.read_text("utf-8"))
    figure = measured["rows"]["classifier"]["runs"][f"{rows.OURS}, Python"][0]["figure"]
    assert list(measured["rows"]) == ["classifier", "start"] and figure == 2.0
    del measured["rows"]["start"]
    file.write_text(json.dumps({**measured, "commit": "another"}), encoding="utf-8")
    compare.measure_all(given)
    measured = json.loads(file.read_text("utf-8"))["rows"]["classifier"]
    assert measured["runs"][f"{rows.OURS}, Python"][0]["figure"] == 8 / 5


def turns_of(figures, peak, versions, **more):
    given = {"versions": versions, "environment": {}, "peak_memory_mb": 1500.0, **more}
    return [{**given, "figure": figure, "peak_gflops": peak} for figure in figures]


def test_page_has_every_side_the_fastest_first(tmp_path):
    theirs, openvino = {"PyTorch": "2.13"}, {"openvino": "2026.4"}
    runs = {
        "this project, ONNX": turns_of(
            (10.0, 30.0, 20.0), 156.0, {"TensorFlow": "2.21"}, score=0.875
        ),
        "transformers, eager": turns_of((10.0, 20.0, 5.0), 180.0, theirs),
        "transformers, sdpa": turns_of((26.0,), 190.0, theirs),
        "OpenVINO": turns_of((25.0, 20.0, 40.0), 170.0, openvino, p99_ms=7.25),
    }
    row = {"title": "texts", "unit": "texts/s", "examples": 7, "skipped": {"x": "why"}}
    alone = {**row, "title": "one sentence", "unit": "ms"}
    once = {**runs["this project, ONNX"][0], "p50_ms": 10.0, "p99_ms": 11.0}
    alone["runs"] = {"this project, ONNX": [once]}  # p50 is the figure, and no column
    machine = {"processor": "AMD EPYC", "cores": 2, "instruction_sets": ["avx2"]}
    results = {
        "date": "2026-11-30",
        "commit": "abc",
        "machine": {**machine, "memory_gb": 25.0},
        "load": 0.5,
        "flags": ["--rounds=3"],
        "rows": {"a": {**row, "runs": runs}, "b": alone, "pairs": {"why": "no file"}},
    }
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / "minilm.json").write_text(json.dumps(results), encoding="utf-8")
    page = report.page(folder)
    text = page.partition("## minilm\n")[2]
    assert "AMD EPYC, 2 cores, avx2, 25.0 GB ([all turns](cpu/minilm.json))" in text
    assert "* PyTorch 2.13: matrix product 190 GFLOP/s" in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert tables == [
        "| side | texts/s (least, most) | to the fastest peer | p99, ms | memory, MB | "
        "score |",
        "| --- | --- | --- | --- | --- | --- |",
        "| transformers, sdpa | 26.0 (26.0, 26.0) | 1.04 |  | 1,500 |  |",  # one turn
        "| OpenVINO | 25.0 (20.0, 40.0) | 1.00 | 7.2 | 1,500 |  |",
        "| **this project, ONNX** | 20.0 (10.0, 30.0) | 0.50 |  | 1,500 | 0.875 |",
        "| transformers, eager | 10.0 (5.0, 20.0) | 0.40 |  | 1,500 |  |",
        "| side | ms (least, most) | to the fastest peer | p99, ms | memory, MB | "
        "score |",
        "| --- | --- | --- | --- | --- | --- |",
        "| **this project, ONNX** | 10.0 (10.0, 10.0) |  | 11.0 | 1,500 | 0.875 |",
    ]
    assert "benchmarks.compare --rounds=3 --rows=a,b,pairs\n" in text
    assert "* x: why" in text and "* pairs: no file" in text
    assert "Other programs" not in text
    results["load"] = 3.0
    (folder / "minilm.json").write_text(json.dumps(results), encoding="utf-8")
    assert "**Other programs ran meanwhile** (the load was 3.0" in report.page(folder)


def test_published_page_is_that_of_its_figures():
    page = compare.ROOT / "docs" / "cpu.md"
    assert page.read_text("utf-8") == report.page(page.with_suffix(""))
