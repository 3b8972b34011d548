"""What runs leave to look at, from end to end."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest

from reports.pages import record
from tests import printed_uses, tiny, whole_runs

BRIEF = (
    "--learning_rate=1e-3",
    "--num_train_epochs=2",
    "--train_batch_size=8",
    "--log_steps=4",
)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    directory = tmp_path_factory.mktemp("reports")
    tiny.write_model(directory / "model", num_hidden_layers=1, hidden_act="relu")
    tiny.write_tables(directory)
    return directory


def run(places, name, *arguments, draws=True):
    done = tiny.run_script(
        "run_classifier",
        *(f"--{split}_file={places}/{split}.tsv" for split in ("train", "dev", "test")),
        f"--pretrained={places}/model --output_dir={places / name}",
        *("--max_seq_length=16", "--do_train", "--do_eval", "--do_predict", *BRIEF),
        *arguments,
        draws=draws,
    )
    assert done.code == 0, done.err
    return done


@pytest.fixture(scope="module")
def runs(places):
    return run(places, "runs", "--seeds=1,2", "--explain=5", "--do_export")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("run_classifier", "--train_file={d}/rows.jsonl --dev_share=0.25"),
        ("run_embedding", "--train_file={d}/rows.jsonl --dev_file={d}/rows.jsonl"),
    ],
)
def test_warnings_of_the_rows_stand_in_the_report(places, script, files):
    """Of rows of an annotation tool, some of which are discarded, double or empty."""
    answers = ["accept", "accept", "accept", "reject"] * 16
    rows = [
        {"text": f"row {n // 2}", "label": ["ab"[n // 2 % 2]], "answer": answer}
        for n, answer in enumerate(answers)
    ]
    rows += [rows[0] | {"label": "b"}, rows[0] | {"text": ""}]
    path = places / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = places / f"warned_{script}"
    done = tiny.run_script(
        script,
        *files.format(d=places).split(),
        f"--pretrained={places}/model --output_dir={output}",
        *("--max_seq_length=16", "--do_train", "--do_eval", *BRIEF),
        draws=True,
    )
    assert done.code == 0, done.err
    assert (
        "left out 16 rows that a tool of annotation discards (answer=reject 16)"
        in done.out
    )
    assert "left out 1 row without text, line 66" in done.out
    findings = record.read(str(output))["findings"]
    assert findings[0].endswith("1 text with two labels: lines 1 ('a') and 65 ('b')")
    # The script's own part of the rows has no text of the others.
    assert len(findings) == (1 if script == "run_classifier" else 2)
    for finding in findings:
        assert f"warning: {finding}" in done.out
        page = (output / "report.html").read_text("utf-8")
        assert finding.replace("'", "&#39;") in page


@pytest.mark.slow
def test_each_run_has_a_report_and_all_have_one(places, runs):
    for seed in (1, 2):
        directory = places / "runs" / f"seed-{seed}"
        actual = record.read(str(directory))
        results = tiny.eval_results(directory)
        accuracy = actual["evaluation"]["scores"]["accuracy"]
        assert accuracy["value"] == pytest.approx(results["eval_accuracy"])
        assert accuracy["interval"][0] <= accuracy["value"] <= accuracy["interval"][1]
        assert actual["step"] == results["global_step"] == 12
        assert actual["data"]["train"]["labels"] == {"bad": 16, "fine": 16, "good": 16}
        assert actual["data"]["test"]["count"] == 10
        macro = actual["evaluation"]["class_averages"]["macro"]["f1"]
        assert macro == pytest.approx(results["eval_f1_macro"])
        averages = re.findall(r"^  macro average .* ([0-9.]+)$", runs.out, re.M)
        assert len(averages) == 4  # of dev and test rows
        assert averages[2 * seed - 2] == f"{macro:.4f}"
        tested = actual["test_evaluation"]
        assert tested["rows"] == 10 and tested["scores"]["accuracy"]["interval"]
        assert tested["class_averages"]["macro"]["f1"] == pytest.approx(
            actual["results"]["test_f1_macro"]
        )
        assert f"{actual['results']['test_f1_macro']:.4f}" == averages[2 * seed - 1]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", actual["date"])
        assert "num_train_epochs" in actual["changed_flags"]
        assert "num_train_steps" not in actual["flags"]
        page = (directory / "report.html").read_text("utf-8")
        assert "export" in page and "train/loss" in page
        assert (directory / "README.md").read_text().startswith("---\nlibrary_name")
    overview = (places / "runs" / "report.html").read_text()
    assert "2 runs" in overview and 'href="seed-2/report.html"' in overview
    assert f"report: {places / 'runs' / 'report.html'}, of 2 runs" in runs.out


@pytest.mark.slow
def test_worst_errors_are_explained_first(places, runs):
    directory = places / "runs" / "seed-1"
    lines = (directory / "explanations.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    actual = record.read(str(directory))
    assert actual["explanations"] == rows and len(rows) == 5
    errors = actual["evaluation"]["errors"][:5]
    for row, error in zip(rows, errors, strict=False):
        assert " ".join(word for word, _ in row["words"]) == error["texts"][0]
        assert (row["expected"], row["predicted"]) == (
            error["expected"],
            error["predicted"],
        )
    assert max(abs(weight) for row in rows for _, weight in row["words"]) > 1e-3


@pytest.fixture
def typed(places, runs, tmp_path, monkeypatch):
    """{title: code} of a card, where all of it is right as printed."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "to").symlink_to(places / "runs")
    monkeypatch.chdir(tmp_path)
    return printed_uses.of_card(pathlib.Path("path/to/seed-1"))


def loaded(code):
    names: dict = {}
    exec(code, names)
    return names


@pytest.mark.slow
def test_card_and_page_print_what_loads_asks_and_serves_the_run(typed):
    assert typed == printed_uses.of_page(pathlib.Path("path/to/seed-1"))
    (answered,) = loaded(typed["Load it in Python"])["answers"]
    shares = answered["probabilities"]
    assert list(shares) == list(tiny.LABELS)
    text, answer = printed_uses.ask(typed["Ask the export"]).splitlines()
    assert text == "A text."
    actual = dict(pair.split() for pair in answer.split(","))
    actual = {name: float(value) for name, value in actual.items()}
    assert actual == pytest.approx(shares, abs=6e-4)  # three digits are printed
    *docker, server = printed_uses.words(typed["Serve it with TensorFlow Serving"])
    assert server == "tensorflow/serving:2.20.0"
    supplied = dict(zip(docker[2::2], docker[3::2], strict=True))
    source, mounted = supplied["-v"].split(":")
    assert supplied == {
        "-p": "8501:8501",
        "-e": f"MODEL_NAME={mounted.removeprefix('/models/')}",
        "-v": supplied["-v"],
    }
    assert (pathlib.Path(source) / "1" / "saved_model.pb").is_file()


@pytest.mark.slow
def test_card_prints_what_predicts_and_converts(places, typed):
    shutil.copy(places / "test.tsv", "rows.tsv")
    for title in ("Predict rows of a file", "Convert it for transformers"):
        python, script, *arguments = printed_uses.words(typed[title])
        done = tiny.run_script(script.removesuffix(".py"), *arguments)
        assert python == "python" and done.code == 0, done.err
    before = tiny.predictions("path/to/seed-1")
    assert tiny.predictions("path/to/seed-1/predictions") == before
    code = typed["Load it in Python"]
    converted = code.replace("seed-1'", "seed-1/hugging_face'")
    answers = [loaded(each)["answers"][0] for each in (code, converted)]
    assert code != converted and answers[0]["label"] == answers[1]["label"]
    shares = [list(answer["probabilities"].values()) for answer in answers]
    np.testing.assert_allclose(*shares, atol=2e-6)  # six digits are given


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("frozen", "logits"),
        ("questions", "start_logits"),
        ("pretraining", "pooled_output"),
    ],
)
def test_every_script_leaves_a_report(name, output, tmp_path, monkeypatch):
    whole_runs.write(tmp_path / "data")
    flags = whole_runs.arguments(name, tmp_path / "data", steps=8)
    flags = [flag for flag in flags if flag != "--nowrite_report"]
    place = tmp_path / "path" / "to" / "out"
    done = tiny.run_script(
        *(whole_runs.SCRIPTS[name], *flags, f"--output_dir={place}"),
        "--log_steps=2 --write_report --do_export",
        draws=True,
    )
    assert done.code == 0, done.err
    actual = record.read(str(place))
    assert actual["step"] == 8
    assert [step for step, _ in actual["curves"]["train/loss"]] == [1, 2, 4, 6, 8]
    assert actual["data"]["train"]["count"] > 0
    if name == "pretraining":
        assert actual["evaluation"] is None and "masked_lm_loss" in actual["results"]
    else:
        score = actual["evaluation"]["scores"]["f1"]
        low, high = score["interval"] or (score["value"],) * 2
        assert low <= score["value"] <= high
        # after 8 steps all may be right or nothing found, in all resamples
        assert bool(score["note"]) == (low == high)
    page = (place / "report.html").read_text("utf-8")
    assert "train/loss" in page
    assert ("Share of each layer" in page) == (name == "frozen")
    assert (place / "README.md").read_text("utf-8").startswith("---\n")
    monkeypatch.chdir(tmp_path)
    code = printed_uses.of_card(place)
    assert len(loaded(code["Load it in Python"])["outputs"][output]) == 1
    assert printed_uses.ask(code["Ask the export"]).count("\n") == 2
