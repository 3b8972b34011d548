"""run_classifier.py --recipe on few rows, by the script and by `fit`."""

import csv
import json
import pathlib

import numpy as np
import pytest
import scipy.special

import bert_reborn as bert
from contract import locks
from modeling import text_encoder
from reports.measures import selective
from serving import predictor
from tasks import recipe_choice, recipes
from tests import killed, tiny, whole_runs
from training import linear_head, run_directory

FILES = "--train_file={0}/train.tsv --dev_file={0}/dev.tsv --test_file={0}/test.tsv"
DOES = "--do_train --do_eval --do_predict"
# Few steps, in which so small a network moves.
WAYS = tuple(
    way._replace(steps=12, passes=1, learning_rate=10 * way.learning_rate)
    for way in recipes.WAYS
)
LAST = 13  # step of a contrastive run
# Texts that are not learned, one of them twice, and two that are.
UNLABELLED = [
    [text] for text, _ in [*tiny.rows(9, 60), *tiny.rows(1, 60), *tiny.rows(2)]
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.write_tables(tmp_path_factory.mktemp("few"), 24, 12, 4)


@pytest.fixture(scope="module", autouse=True)
def brief():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipes, "WAYS", WAYS)
        yield


def arguments(model, data, path, *more):
    places = f"--pretrained={model} --output_dir={path} --max_seq_length=16"
    return (places, FILES.format(data), *more)


def vectors_of(directory, texts):
    """Vectors [N, W] of a directory's network, as the mean of tokens, of length 1."""
    loaded = bert.load(directory, head="none", max_seq_length=16)
    model = text_encoder.TextEncoder(loaded.model.config)
    model.build()
    pairs = zip(model.network.variables, loaded.model.network.variables, strict=True)
    for variable, value in pairs:
        variable.assign(value)
    return np.asarray(model(loaded.encode(texts))["vectors"])


@pytest.fixture(scope="module")
def on_vectors(model_dir, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors")
    more = f"--recipe=vectors {DOES}"
    tiny.succeed("run_classifier", *arguments(model_dir, data, path, more))
    return path


def test_head_is_a_regression_on_vectors_of_the_first_weights(
    on_vectors, model_dir, data
):
    texts, labels = zip(*tiny.rows(24), strict=True)
    ids = np.array([tiny.LABELS.index(label) for label in labels])
    values = vectors_of(model_dir, list(texts))
    kernel, bias = linear_head.fit(values, ids, "classification", 3)
    weights = whole_runs.variables(on_vectors, 1)
    np.testing.assert_allclose(weights["output_weights"], kernel, atol=1e-4)
    np.testing.assert_allclose(weights["output_bias"], bias, atol=1e-4)
    before = whole_runs.initial_variables(model_dir)
    for name in weights.keys() & before.keys() - {"global_step"}:
        if name.startswith("bert/"):
            np.testing.assert_array_equal(weights[name], before[name], err_msg=name)
    assert json.loads((on_vectors / "head.json").read_text()) == {
        "freeze_encoder": True,
        "is_normalized": True,
        "pooling": "mean",
    }
    assert not any("adam_" in name for name in weights)


def held_out_logits(directory):
    """Logits [24, 3] of the rows, by the vectors of a directory and other rows."""
    texts, labels = zip(*tiny.rows(24), strict=True)
    ids = np.array([tiny.LABELS.index(label) for label in labels])
    values, logits = vectors_of(directory, list(texts)), np.empty([24, 3])
    places = recipe_choice.folds.assign(ids, 4, 1)
    for fold in range(4):
        learned, held_out = places != fold, places == fold
        given = values[learned], ids[learned], "classification", 3
        kernel, bias = linear_head.fit(*given)
        logits[held_out] = values[held_out] @ kernel.T + bias
    return ids, logits


def table(path):
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def reviewed(model_dir, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("reviewed")
    texts = tiny.write_tsv(path / "texts.tsv", ["text"], UNLABELLED)
    more = f"--recipe=vectors --label_errors --unlabelled_file={texts} {DOES}"
    tiny.succeed("run_classifier", *arguments(model_dir, data, path / "run", more))
    return path / "run"


@pytest.mark.slow
def test_files_to_review_change_no_weights(reviewed, on_vectors):
    both = (whole_runs.variables(path, 1) for path in (reviewed, on_vectors))
    whole_runs.assert_equal(*both)


@pytest.mark.slow
def test_labels_that_held_out_rows_are_not_given_are_listed(reviewed, model_dir):
    ids, logits = held_out_logits(model_dir)
    shares = scipy.special.softmax(logits, axis=1)
    sure = shares[np.arange(24), ids]
    wrong = [i for i in np.argsort(sure) if logits[i].argmax() != ids[i]]
    rows = table(reviewed / "label_errors.csv")
    assert len(wrong) > 3 and [int(row["line"]) - 2 for row in rows] == wrong
    for row, i in zip(rows, wrong, strict=True):
        assert float(row["self_confidence"]) == pytest.approx(sure[i], abs=1e-3)
        assert row["suggested_label"] == tiny.LABELS[logits[i].argmax()]
        assert row["text"] == tiny.rows(24)[i][0]


@pytest.mark.slow
def test_texts_to_label_are_neither_doubles_nor_learned(reviewed):
    rows = table(reviewed / "to_label.csv")
    lines = [int(row["line"]) - 2 for row in rows]
    assert {*lines} <= {*range(10)} and len({0, 9} & {*lines}) == 1
    assert len(lines) > 5 and all(row["label"] == "" for row in rows)
    loaded = bert.load(reviewed).predict([row["text"] for row in rows])
    for row, one in zip(rows, loaded, strict=True):
        *_, second, first = sorted(one["probabilities"].values())
        assert float(row["margin"]) == pytest.approx(first - second, abs=1e-4)
        assert row["suggested_label"] == one["label"]


@pytest.mark.slow
def test_directory_and_export_answer_as_the_run(on_vectors, data, tmp_path):
    rows = tiny.predictions(on_vectors)
    texts = [text for text, _ in tiny.rows(4, 36)]
    loaded = bert.load(on_vectors).predict(texts)
    places = f"--pretrained={on_vectors} --output_dir={tmp_path} --max_seq_length=16"
    tiny.succeed("run_classifier", places, "--do_export")
    served = predictor.Predictor(str(tmp_path / "export")).predict(texts)
    for row, one, other in zip(rows, loaded, served, strict=True):
        assert row["label"] == one["label"] == other["label"]
        for name, share in row["probabilities"].items():
            assert one["probabilities"][name] == pytest.approx(share, abs=1e-5)
            assert other["probabilities"][name] == pytest.approx(share, abs=1e-5)
    dev = f"--dev_file={data}/dev.tsv --do_eval --export_format=onnx --do_export"
    done = tiny.succeed("run_classifier", places, dev)
    assert tiny.eval_results(tmp_path) == tiny.eval_results(on_vectors)
    accuracy = tiny.eval_results(tmp_path)["eval_accuracy"]
    assert f"export_accuracy = {accuracy:.4f}" in done.out


@pytest.mark.slow
def test_command_given_again_has_nothing_to_do(on_vectors):
    before = whole_runs.variables(on_vectors, 1)
    done = tiny.run_again(on_vectors)
    assert done.code == 0 and "head:" not in done.out
    whole_runs.assert_equal(whole_runs.variables(on_vectors, 1), before)


@pytest.fixture(scope="module")
def contrasted(model_dir, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("contrastive")
    more = f"--recipe=contrastive --save_checkpoints_steps=6 {DOES}"
    tiny.succeed("run_classifier", *arguments(model_dir, data, path, more))
    return path


@pytest.mark.slow
def test_texts_of_a_label_are_brought_near_before_the_regression(contrasted, model_dir):
    assert killed.saved_steps(contrasted) == [6, 12, LAST]
    texts, labels = zip(*tiny.rows(24), strict=True)
    ids = np.array([tiny.LABELS.index(label) for label in labels])

    def loss(directory):  # Khosla et al., equation 2, over all rows
        values = vectors_of(directory, list(texts))
        scores = 20 * values @ values.T
        np.fill_diagonal(scores, -np.inf)
        shares = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        same = (ids[:, None] == ids[None]) & ~np.eye(len(ids), dtype=bool)
        return -np.mean(
            [row[near].mean() for row, near in zip(shares, same, strict=True)]
        )

    assert loss(contrasted) < loss(model_dir) - 0.1
    values = vectors_of(contrasted, list(texts))
    kernel, _ = linear_head.fit(values, ids, "classification", 3)
    weights = whole_runs.variables(contrasted, LAST)
    np.testing.assert_allclose(weights["output_weights"], kernel, atol=1e-4)
    moved = whole_runs.variables(contrasted, 12)
    assert np.abs(moved["output_weights"] - kernel).max() > 0.1
    for name in weights.keys() - {"output_weights", "output_bias", "global_step"}:
        np.testing.assert_array_equal(weights[name], moved[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("step", [6, 12])
def test_contrastive_run_that_is_cut_off_ends_as_the_whole(contrasted, step, tmp_path):
    killed.cut_off(contrasted, tmp_path, step)
    done = tiny.run_again(contrasted, f"--output_dir={tmp_path}")
    assert done.code == 0, done.err
    results = [whole_runs.variables(place, LAST) for place in (contrasted, tmp_path)]
    whole_runs.assert_equal(*results)
    assert tiny.eval_results(tmp_path) == tiny.eval_results(contrasted)


@pytest.mark.slow
def test_fit_is_the_script(contrasted, model_dir):
    rows, dev = tiny.rows(24), tiny.rows(12, 24)
    model = bert.classifier(model_dir, max_seq_length=16)
    model.fit(rows, dev=dev, recipe="contrastive")
    actual = whole_runs.variables(model.output_dir, LAST)
    whole_runs.assert_equal(actual, whole_runs.variables(contrasted, LAST))
    wanted = tiny.eval_results(contrasted)
    assert model.results["eval_accuracy"] == pytest.approx(wanted["eval_accuracy"])
    assert model.evaluate(dev)["eval_loss"] == pytest.approx(wanted["eval_loss"])


@pytest.fixture(scope="module")
def chosen(model_dir, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("auto")
    given = arguments(model_dir, data, path, f"--recipe=auto {DOES}")
    return path, tiny.succeed("run_classifier", *given)


def table_of(out):
    """{way: (rows, score)} of the printed table, and the way that is chosen."""
    lines = out.split("recipe:\n")[1].split("\n")[1:]
    rows = {}
    for line in lines:
        cells = [cell for cell in line.strip().split("  ") if cell]
        if cells[0] not in [way.name for way in WAYS]:
            break
        rows[cells[0]] = [cell.strip() for cell in cells[1:]]
    (best,) = (name for name, cells in rows.items() if cells[-1] == "chosen")
    return {name: (int(c[0]), float(c[1])) for name, c in rows.items()}, best


@pytest.mark.slow
def test_auto_compares_ways_on_rows_that_they_have_not_seen(chosen, model_dir, data):
    path, done = chosen
    scores, best = table_of(done.out)
    assert [*scores] == [way.name for way in WAYS]
    assert scores["contrastive"][0] == scores["vectors"][0] == 24
    assert "recipe: vectors, the first 2 of 4 folds: " in done.out
    record = json.loads((path / "recipe.json").read_text())
    assert record["chosen"] == best
    # The score of vectors, from those of the first weights.
    ids, logits = held_out_logits(model_dir)
    places = recipe_choice.folds.assign(ids, 4, 1)
    for fold in range(4):
        known = record["ways"]["vectors"][str(fold)]
        np.testing.assert_allclose(known, logits[places == fold], atol=1e-3)
    right = np.mean(logits.argmax(axis=1) == ids)
    assert scores["vectors"][1] == pytest.approx(right, abs=1e-4)


def test_way_without_a_mistake_is_known():
    def is_right(good, kind="classification"):
        held = recipe_choice._HeldOut.__new__(recipe_choice._HeldOut)
        held.kind, held._good = kind, np.array(good)
        return held.is_right

    assert is_right([1.0, 1.0])
    assert not is_right([1.0, 0.5])
    assert not is_right([1.0, np.nan])  # a row that is not held out yet
    assert not is_right([0.0, 0.0], "regression")


@pytest.mark.slow
def test_winner_is_trained_on_all_rows(chosen, contrasted, on_vectors):
    path, done = chosen
    _, best = table_of(done.out)
    single = {"contrastive": (contrasted, LAST), "vectors": (on_vectors, 1)}
    directory, step = single[best]  # the tiny fine-tunings are too short to win
    whole_runs.assert_equal(
        whole_runs.variables(path, step), whole_runs.variables(directory, step)
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 9])
def test_auto_that_is_killed_goes_on(chosen, number, tmp_path):
    path, whole = chosen
    command = json.loads((path / "run.json").read_text())["command"]
    assert "--recipe=auto" in command
    with killed.at_call(recipe_choice._Record, "write", number=number, after=True):
        tiny.run_again(path, f"--output_dir={tmp_path}")
    assert not (tmp_path / "run.json").exists()
    with killed.counted(recipe_choice.Trainer, "logits") as calls:
        done = tiny.run_again(path, f"--output_dir={tmp_path}")
    assert done.code == 0, done.err
    record = json.loads((path / "recipe.json").read_text())
    count = sum(len(folds) for folds in record["ways"].values())
    assert len(calls) == count - number - 1
    assert table_of(done.out) == table_of(whole.out)
    assert (tmp_path / "recipe.json").read_text() == (path / "recipe.json").read_text()
    (step,) = killed.saved_steps(path)[-1:]
    results = [whole_runs.variables(place, step) for place in (path, tmp_path)]
    whole_runs.assert_equal(*results)


@pytest.mark.slow
def test_another_record_is_not_gone_on_with(model_dir, data, tmp_path):
    given = arguments(model_dir, data, tmp_path, "--recipe=auto --do_train")
    with killed.at_call(recipe_choice._Record, "write", number=0, after=True):
        tiny.run_script("run_classifier", *given)
    line = tiny.refuse("run_classifier", *given, "--seed=2")
    assert "holds another run: seed" in line


@pytest.mark.slow
def test_probabilities_are_divided_by_the_temperature_of_held_out_rows(
    on_vectors, model_dir, data, tmp_path
):
    more = f"--recipe=vectors --calibrate {DOES}"
    done = tiny.succeed("run_classifier", *arguments(model_dir, data, tmp_path, more))
    known = json.loads((tmp_path / "recipe.json").read_text())["ways"]
    assert known.keys() == {"vectors"}
    ids = np.arange(24) % 3
    places = recipe_choice.folds.assign(ids, 4, 1)
    order = np.concatenate([np.flatnonzero(places == fold) for fold in range(4)])
    logits = np.concatenate([known["vectors"][str(fold)] for fold in range(4)])
    number = linear_head.temperature(logits, ids[order], "classification")
    assert abs(number - 1) > 0.1
    assert f"temperature: {number:.3f}" in done.out
    plain, scaled = (whole_runs.variables(path, 1) for path in (on_vectors, tmp_path))
    for name in ("output_weights", "output_bias"):
        np.testing.assert_allclose(scaled[name] * number, plain[name], rtol=1e-5)
    before, after = map(tiny.predictions, (on_vectors, tmp_path))
    for one, other in zip(before, after, strict=True):
        assert one["label"] == other["label"]
        shares = np.array([*one["probabilities"].values()]) ** (1 / number)
        wanted = [*other["probabilities"].values()]
        np.testing.assert_allclose(shares / shares.sum(), wanted, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multi_label", "regression", "pairs"])
def test_vectors_learn_other_labels(kind, model_dir, tmp_path):
    rows = tiny.rows(24)
    header, more = ("text", "label"), f"--problem_type={kind}"
    if kind == "multi_label":
        rows = [(t, f"{name},{t.split()[0]}") for t, name in rows]
        names = {word for _, cell in rows for word in cell.split(",")}
        more += f" --labels={','.join(sorted(names))}"
    elif kind == "regression":
        rows = [(text, tiny.LABELS.index(label)) for text, label in rows]
    else:
        header, more = ("one", "two", "label"), "--text_b_column=two"
        more += " --text_a_column=one --pair_input=both_orders"
        rows = [(text, "a film", label) for text, label in rows]
    path = tiny.write_tsv(tmp_path / "rows.tsv", header, rows)
    given = f"--pretrained={model_dir} --max_seq_length=16 --output_dir={tmp_path}/run"
    files = f"--train_file={path} --dev_file={path} {more} --do_train --do_eval"
    tiny.succeed("run_classifier", given, files, "--recipe=vectors")
    results = tiny.eval_results(tmp_path / "run")
    usual = {"multi_label": "f1_micro", "regression": "spearman", "pairs": "accuracy"}
    assert results[f"eval_{usual[kind]}"] > 0.6
    line = tiny.refuse("run_classifier", given + "2", files, "--recipe=contrastive")
    assert "it is for texts with one label each, in one sequence" in line
    # Without dev rows these are held out in turn.
    texts = tiny.write_tsv(tmp_path / "texts.tsv", header[:-1], [r[:-1] for r in rows])
    given = f"--pretrained={model_dir} --max_seq_length=16 --output_dir={tmp_path}/own"
    files = f"--train_file={path} {more} --do_train --recipe=vectors"
    asked = f"--unlabelled_file={texts} --label_errors"
    if kind == "regression":
        for flag in asked.split():
            line = tiny.refuse("run_classifier", given, files, flag)
            assert f"{flag} is for probabilities, and these rows have numbers" in line
        asked = ""
    done = tiny.succeed("run_classifier", given, files, asked)
    assert "24" in done.out.split("recipe:\n")[1].split("\n")[1]
    if asked:
        listed = table(tmp_path / "own" / "label_errors.csv")
        assert all(row["given_label"] != row["suggested_label"] for row in listed)
        (names,) = {tuple(row)[5:] for row in listed}
        assert names == (("text_a", "text_b") if kind == "pairs" else ("text",))
        # All of these texts are labelled.
        assert table(tmp_path / "own" / "to_label.csv") == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--learning_rate=1e-3", "--learning_rate=0.001 is for --recipe=fine_tune"),
        ("--freeze_encoder", "--freeze_encoder is for --recipe=fine_tune, and"),
        ("--nodo_train --do_eval", "--recipe=vectors trains a model; add --do_train"),
        ("--choice_columns=a,b", "--recipe=vectors is for texts and pairs"),
        ("--recipe=fine_tune --calibrate", "add --do_train, --do_eval and dev rows"),
        (
            "--recipe=fine_tune --calibrate --do_eval --lora_rank=2",
            "after the last step; leave it or --lora_rank=2 out",
        ),
        (
            "--recipe=fine_tune --label_errors",
            "--label_errors is read with --recipe=ve",
        ),
        (
            "--recipe=fine_tune --unlabelled_file=a.tsv",
            "--unlabelled_file=a.tsv is read with --teacher, or --recipe=vectors",
        ),
    ],
)
def test_what_a_recipe_decides_is_refused(more, message, model_dir, data, tmp_path):
    given = arguments(model_dir, data, tmp_path, "--recipe=vectors --do_train", more)
    assert message in tiny.refuse("run_classifier", *given)


@pytest.mark.slow
def test_few_steps_have_a_line(model_dir, data, tmp_path):
    brief = "--do_train --train_batch_size=8 --num_train_epochs=1"
    given = arguments(model_dir, data, tmp_path, brief)
    done = tiny.succeed("run_classifier", *given)
    assert "3 steps are few; see --recipe\n" in done.out
    assert pathlib.Path(tmp_path, "model.ckpt-3.index").exists()


@pytest.mark.parametrize(
    ("count", "more", "message"),
    [
        (
            3,
            "--recipe=auto",
            "--recipe=auto: {0} has 3 rows, and some are held out; giv",
        ),
        (3, "--recipe=vectors --calibrate", "give 8 or more, or leave it out"),
        (
            9,
            "--recipe=vectors --calibrate",
            "{0} has one row of each label, and nothin",
        ),
    ],
)
def test_rows_that_cannot_be_held_out_are_refused(
    count, more, message, model_dir, tmp_path
):
    rows = [(f"a film {i}", f"label{i}") for i in range(count)]
    path = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), rows)
    places = f"--pretrained={model_dir} --output_dir={tmp_path}/run"
    given = places, f"--train_file={path} --max_seq_length=16 --do_train", more
    assert message.format(path) in tiny.refuse("run_classifier", *given)


@pytest.mark.parametrize("name", ["label_errors.csv", "test_predictions.csv", ""])
def test_files_of_others_are_refused_before_rows_are_held_out(
    name, model_dir, data, tmp_path
):
    path = tmp_path / "run" / name
    path.parent.mkdir(exist_ok=True)
    tiny.write_tsv(path, ("my", "own"), [])
    given = arguments(model_dir, data, tmp_path / "run", "--recipe=vectors --do_train")
    with killed.counted(recipe_choice.Trainer, "logits") as calls:
        line = tiny.refuse("run_classifier", *given, "--label_errors")
    assert not calls and path.read_text() == "my\town\n"
    assert (f"has another {name} and no run.json" if name else "is a file") in line


@pytest.mark.slow
def test_run_that_is_killed_while_it_writes_label_errors_goes_on(
    model_dir, data, tmp_path
):
    more = "--recipe=vectors --label_errors --do_train"
    given = arguments(model_dir, data, tmp_path, more)
    with killed.at_call(run_directory, "_write_record", number=0):
        tiny.run_script("run_classifier", *given)
    assert not (tmp_path / "run.json").exists()
    before = (tmp_path / "label_errors.csv").read_text()
    tiny.succeed("run_classifier", *given)
    assert (tmp_path / "label_errors.csv").read_text() == before


@pytest.mark.slow
def test_runs_without_dev_rows_have_scores_and_promises(model_dir, tmp_path):
    rows = [(text, label) for text, label in tiny.rows(60)]
    path = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), rows)
    places = f"--pretrained={model_dir} --output_dir={tmp_path}/run --max_seq_length=16"
    given = places, f"--train_file={path} --recipe=vectors --do_train"
    with locks.directory(f"{tmp_path}/run", "another"):
        line = tiny.refuse("run_classifier", *given)
        assert f"--output_dir={tmp_path}/run: process " in line
    done = tiny.succeed("run_classifier", *given, draws=True)
    assert "answered alone, by 60 rows held out:\n" in done.out
    assert "answered alone, by 12 dev" not in done.out
    directory = tmp_path / "run"
    report = json.loads((directory / "report.json").read_text())
    assert report["evaluation"] is None
    folds = report["cross_validation"]
    assert [row["needed"] for row in folds["answered_alone"]] == [230, 114, 45, 22]
    page = (directory / "report.html").read_text()
    assert "On 60 held-out rows of the training data, each scored by a model" in page
    assert "By 60 held-out rows." in page and "too few rows to promise 1 %" in page
    wrong = len(table(directory / "label_errors.csv"))
    right = 1 - wrong / 60
    assert folds["scores"]["accuracy"]["value"] == pytest.approx(right, abs=1e-6)
    low, high = folds["scores"]["accuracy"]["interval"]
    assert wrong and low < right < high
    # With dev rows the promises are of those, which no model has seen.
    dev = tiny.write_tsv(tmp_path / "dev.tsv", ("text", "label"), tiny.rows(12, 60))
    more = f"--dev_file={dev} --do_eval --label_errors"
    with killed.counted(selective, "promises") as calls:
        done = tiny.succeed("run_classifier", *given, more, draws=True)
    assert [len(sure) for sure, _ in calls].count(12) == 1  # printed, and reported
    assert "answered alone, by 12 dev rows:\n" in done.out
    assert "60 rows held out" not in done.out
    report = json.loads((directory / "report.json").read_text())
    assert report["evaluation"]["answered_alone"][-1]["threshold"] is None
    assert "By 12 dev rows." in (directory / "report.html").read_text()
    # As another command would train there, its rows are not held out first.
    with killed.counted(recipe_choice.Trainer, "logits") as calls:
        line = tiny.refuse("run_classifier", *given, "--seed=3 --recipe=auto")
        assert "holds another run: " in line and not calls


@pytest.mark.parametrize(
    ("shift", "wrong", "reason"),
    [
        (1, 0, "the dev rows are hardly better predicted than by chance"),
        (0, 0, "the dev rows are all right, so any lower one is, too"),
        (0, 10, ""),
    ],
)
def test_bounds_of_a_temperature_are_named(shift, wrong, reason, capsys):
    ids = np.arange(30) % 3
    predicted = np.where(np.arange(30) < wrong, 0, (ids + shift) % 3)
    given = np.eye(3)[predicted], ids, "classification", "the dev rows"
    number = recipes.fit_temperature(*given)
    out = capsys.readouterr().out
    assert reason in out and ("warning: --calibrate: " in out) == bool(reason)
    assert (0.05 < number < 20) == (not reason)


@pytest.mark.slow
def test_fine_tuning_is_calibrated_by_dev_rows(model_dir, data, tmp_path):
    few = "--num_train_epochs=4 --train_batch_size=8 --learning_rate=1e-3"
    for name, more in (("plain", ""), ("own", "--calibrate")):
        given = arguments(model_dir, data, tmp_path / name, few, more, DOES)
        done = tiny.succeed("run_classifier", *given, draws=bool(more))
    dev = bert.load(tmp_path / "plain").predict([text for text, _ in tiny.rows(12, 24)])
    shares = np.array([[*row["probabilities"].values()] for row in dev])
    ids = np.arange(12) % 3
    number = linear_head.temperature(np.log(shares), ids, "classification")
    assert (
        abs(number - 1) > 0.05 and f"temperature: {number:.3f}, by the dev" in done.out
    )
    plain = whole_runs.variables(tmp_path / "plain", 12)
    own = whole_runs.variables(tmp_path / "own", LAST)
    for name in own.keys() - {"global_step"}:
        is_head = name in ("output_weights", "output_bias")
        wanted = plain[name] / number if is_head else plain[name]
        np.testing.assert_allclose(own[name], wanted, rtol=1e-3 * is_head, err_msg=name)
    scores = [tiny.eval_results(tmp_path / name) for name in ("plain", "own")]
    assert scores[0]["eval_accuracy"] == scores[1]["eval_accuracy"]
    assert scores[0]["eval_loss"] > scores[1]["eval_loss"]
    page = (tmp_path / "own" / "report.html").read_text()
    assert "the dev rows have chosen the temperature, so that their loss and" in page
    again = tiny.run_again(tmp_path / "own")
    assert again.code == 0 and "temperature: " not in again.out
    whole_runs.assert_equal(whole_runs.variables(tmp_path / "own", LAST), own)
    # More steps would go on from the divided head.
    longer = few.replace("epochs=4", "epochs=6")
    given = arguments(model_dir, data, tmp_path / "own", longer, "--calibrate", DOES)
    error = tiny.refuse("run_classifier", *given)
    assert "head was changed after 12 steps, its last: it cannot go on to 18" in error
    whole_runs.assert_equal(whole_runs.variables(tmp_path / "own", LAST), own)
