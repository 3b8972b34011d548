"""docs/design.md: the folders as they are, what to read first, and a task that runs."""

import ast
import json
import pathlib
import re
import sys

import pytest
import tensorflow as tf

from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
DESIGN = (ROOT / "docs" / "design.md").read_text("utf-8")
READING_LINES = 3100
PACKAGES = ("data_pipeline", "modeling", "reports", "serving", "training")
LEAVES = ("contract", "terminal")
SCRIPT_LINES = 105  # without empty ones


def test_folders_are_described_by_their_first_lines():
    listed = dict(re.findall(r"^\| `([\w/]+)/` \| (.*) \|$", DESIGN, re.M))
    found = {}
    for package in (*LEAVES, *PACKAGES):
        for path in (ROOT / package).rglob("__init__.py"):
            first = ast.get_docstring(ast.parse(path.read_text("utf-8")))
            name = path.parent.relative_to(ROOT).as_posix()
            found[name] = first.splitlines()[0]
    assert listed == found


def test_one_run_can_be_read_in_an_afternoon():
    section = DESIGN.split("### One run, to read")[1].split("###")[0]
    paths = re.findall(r"^\d+\. `([\w/]+\.py)`$", section, re.M)
    assert {"run_classifier.py", "training/fine_tuning.py"} <= set(paths)
    lines = sum(len((ROOT / p).read_text("utf-8").splitlines()) for p in paths)
    assert lines <= READING_LINES


@pytest.mark.slow
def test_new_task_is_a_short_script_that_runs(tmp_path, monkeypatch):
    """It learns, predicts and exports, as the others do."""
    section = DESIGN.split("### A new task")[1]
    source = re.search(r"^```python\n(.*?)^```", section, re.M | re.S)[1]
    assert len([line for line in source.splitlines() if line]) <= SCRIPT_LINES
    (tmp_path / "run_ratings.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "run_ratings", raising=False)
    ratings = {"bad": "0 2", "fine": "1 1", "good": "2 0"}
    table = [(text, ratings[label]) for text, label in tiny.rows(48)]
    rows = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), table)
    model = tiny.write_model(tmp_path / "model", num_hidden_layers=1)
    done = tiny.run_script(
        "run_ratings",
        *(f"--pretrained={model}", f"--output_dir={tmp_path / 'out'}"),
        *(f"--{split}_file={rows}" for split in ("train", "dev", "test")),
        *("--do_train", "--do_eval", "--do_predict", "--do_export"),
        *("--max_seq_length=16", "--train_batch_size=8", "--learning_rate=1e-3"),
        "--num_train_epochs=15",
    )
    assert done.code == 0, done.err
    assert tiny.eval_results(tmp_path / "out")["eval_pearson"] > 0.8
    predicted = (tmp_path / "out/test_predictions.jsonl").read_text().splitlines()
    assert len(predicted) == 48 and len(json.loads(predicted[0])) == 2
    export = tmp_path / "out" / "export" / "1"
    served = tf.saved_model.load(str(export)).signatures["serving_default"]
    answers = served(text=tf.constant([table[0][0]]))["probabilities"].numpy()
    assert abs(answers[0] - json.loads(predicted[0])).max() < 1e-4
