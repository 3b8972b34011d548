"""docs/design.md: the folders as they are, what to read first, and a task that runs."""

import ast
import json
import pathlib
import re
import sys

import tensorflow as tf

from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
DESIGN = (ROOT / "docs" / "design.md").read_text("utf-8")
READING_LINES = 3000
SCRIPT_LINES = 105  # without empty ones


def test_folders_are_described_by_their_first_lines():
    listed = dict(re.findall(r"^\| `([\w/]+)/` \| (.*) \|$", DESIGN, re.M))
    found = {}
    for package in ("contract", "data_pipeline", "modeling", "serving", "training"):
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


def test_new_task_is_a_short_script_that_runs(tmp_path, monkeypatch):
    """It learns, resumes, predicts and exports, as the others do."""
    section = DESIGN.split("### A new task")[1]
    source = re.search(r"^```python\n(.*?)^```", section, re.M | re.S)[1]
    assert len([line for line in source.splitlines() if line]) <= SCRIPT_LINES
    (tmp_path / "run_ratings.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "run_ratings", raising=False)
    signs = [("awful", 0), ("okay", 1), ("great", 2)]
    table = [
        (f"the {word} film and {place}", f"{rating} {int(place == 'sea')}")
        for word, rating in signs
        for place in ("sea", "a shop")
    ]
    rows = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), table * 4)
    model = tiny.write_model(tmp_path / "model")

    def run(epochs, *actions):
        done = tiny.run_script(
            "run_ratings",
            *(f"--pretrained={model}", f"--output_dir={tmp_path / 'out'}"),
            *(f"--{split}_file={rows}" for split in ("train", "dev", "test")),
            *("--do_train", *actions),
            *("--max_seq_length=16", "--train_batch_size=8", "--learning_rate=1e-3"),
            f"--num_train_epochs={epochs}",
        )
        assert done.code == 0, done.err
        return done

    run(1)
    done = run(40, "--do_eval", "--do_predict", "--do_export")
    assert "model.ckpt-3 with its moments (resumed)" in done.out
    assert tiny.eval_results(tmp_path / "out")["eval_pearson"] > 0.9
    predicted = (tmp_path / "out/test_predictions.jsonl").read_text().splitlines()
    assert len(predicted) == 24 and len(json.loads(predicted[0])) == 2
    (export,) = (tmp_path / "out" / "export").iterdir()
    served = tf.saved_model.load(str(export)).signatures["serving_default"]
    answers = served(text=tf.constant([table[0][0]]))["probabilities"].numpy()
    assert abs(answers[0] - json.loads(predicted[0])).max() < 1e-4
