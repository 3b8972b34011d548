"""The comparison with SetFit draws rows as it says, and takes no turn twice."""

import json
import pathlib
import random
import types

from benchmarks import few_labels
from tests import tiny

HEADER = ("text", "label")
ROWS = [[f"text {number}", "ab"[number % 2]] for number in range(20)]


def test_rows_of_each_label_are_drawn_by_seed():
    drawn = few_labels.draw(ROWS, 3, 801)
    rng = random.Random(801)
    wanted = rng.sample(ROWS[::2], 3) + rng.sample(ROWS[1::2], 3)
    rng.shuffle(wanted)
    assert drawn == wanted
    assert few_labels.draw(ROWS, 3, 802) != drawn


def test_turns_have_a_line_and_are_not_taken_again(tmp_path, monkeypatch, capsys):
    table = tiny.write_tsv(tmp_path / "rows.tsv", HEADER, ROWS)
    calls = []

    def run(command, **_):
        calls.append(command)
        if "benchmarks.few_labels_peer" in command:
            job = json.loads(command[-1])
            rows = json.loads(pathlib.Path(job["rows"]).read_text("utf-8"))
            assert rows["train"] == few_labels.draw(ROWS, 2, job["seed"])
            assert len(rows["test"]) == 9
            out = json.dumps({"accuracy": job["seed"] / 1000, "steps": 1})
            return types.SimpleNamespace(returncode=0, stdout=f"a line\n{out}\n")
        raise AssertionError(command)

    monkeypatch.setattr(few_labels.subprocess, "run", run)
    given = f"--train_file={table} --test_file={table} --num_labelled=2 --recipes="
    given += " --peer_python=python --max_test_rows=9 --draws=500,700"
    given += f" --output_file={tmp_path}/turns.jsonl"
    settings = tiny.settings_of("benchmarks.few_labels", *given.split())
    few_labels.measure(settings)
    assert "| 2 | SetFit | 2 | 0.600 +- 0.141 |" in capsys.readouterr().out
    few_labels.measure(settings)
    assert len(calls) == 2
    lines = (tmp_path / "turns.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"][2] for line in lines] == [500, 700]
