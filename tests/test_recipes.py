"""run_classifier.py --recipe on few rows, by the script and by `fit`."""

import json
import pathlib

import numpy as np
import pytest

import bert_reborn as bert
from modeling import text_encoder
from serving import predictor
from tasks import recipe_choice, recipes
from tests import killed, tiny, whole_runs
from training import linear_head

FILES = "--train_file={0}/train.tsv --dev_file={0}/dev.tsv --test_file={0}/test.tsv"
DOES = "--do_train --do_eval --do_predict"
# Few steps, in which so small a network moves.
WAYS = tuple(
    way._replace(steps=12, passes=1, learning_rate=10 * way.learning_rate)
    for way in recipes.WAYS
)
LAST = 13  # step of a contrastive run


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
    table, best = table_of(done.out)
    names = [way.name for way in WAYS]
    assert [*table] in (names, names[:-1])  # see the next test
    assert table["contrastive"][0] == table["vectors"][0] == 24
    record = json.loads((path / "recipe.json").read_text())
    assert record["chosen"] == best
    # The score of vectors, from those of the first weights.
    texts, labels = zip(*tiny.rows(24), strict=True)
    ids = np.array([tiny.LABELS.index(label) for label in labels])
    values = vectors_of(model_dir, list(texts))
    places = recipe_choice.folds.assign(ids, 4, 1)
    right = 0
    for fold in range(4):
        learned, held_out = places != fold, places == fold
        given = values[learned], ids[learned], "classification", 3
        kernel, bias = linear_head.fit(*given)
        logits = values[held_out] @ kernel.T + bias
        known = record["ways"]["vectors"][str(fold)]
        np.testing.assert_allclose(known, logits, atol=1e-3)
        right += np.sum(logits.argmax(axis=1) == ids[held_out])
    assert table["vectors"][1] == pytest.approx(right / 24, abs=1e-4)


def test_fine_tuning_that_would_not_be_chosen_is_not_tried():
    def held(way, good, *, is_whole=True):
        own = recipe_choice._HeldOut.__new__(recipe_choice._HeldOut)
        own.way, own.kind, own._good = way, "classification", np.array(good, float)
        own._good[4 if is_whole else 2 :] *= 1 if is_whole else np.nan
        return own

    contrastive, vectors, long, _ = WAYS
    first = [held(contrastive, [1, 1, 1, 0]), held(vectors, [1, 0, 1, 0])]
    assert recipe_choice._why_hopeless(first) == ""
    right = [held(contrastive, [1, 1, 1, 1]), held(vectors, [1, 0, 1, 0])]
    assert recipe_choice._why_hopeless(right) == "every row held out is right"
    far = held(long, [0, 0, 1, 1], is_whole=False)
    assert recipe_choice._why_hopeless([*first, far]).startswith(f"{long.name} is")
    near = held(long, [1, 1, 0, 0], is_whole=False)
    assert recipe_choice._why_hopeless([*first, near]) == ""


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
@pytest.mark.parametrize("number", [3, 8])
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
    table = tiny.write_tsv(tmp_path / "rows.tsv", header, rows)
    given = f"--pretrained={model_dir} --max_seq_length=16 --output_dir={tmp_path}/run"
    files = f"--train_file={table} --dev_file={table} {more} --do_train --do_eval"
    tiny.succeed("run_classifier", given, files, "--recipe=vectors")
    results = tiny.eval_results(tmp_path / "run")
    usual = {"multi_label": "f1_micro", "regression": "spearman", "pairs": "accuracy"}
    assert results[f"eval_{usual[kind]}"] > 0.6
    line = tiny.refuse("run_classifier", given + "2", files, "--recipe=contrastive")
    assert "it is for texts with one label each, in one sequence" in line


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--learning_rate=1e-3", "--learning_rate=0.001 is for --recipe=fine_tune"),
        ("--freeze_encoder", "--freeze_encoder is for --recipe=fine_tune, and"),
        ("--nodo_train --do_eval", "--recipe=vectors trains a model; add --do_train"),
        ("--choice_columns=a,b", "--recipe=vectors is for texts and pairs"),
        ("--recipe=fine_tune --calibrate", "--calibrate is read with --recipe=vectors"),
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
