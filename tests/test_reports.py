"""What runs leave to look at, from end to end."""

import json

import numpy as np
import pytest

from reports import compare
from reports.pages import record
from tests import tiny, whole_runs

BRIEF = (
    "--learning_rate=1e-3",
    "--num_train_epochs=2",
    "--train_batch_size=8",
    "--log_steps=4",
)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    directory = tmp_path_factory.mktemp("reports")
    tiny.write_model(directory / "model", num_hidden_layers=1)
    tiny.write_tables(directory)
    return directory


def run(places, name, *arguments, draws=True):
    done = tiny.run_script(
        "run_classifier",
        *(f"--{split}_file={places}/{split}.tsv" for split in ("train", "dev", "test")),
        *(f"--pretrained={places}/model", f"--output_dir={places / name}"),
        *("--max_seq_length=16", "--do_train", "--do_eval", "--do_predict", *BRIEF),
        *arguments,
        draws=draws,
    )
    assert done.code == 0, done.err
    return done


@pytest.fixture(scope="module")
def runs(places):
    return run(places, "runs", "--seeds=1,2", "--explain=5", "--do_export")


def test_each_run_has_a_report_and_all_have_one(places, runs):
    for seed in (1, 2):
        directory = places / "runs" / f"seed-{seed}"
        found = record.read(str(directory))
        results = tiny.eval_results(directory)
        accuracy = found["evaluation"]["scores"]["accuracy"]
        assert accuracy["value"] == pytest.approx(results["eval_accuracy"])
        assert accuracy["interval"][0] <= accuracy["value"] <= accuracy["interval"][1]
        assert found["step"] == results["global_step"] == 12
        assert found["data"]["train"]["labels"] == {"bad": 16, "fine": 16, "good": 16}
        assert found["data"]["test"]["count"] == 10
        assert "num_train_epochs" in found["changed_flags"]
        assert "num_train_steps" not in found["flags"]
        page = (directory / "report.html").read_text("utf-8")
        assert "export" in page and "train/loss" in page
        assert (directory / "README.md").read_text().startswith("---\nlibrary_name")
    overview = (places / "runs" / "report.html").read_text()
    assert "2 runs" in overview and 'href="seed-2/report.html"' in overview
    assert f"report: {places / 'runs' / 'report.html'}, of 2 runs" in runs.out


def test_runs_are_compared_row_by_row(places, runs):
    directories = [str(places / "runs" / f"seed-{seed}") for seed in (1, 2)]
    records = [record.read(directory) for directory in directories]
    found = compare.compare(*records, tuple(directories))
    assert found.shared == 18 == sum(found.counts)
    right = [sum(each["evaluation"]["is_correct"]) for each in records]
    assert right == [found.counts[0] + found.counts[i] for i in (1, 2)]
    assert found.flags == {"seed": (1, 2)}


def test_predictions_of_labelled_rows_say_whether_they_are_right(places, runs):
    for row in tiny.predictions(places / "runs" / "seed-1"):
        assert row["correct"] == (row["label"] == row["given"])


def test_worst_errors_are_explained_first(places, runs):
    directory = places / "runs" / "seed-1"
    lines = (directory / "explanations.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    found = record.read(str(directory))
    assert found["explanations"] == rows and len(rows) == 5
    errors = found["evaluation"]["errors"][:5]
    for row, error in zip(rows, errors, strict=False):
        assert " ".join(word for word, _ in row["words"]) == error["texts"][0]
        assert (row["expected"], row["predicted"]) == (
            error["expected"],
            error["predicted"],
        )
    assert max(abs(weight) for row in rows for _, weight in row["words"]) > 1e-3


def test_report_changes_no_other_file(places, runs):
    without = run(places, "without", "--seed=1", draws=False)
    assert "report:" not in without.out
    for name in ("eval_results.txt", "test_results.tsv", "test_predictions.jsonl"):
        with_report = (places / "runs" / "seed-1" / name).read_bytes()
        assert (places / "without" / name).read_bytes() == with_report, name
    assert not (places / "without" / "report.json").exists()


def test_explanations_need_predictions(places):
    flags = (f"--pretrained={places}/model", f"--output_dir={places}/none")
    done = tiny.run_classifier(*flags, "--do_export", "--explain=2", "--labels=a,b")
    assert done.code == 2
    assert "--explain explains predictions; add --do_eval or --do_predict" in done.err


@pytest.mark.slow
def test_rows_without_labels_are_explained_in_half_precision_too(places, runs):
    (places / "unlabelled.tsv").write_text("text\nthe film was great\na sea\n")
    weights = []
    for name, more in (("whole", ()), ("half", ("--mixed_precision=bfloat16",))):
        done = run(
            *(places, name, f"--pretrained={places}/runs/seed-1", "--nodo_train"),
            *("--nodo_eval", f"--test_file={places}/unlabelled.tsv", "--explain=2"),
            *more,
        )
        assert done.code == 0
        lines = (places / name / "explanations.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [len(row["words"]) for row in rows] == [4, 2]
        assert not (places / name / "report.json").exists()  # nothing was scored
        weights.append([w for row in rows for _, w in row["words"]])
    largest = np.abs(weights[0]).max()
    # bfloat16 has 8 bits
    np.testing.assert_allclose(weights[1], weights[0], atol=0.1 * largest)
    assert weights[1] != weights[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tagging", "questions", "pretraining"])
def test_every_script_leaves_a_report(name, tmp_path):
    whole_runs.write(tmp_path / "data")
    flags = whole_runs.arguments(name, tmp_path / "data", steps=8)
    flags = [flag for flag in flags if flag != "--nowrite_report"]
    output = tmp_path / "out"
    done = tiny.run_script(
        *(whole_runs.SCRIPTS[name], *flags, f"--output_dir={output}"),
        *("--log_steps=2", "--write_report"),
        draws=True,
    )
    assert done.code == 0, done.err
    found = record.read(str(output))
    assert found["step"] == 8 and len(found["curves"]["train/loss"]) == 4
    assert found["data"]["train"]["count"] > 0
    if name == "pretraining":
        assert found["evaluation"] is None and "masked_lm_loss" in found["results"]
    else:
        score = found["evaluation"]["scores"]["f1"]
        assert score["interval"][0] <= score["value"] <= score["interval"][1]
    assert "train/loss" in (output / "report.html").read_text("utf-8")
    assert (output / "README.md").read_text("utf-8").startswith("---\n")
