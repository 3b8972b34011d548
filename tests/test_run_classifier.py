"""run_classifier.py from end to end, on a model and tables of tests/tiny.py."""

import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest

from modeling import models
from modeling.checkpoints import checkpoint, hugging_face
from modeling.configs import config as config_lib
from serving import predictor
from tests import tiny, whole_runs

SPLITS = ("train", "dev", "test")
# Enough to learn which word decides, in about a second.
LEARN = ("--learning_rate=1e-3", "--num_train_epochs=30", "--train_batch_size=8")
# Enough to have something that differs from the initial weights.
BRIEF = ("--learning_rate=1e-3", "--num_train_epochs=1", "--train_batch_size=8")


@pytest.fixture(scope="module")
def table_dir(tmp_path_factory):
    return tiny.write_tables(tmp_path_factory.mktemp("tables"))


def files_of(directory, *splits):
    return [f"--{split}_file={directory}/{split}.tsv" for split in splits or SPLITS]


def run(model, output_dir, *arguments, **settings):
    places = f"--pretrained={model} --output_dir={output_dir} --max_seq_length=16"
    return tiny.succeed("run_classifier", places, *arguments, **settings)


@pytest.fixture(scope="module")
def trained(model_dir, table_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    actions = ("--do_train", "--do_eval", "--do_predict", "--do_export")
    more = ("--save_checkpoints_steps=70", "--keep_checkpoint_max=2")
    more += ("--export_server_config",)
    arguments = (*files_of(table_dir), *actions, *LEARN, *more)
    return path, run(model_dir, path, *arguments, draws=True)


def columns(path):
    lines = pathlib.Path(path).read_text().splitlines()
    return np.array([[float(cell) for cell in line.split("\t")] for line in lines])


def test_whole_run_learns_reports_and_exports(trained):
    path, done = trained
    files = set(tiny.listing(path))
    assert {
        "export/1/saved_model.pb",
        "export/1/assets.extra/label_map.json",
        "config/batching_parameters.txt",
        "config/models.config",
    } < files
    checkpoints = {name for name in files if re.fullmatch(r"[^/]*\.index", name)}
    # The newest two of 70, 140 and 180.
    assert checkpoints == {"model.ckpt-140.index", "model.ckpt-180.index"}
    results = tiny.eval_results(path)
    assert results["eval_accuracy"] > 0.9 and {"eval_loss", "loss"} < results.keys()
    assert "newly initialised: output_weights, output_bias" in done.out
    assert "\nlabels:" not in done.out  # of a head that pretraining does not have
    tags = tiny.event_tags(path / "eval")
    assert {tag: plugin for tag, plugin in tags.items() if plugin != "scalars"} == {
        **{"eval/confusion": "images", "eval/precision_recall": "images"},
        **{"eval/reliability": "images", "eval/worst_errors": "text"},
        "eval/losses": "histograms",
    }


def test_files_and_export_agree(trained, table_dir):
    path = trained[0]
    shares = columns(path / "test_results.tsv")
    assert shares.shape == (10, 3)
    # float32 probabilities, printed with all their digits
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    table = (table_dir / "test.tsv").read_text().splitlines()[1:]
    predictions = tiny.predictions(path)
    for values, row, line in zip(shares, predictions, table, strict=True):
        assert [row["text_a"], row["given"]] == line.split("\t")
        assert row["label"] == tiny.LABELS[values.argmax()] == row["given"]
        named = [row["probabilities"][name] for name in tiny.LABELS]
        np.testing.assert_allclose(named, values, atol=1e-6)  # six digits are written
    answers = predictor.Predictor(str(path / "export")).predict(
        [row["text_a"] for row in predictions]
    )
    # Batches of other lengths, and gelu without XLA: rounding, no more.
    served = [[a["probabilities"][name] for name in tiny.LABELS] for a in answers]
    np.testing.assert_allclose(served, shares, atol=1e-5)
    assert [a["label"] for a in answers] == [row["label"] for row in predictions]


def test_run_without_training_has_the_labels_of_its_model(
    trained, model_dir, table_dir, tmp_path
):
    path, rows = trained[0], files_of(table_dir, "test")
    before = tiny.listing(path)
    done = tiny.run_classifier(
        *(f"--pretrained={model_dir}", f"--output_dir={path}", *rows),
        "--do_predict --labels=good,fine,sad --max_seq_length=16",
    )
    assert done.code == 2
    assert "['good', 'fine', 'sad'] are not the labels that the model" in done.err
    assert f"with, ['bad', 'fine', 'good'] ({path}/label_map.json)" in done.err
    assert tiny.listing(path) == before
    # Labels of the predictions of another model, which a directory holds, do not count.
    (tmp_path / "label_map.json").write_text('{"0": "x", "1": "y", "2": "z"}')
    flags = (*rows, "--do_predict", "--nowrite_tf_records")
    run(model_dir, tmp_path, *flags, f"--init_checkpoint={path}")
    # The length is that of the run as well.
    done = tiny.succeed(
        "run_classifier", f"--pretrained={path} --output_dir={tmp_path}/own", *flags
    )
    assert f"max_seq_length: 16, as {path} was trained" in done.out
    assert "cut to 16" in done.out
    written = ("label_map.json", "test_predictions.jsonl", "test_predictions.csv")
    for name in written:
        assert (tmp_path / name).read_bytes() == before[name]


@pytest.mark.slow
def test_rows_of_a_batch_with_a_loss_that_is_no_number_are_named(
    model_dir, table_dir, tmp_path, caplog
):
    done = tiny.run_classifier(
        f"--pretrained={model_dir}",
        f"--output_dir={tmp_path}",
        *files_of(table_dir, "train"),
        *("--do_train", *BRIEF, "--max_seq_length=16", "--learning_rate=1e30"),
    )
    assert done.code == 3
    shown = re.search(
        rf"(loss|gradient_norm) is (nan|inf) at step (\d+), of the batch "
        rf"{table_dir}/train.tsv:\d+ \(id \d+\), ",
        caplog.text,
    )
    assert shown and int(shown[3]) <= 6, caplog.text
    assert "the last checkpoint is of step 0" in caplog.text


@pytest.mark.slow
def test_a_run_in_a_project_folder_keeps_its_tables(model_dir, table_dir, tmp_path):
    project = tmp_path / "project"
    for split, folder in {"train": "train", "dev": "eval"}.items():
        (project / folder).mkdir(parents=True)
        shutil.copy(table_dir / f"{split}.tsv", project / folder)
    theirs = {path: path.read_bytes() for path in project.rglob("*.tsv")}
    command = (
        f"--pretrained={model_dir}",
        f"--train_file={project}/train/train.tsv",
        f"--dev_file={project}/eval/dev.tsv",
        *("--do_train", *BRIEF, "--max_seq_length=16", f"--output_dir={project}"),
    )
    written = set()
    for more, line in (
        ((), "training: step 0 to "),
        ((), "nothing to train"),
        (("--overwrite_output_dir",), "training: step 0 to "),
    ):
        done = tiny.succeed("run_classifier", *command, *more)
        assert line in done.out + done.err
        assert {path: path.read_bytes() for path in theirs} == theirs
        names = {p.name for p in project.rglob("*") if "events" not in p.name}
        written = written or names
        assert names == written
    missing = f"--init_checkpoint={tmp_path}/nowhere/bert_model.ckpt"
    assert "nowhere/bert_model.ckpt: no " in tiny.refuse(
        "run_classifier", *command, missing
    )
    line = tiny.refuse("run_classifier", *command[:-1], f"--output_dir={tmp_path}/x[1]")
    assert "x[1]: TensorFlow reads brackets" in line and "rename" in line


@pytest.mark.slow
def test_run_does_not_claim_flags_that_it_was_not_trained_with(trained, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(trained[0], path)
    record = (path / "run.json").read_text()
    only = ("--nodo_eval", "--nodo_predict", "--nodo_export", f"--output_dir={path}")
    done = tiny.run_again(trained[0], *only, f"--init_checkpoint={path}/model.ckpt-140")
    assert done.code == 2
    assert "holds another run: init_checkpoint was 'digest " in done.err
    # Fewer epochs, and what changes no weight, do nothing and leave the record.
    shorter = (*only, "--num_train_epochs=10", "--log_steps=7", "--write_report")
    done = tiny.run_again(trained[0], *shorter, "--do_eval")
    assert done.code == 0, done.err
    assert "nothing to train: step 180 of 60 is reached; raise --num" in done.out
    assert (path / "run.json").read_text() == record
    report = json.loads((path / "report.json").read_text())
    assert report["flags"]["num_train_epochs"] == 30 and report["flags"]["seed"] == 1
    assert "--num_train_epochs=30" in report["training_command"]
    # More epochs go on, with their learning rate.
    longer = (*only, "--num_train_epochs=31")
    done = tiny.run_again(trained[0], *longer)
    assert done.code == 0, done.err
    line = "learning rate: the schedule is that of 186 steps now, and was that of 180; "
    line += "at step 180 the rate goes from 5.56e-06 to 3.23e-05\n"
    assert line in done.out and "training: step 180 to 186" in done.out


@pytest.mark.slow
def test_numbers_without_a_correlation_leave_the_choice_to_the_loss(
    model_dir, tmp_path
):
    """In a run, in one that goes on, in a report and an export."""
    rows = tiny.rows(24)
    header = ("text", "label")
    numbers = [(text, str(i % 5)) for i, (text, _) in enumerate(rows)]
    tiny.write_tsv(tmp_path / "train.tsv", header, numbers)
    equal = [(text, "3.0") for text, _ in tiny.rows(8, 40)]
    tiny.write_tsv(tmp_path / "dev.tsv", header, equal)
    files = files_of(tmp_path, "train", "dev")
    more = ("--problem_type=regression", "--evaluate_steps=1", "--do_export")
    arguments = (*files, "--do_train", "--do_eval", *BRIEF, *more)
    done = run(model_dir, tmp_path / "run", *arguments, draws=True)
    assert "dev.tsv: all labels are '3.0'; nothing can be learned or scored" in done.out
    losses = re.findall(r"at step \d: pearson nan .* loss ([0-9.]+)", done.err)
    assert len(losses) == 3 and len({*losses}) == 3
    best = int(np.argmin(np.array(losses, float))) + 1
    line = f"best: step {best} with loss {min(losses)}; used from here on"
    assert line in done.out and done.log.count("pearson is not defined") == 1
    results = tiny.eval_results(tmp_path / "run")
    assert np.isnan(results["eval_pearson"]) and results["global_step"] == best
    assert f"{results['eval_loss']:.4f}" == min(losses)
    record = (tmp_path / "run" / "report.json").read_text()
    assert "NaN" not in record and "nan" not in record
    page = (tmp_path / "run" / "report.html").read_text()
    assert ">nan<" not in page and "None" not in page
    again = run(model_dir, tmp_path / "run", *arguments, draws=True)
    assert line in again.out


@pytest.mark.slow
def test_layers_wait_and_evaluation_is_not_smoothed(model_dir, table_dir, tmp_path):
    """Six steps: the block begins at the third, and the embeddings after the last."""
    files = [*files_of(table_dir, "train", "dev"), f"--test_file={table_dir}/dev.tsv"]
    more = "--unfreeze_epochs=0.5 --layerwise_lr_decay=0.9 --label_smoothing=0.5"
    actions = "--do_train --do_eval --do_predict --weight_decay_rate=0.5"
    done = run(model_dir, tmp_path, *files, *BRIEF, *f"{actions} {more}".split())
    assert "never trained in 1 epochs; all layers need more than 1" in done.log
    start = whole_runs.initial_variables(model_dir)
    end = whole_runs.variables(tmp_path, 6)
    for name, value in start.items():
        if name.startswith("bert/embeddings/"):
            np.testing.assert_array_equal(end[name], value, err_msg=name)
            assert not end[f"{name}/adam_m"].any(), name
        elif name.startswith("bert/") and name.endswith("/kernel"):
            assert np.abs(end[name] - value).max() > 1e-5, name
    results = tiny.eval_results(tmp_path)
    label_map = json.loads((tmp_path / "label_map.json").read_text())
    names = [label_map[str(i)] for i in range(3)]
    rows = [
        line.split("\t") for line in (table_dir / "dev.tsv").read_text().split("\n")
    ]
    labels = [names.index(row[1]) for row in rows[1:] if len(row) > 1]
    shares = columns(tmp_path / "test_results.tsv")[range(len(labels)), labels]
    assert results["eval_loss"] == pytest.approx(-np.log(shares).mean(), rel=1e-4)


@pytest.mark.slow
def test_best_checkpoint_is_used_and_training_stops_early(
    model_dir, table_dir, tmp_path
):
    """With a rate that ruins the weights the first evaluation stays the best."""
    actions = ("--do_train", "--do_eval", "--do_predict")
    arguments = (*files_of(table_dir), *actions, *LEARN, "--best_metric=loss")
    arguments += ("--evaluate_steps=2", "--early_stopping_patience=3")
    arguments += ("--learning_rate=0.3", "--warmup_proportion=0.1")
    done = run(model_dir, tmp_path, *arguments, "--keep_checkpoint_max=1")
    best = int(re.search(r"^best: step (\d+) with loss ", done.out, re.M)[1])
    stopped = int(
        re.search(r"^stopped at step (\d+): no better loss", done.err, re.M)[1]
    )
    assert stopped == best + 3 * 2 < 180
    assert tiny.eval_results(tmp_path)["global_step"] == best
    kept = {path.stem for path in tmp_path.glob("model.ckpt-*.index")}
    assert kept == {f"model.ckpt-{best}", f"model.ckpt-{stopped}"}
    before = tiny.listing(tmp_path)
    # What was used then is used by a later command too.
    files = files_of(table_dir, "dev", "test")
    run(model_dir, tmp_path, *files, "--do_eval", "--do_predict")
    after = tiny.listing(tmp_path)
    for name in ("eval_results.txt", "test_results.tsv"):
        assert after[name] == before[name]
    # Neither evaluation of the best weights takes the curves back to their step.
    curve = [step for step, _ in tiny.events(tmp_path / "eval")["eval/loss"]]
    assert curve == list(range(2, stopped + 1, 2)) and best < stopped


@pytest.mark.slow
def test_original_task_is_a_name_and_a_directory_and_seeds_are_summarised(
    model_dir, tmp_path
):
    """CoLA, whose score is Matthews' and whose test file has no labels."""
    tables = tiny.ROOT / "tests" / "data_pipeline" / "original_tasks" / "cola"
    arguments = ("--task_name=CoLA", f"--data_dir={tables}", "--seeds=3,4")
    arguments += ("--do_train", "--do_eval", "--do_predict", *BRIEF)
    done = run(model_dir, tmp_path, *arguments, "--train_batch_size=2")
    runs = [tmp_path / f"seed-{number}" for number in (3, 4)]
    results = [tiny.eval_results(path) for path in runs]
    names = {"eval_accuracy", "eval_loss", "eval_mcc", "global_step", "loss"}
    assert set(results[0]) == set(results[1]) == names
    assert tiny.predictions(runs[0])[0]["id"] == "test-1"
    shown = json.loads((tmp_path / "seeds.json").read_text())
    assert set(shown["seeds"]) == {"3", "4"}
    losses = [each["eval_loss"] for each in results]
    # The twin of equal runs: with another seed they are not.
    assert abs(losses[0] - losses[1]) > 1e-4
    mean = shown["summary"]["eval_loss"]["mean"]
    assert mean == pytest.approx(np.mean(losses), 1e-6)
    deviation = shown["summary"]["eval_loss"]["deviation"]
    assert deviation == pytest.approx(abs(losses[0] - losses[1]) / math.sqrt(2), 1e-4)
    assert re.search(r"over seeds 3, 4:\n(  .*\n)*  eval_loss = ", done.out)


@pytest.mark.slow
def test_several_labels_in_jsonl(model_dir, tmp_path):
    rows = []
    for text, label in tiny.rows(48):
        more = ["long"] if len(text.split()) > 4 else []
        rows.append({"text": text, "label": [label, *more]})
    rows[0]["label"] = []
    for split in SPLITS:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{split}.jsonl").write_text(text)
    files = [f"--{split}_file={tmp_path}/{split}.jsonl" for split in SPLITS]
    actions = ("--do_train", "--do_eval", "--do_predict", "--do_export")
    path = tmp_path / "out"
    # So few rows are learned whole with most seeds, and in part with the others.
    arguments = (*files, *actions, *LEARN, "--problem_type=multi_label", "--seed=2")
    run(model_dir, path, *arguments, "--multi_label_threshold=0.4")
    assert tiny.eval_results(path)["eval_f1_micro"] > 0.8
    shown = tiny.predictions(path)
    for row in shown:
        assert list(row["probabilities"]) == ["bad", "fine", "good", "long"]
        named = row["probabilities"].items()
        assert row["labels"] == [name for name, value in named if value >= 0.4]
    assert any(len(row["labels"]) > 1 for row in shown)
    served = predictor.Predictor(str(path / "export"))
    (answer,) = served.predict([shown[3]["text_a"]])
    shares = shown[3]["probabilities"]
    assert answer["probabilities"] == pytest.approx(shares, abs=1e-5)
    assert "label" not in answer


def test_hugging_face_directory_gives_the_same_scores(
    trained, model_dir, table_dir, tmp_path
):
    config = config_lib.BertConfig.from_json_file(trained[0] / "bert_config.json")
    model = models.BertClassifier(config, 3)
    model.build()
    checkpoint.load(model, trained[0])
    directory = tmp_path / "hugging-face"
    hugging_face.save(directory, model, labels=tiny.LABELS)
    shutil.copy(model_dir / "vocab.txt", directory)
    labels = f"--labels={','.join(tiny.LABELS)}"
    path = tmp_path / "out"
    done = run(directory, path, *files_of(table_dir, "dev"), labels, "--do_eval")
    assert "model.safetensors: 25 of 25 variables assigned" in done.out
    mine, before = tiny.eval_results(path), tiny.eval_results(trained[0])
    assert mine.pop("global_step") == 0 and before.pop("global_step") == 180
    assert mine == before


@pytest.mark.slow
def test_demonstration_answers_its_three_messages(minilm_dir, tmp_path):
    assert minilm_dir == tiny.ROOT / "models" / "minilm"
    made = [f"PY={sys.executable}", f"DEMO_DIR={tmp_path}"]
    done = subprocess.run(
        ["make", "-n", "demo", *made], capture_output=True, text=True, cwd=tiny.ROOT
    )
    pattern = rf"^{re.escape(sys.executable)} (?:.*\\\n)*.*"
    commands = re.findall(pattern, done.stdout, re.M)[-2:]  # after the installation
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, cwd=tiny.ROOT
        )
        assert done.returncode == 0, done.stderr[-3000:]
    assert tiny.eval_results(tmp_path)["eval_accuracy"] > 0.85
    shown = re.findall(r"^    (\w+) ", done.stdout, re.M)
    assert shown == ["delivery", "billing", "praise"]


def teardown_module():
    keras.utils.clear_session(free_memory=True)


def marked_tables(directory):
    """Tables of texts with a column of 0 and 1 for each of three labels."""
    names = ("bad", "fine", "good")
    for split, count in (("train", 24), ("dev", 9)):
        rows = [
            (text, *(str(int(name == label)) for name in names))
            for text, label in tiny.rows(count, start=len(split))
        ]
        table = [*rows, ("nobody read this", "-1", "-1", "-1")]
        tiny.write_tsv(directory / f"{split}.tsv", ("text", *names), table)


@pytest.mark.slow
def test_columns_of_0_and_1_are_learned_as_several_labels(model_dir, tmp_path):
    marked_tables(tmp_path)
    out, flags = tmp_path / "out", ("--label_column=good,bad,fine", "--do_eval")
    splits = files_of(tmp_path, "train", "dev")
    done = run(model_dir, out, *splits, *flags, *BRIEF, "--do_train")
    assert "train.tsv: 3 labels: " in done.out
    for split, line in (("train", 26), ("dev", 11)):
        text = f"{split}.tsv: left out 1 row without a label ('null' 1), line {line};"
        assert text in done.out
    label_map = json.loads((out / "label_map.json").read_text())
    assert [label_map[str(i)] for i in range(3)] == ["good", "bad", "fine"]
    assert label_map["problem_type"] == "multi_label"
    # The columns of later rows may have another order.
    flags = ("--label_column=bad,fine,good", "--do_eval")
    run(out, tmp_path / "again", *files_of(tmp_path, "dev"), *flags)
    assert tiny.eval_results(tmp_path / "again") == tiny.eval_results(out)
    error = tiny.refuse(
        "run_classifier",
        f"--pretrained={model_dir} --output_dir={tmp_path / 'x'} --do_train",
        *files_of(tmp_path, "train"),
        "--label_column=bad,fine --problem_type=regression",
    )
    assert "is a column for each of several labels; leave --problem_type=" in error


@pytest.mark.parametrize("other", ["", "Good"])
def test_a_check_of_rows_ends_before_tensorflow_is_loaded(other, tmp_path):
    table = tiny.rows(24) + [("a text", other)] * 5 * bool(other)
    tiny.write_tsv(tmp_path / "train.tsv", ("text", "label"), table)
    tiny.write_tsv(tmp_path / "dev.tsv", ("text", "label"), table[:1])
    command = [sys.executable, "run_classifier.py", "--check_data"]
    command += files_of(tmp_path, "train", "dev")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if other else 0)
    assert "TensorFlow" not in done.stderr
    assert "train.tsv: 3 labels: " in done.stdout or other
    assert "dev.tsv: 1 of 1 dev rows are training rows, too (line 2)" in done.stdout
    end = done.stdout.splitlines()[-1]
    if not other:
        assert end == "--check_data: no fault"
        return
    assert end.startswith("fault: ") and "'good' (8) and 'Good' (5) are" in end
    assert "--labels" in end and "error: --check_data: 1 fault" in done.stderr
    named = [*command, "--labels=bad,fine,good,Good"]
    done = subprocess.run(named, capture_output=True, text=True, check=False)
    assert done.returncode == 0
