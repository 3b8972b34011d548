"""Names and rows of a head stay together, however names are asked for."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy

import bert_reborn as bert
from contract import errors
from data_pipeline.classification import labels
from tests import tiny, tiny_gpt, tiny_tags

MRPC = pathlib.Path(__file__).parent / "data_pipeline/original_tasks/mrpc"
TEXTS = [text for text, _ in tiny.rows(6)]
HEAD = ("classifier.weight", "classifier.bias")


@pytest.fixture(scope="module")
def widened(model_dir):
    """A function that makes a directory with a head of these classes, apart by much."""

    def write(directory, names, file_format="hugging_face", **settings):
        loaded = bert.load(model_dir, labels=names, max_seq_length=16, **settings)
        kernel, bias = loaded.model.layers[-1].logits.weights
        values = np.random.default_rng(3).normal(size=kernel.shape, scale=0.2)
        kernel.assign(values.astype(np.float32))
        bias.assign(np.arange(len(names), dtype=np.float32))
        loaded.save(directory, file_format, overwrite=True)
        (directory / "label_map.json").unlink()
        return directory

    return write


def permute(directory, order, names, *, rows=True):
    """Puts names, and unless `rows` is false rows of the head, in another order."""
    if rows:
        path = directory / "model.safetensors"
        held = safetensors.numpy.load_file(path)
        held |= {key: np.ascontiguousarray(held[key][list(order)]) for key in HEAD}
        safetensors.numpy.save_file(held, path, metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["id2label"] = {str(i): names[place] for i, place in enumerate(order)}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def shares(loaded):
    rows = [answer["probabilities"] for answer in loaded.predict(TEXTS)]
    return np.array([[row[name] for name in tiny.LABELS] for row in rows])


@pytest.mark.parametrize(
    "order",
    [
        (0, 1, 2),
        (2, 0, 1),
        pytest.param((1, 0, 2), marks=pytest.mark.slow),
        pytest.param((0, 2, 1), marks=pytest.mark.slow),
        pytest.param((1, 2, 0), marks=pytest.mark.slow),
        pytest.param((2, 1, 0), marks=pytest.mark.slow),
    ],
)
def test_rows_and_names_in_another_order_give_the_same_scores(
    widened, tmp_path, order, capsys
):
    names = tiny.LABELS
    expected = shares(bert.load(widened(tmp_path, names), labels=names))
    assert np.abs(expected - np.roll(expected, 1, axis=1)).min() > 0.05
    capsys.readouterr()
    permute(tmp_path, order, [name.upper() for name in names])
    loaded = bert.load(tmp_path, labels=names)
    assert loaded.classes.names == tuple(names[place] for place in order)
    np.testing.assert_allclose(shares(loaded), expected, atol=2e-6)
    (line,) = [x for x in capsys.readouterr().out.splitlines() if "labels:" in x]
    assert f"labels: {[*loaded.classes.names]}, in the order of ['" in line
    assert f"'] of {tmp_path}/config.json; labels has {names}" in line
    # Names alone are another model.
    permute(tmp_path, (0, 1, 2), names, rows=False)
    moved = np.abs(shares(bert.load(tmp_path, labels=names)) - expected).max()
    assert (moved > 0.05) == (order != (0, 1, 2))


def test_all_formats_and_tables_follow_the_rows(widened, tmp_path):
    names, order = tiny.LABELS, (2, 0, 1)
    expected = shares(bert.load(widened(tmp_path, names), labels=names))
    loaded = bert.load(permute(tmp_path, order, names))
    for file_format in ("google", "hugging_face"):
        loaded.save(tmp_path / file_format, file_format)
        again = bert.load(tmp_path / file_format, labels=names)
        np.testing.assert_allclose(shares(again), expected, atol=2e-6)
    rows = [(text, label) for text, label in tiny.rows(6)]
    made = bert.classifier(tmp_path, max_seq_length=16)
    data = made.read({"train": rows})
    np.testing.assert_allclose(shares(made), expected, atol=2e-6)
    assert data.label_set.names == loaded.classes.names
    ids = [data.label_set.names.index(label) for _, label in rows]
    assert data.splits["train"].label_ids.tolist() == ids


def run(script, model, output_dir, *arguments):
    places = f"--pretrained={model} --output_dir={output_dir} --max_seq_length=16"
    done = tiny.succeed(script, places, *arguments, "--nowrite_report")
    lines = (line for line in done.out.splitlines() if line.startswith("labels:"))
    return [line for line in lines if not line.startswith("labels: scheme ")]


@pytest.mark.slow
def test_a_task_is_scored_by_names_and_not_by_places(widened, tmp_path):
    task = (f"--task_name=MRPC --data_dir={MRPC}", "--do_eval", "--do_predict")
    model = widened(tmp_path / "model", ["0", "1"])

    def score(output_dir):
        notes = run("run_classifier", model, output_dir, *task)
        table = np.loadtxt(output_dir / "test_results.tsv")
        return notes, tiny.eval_results(output_dir), table

    notes, results, table = score(tmp_path / "same")
    assert notes == [] and 0 < results["eval_f1"] < 1
    permute(model, (1, 0), ["0", "1"])
    notes, permuted, columns = score(tmp_path / "permuted")
    (line,) = notes
    assert line.startswith(f"labels: ['1', '0'], in the order of ['1', '0'] of {model}")
    assert line.endswith("--task_name=MRPC has ['0', '1']")
    assert permuted == pytest.approx(results, rel=1e-5)  # F1 is of the class "1"
    np.testing.assert_allclose(columns, table[:, ::-1], atol=1e-6)
    stored = json.loads((tmp_path / "permuted/label_map.json").read_text())
    assert (stored["0"], stored["1"]) == ("1", "0")
    permute(model, (0, 1), ["0", "1"], rows=False)
    notes, wrong, columns = score(tmp_path / "wrong")
    assert notes == [] and wrong["eval_f1"] != results["eval_f1"]
    assert np.abs(columns - table).max() > 0.05
    # Nothing names LABEL_0.
    permute(model, (1, 0), ["0", "1"])
    permute(model, (0, 1), ["LABEL_0", "LABEL_1"], rows=False)
    (line,), assumed, _ = score(tmp_path / "assumed")
    assert line.startswith(f"labels: ['LABEL_0', 'LABEL_1'] of {model}")
    assert "are assumed to be ['0', '1'], in this order; --task_name=MRPC" in line
    assert assumed == pytest.approx(results, rel=1e-5)


STILL = (
    "--do_train --do_eval --num_train_epochs=1 --learning_rate=1e-12",
    "--train_batch_size=32",
)


@pytest.mark.slow
def test_a_run_goes_on_with_the_order_of_its_head(model_dir, widened, tmp_path):
    tables = tiny.write_tables(tmp_path / "tables", train=32)
    files = [f"--{split}_file={tables}/{split}.tsv" for split in ("train", "dev")]
    asked = ["good", "bad", "fine"]
    model, first = widened(tmp_path / "model", asked), tmp_path / "first"
    labels = f"--labels={','.join(asked)}"
    assert run("run_classifier", model, first, *files, *STILL, labels) == []
    results = tiny.eval_results(first)
    (line,) = run(
        *("run_classifier", model_dir, tmp_path / "next", *files, *STILL),
        f"--init_checkpoint={first}/model.ckpt-1",
    )
    assert line.startswith(f"labels: {asked}, in the order of {asked} of {first}/")
    assert line.endswith(f"{tables}/train.tsv has {tiny.LABELS}")
    assert tiny.eval_results(tmp_path / "next") == pytest.approx(results, rel=1e-4)
    # The same directory goes on without the flag, and with other labels is refused.
    longer = [flag.replace("epochs=1", "epochs=2") for flag in STILL]
    (line,) = run("run_classifier", model, first, *files, *longer)
    assert f" of {first}/label_map.json; {tables}/train.tsv has" in line
    again = tiny.eval_results(first)
    assert again == pytest.approx({**results, "global_step": 2}, rel=1e-4)
    places = f"--pretrained={model} --output_dir={first} --max_seq_length=16"
    error = tiny.refuse("run_classifier", places, *files, *longer, "--labels=a,b,c")
    assert "--labels: ['a', 'b', 'c'] are not the labels that the model" in error
    assert f"{first}/label_map.json" in error
    # Numbers for --class_weights are those of the order that the run asks for.
    places = f"--pretrained={first} --output_dir={tmp_path}/w --max_seq_length=16"
    error = tiny.refuse(
        "run_classifier", places, *files, *STILL, "--class_weights=1,2,3"
    )
    assert "--class_weights=1,2,3" in error and labels in error
    # Three classes of other names: another head.
    others = [(text, label.upper() + "!") for text, label in tiny.rows(32)]
    tiny.write_tsv(tables / "train.tsv", ("text", "label"), others)
    tiny.write_tsv(tables / "dev.tsv", ("text", "label"), others)
    (line,) = run("run_classifier", first, tmp_path / "new", *files, *STILL)
    assert "labels: a new head for classification ['BAD!', 'FINE!', 'GOOD!']" in line
    assert f"that of {first}/label_map.json is for classification {asked}" in line
    path = tmp_path / "new/run.json"
    assert json.loads(path.read_text())["identity"]["labels"][0] == "BAD!"


def kernel(loaded):
    return np.asarray(loaded.model.layers[-1].logits.weights[0])


@pytest.mark.parametrize("stored", ["classification", "multi_label", "tagging"])
def test_a_head_of_another_kind_is_another_head(widened, tmp_path, stored, capsys):
    names = ["O", "B-x", "I-x"]
    head = "tagger" if stored == "tagging" else "auto"
    model = widened(tmp_path / "model", names, head=head)
    saved = bert.load(model, head=head)
    if stored == "multi_label":
        saved = dataclasses.replace(saved, classes=labels.Labels(names, stored))
    saved.save(tmp_path / "saved")
    capsys.readouterr()
    made = bert.classifier(tmp_path / "saved", max_seq_length=16)
    made.read({"train": [("a", name) for name in names]})
    out = capsys.readouterr().out
    is_same = stored == "classification"
    assert np.array_equal(kernel(made), kernel(saved)) == is_same
    assert ("labels: a new head for classification" in out) != is_same
    assert (f"is for {stored} {names}" in out) != is_same
    tagger = bert.load(tmp_path / "saved", labels=sorted(names), head="tagger")
    assert np.array_equal(kernel(tagger), kernel(saved)) == (stored == "tagging")
    if stored == "tagging":
        assert tagger.classes.names == tuple(names)


@pytest.mark.parametrize("file_format", ["google", "hugging_face"])
@pytest.mark.parametrize(
    "network", ["bert", pytest.param("gpt", marks=pytest.mark.slow)]
)
def test_every_network_starts_a_new_head(model_dir, tmp_path, network, file_format):
    if network == "gpt":
        model_dir = tiny_gpt.write_model(tmp_path / "gpt")
    made = bert.load(model_dir, labels=["a", "b", "c"], max_seq_length=16)
    made.save(tmp_path / "three", file_format)
    fewer = bert.load(tmp_path / "three", labels=["a", "b"])
    assert "newly initialised: " in fewer.source
    with pytest.raises(
        errors.InputError, match=r"^predict: the head for .* is random, "
    ):
        fewer.predict(["the film"])
    for variable in fewer.model.trainable_variables:  # as a training does
        variable.assign(variable * 2)
    assert len(fewer.predict(["the film"])[0]["probabilities"]) == 2
    again = bert.load(tmp_path / "three", labels=["c", "b", "a"])
    assert again.classes.names == ("a", "b", "c")
    np.testing.assert_array_equal(kernel(again), kernel(made))
    other = bert.load(tmp_path / "three", labels=["c", "b", "d"])
    assert not np.array_equal(kernel(other), kernel(made))


@pytest.mark.slow
def test_tags_are_those_of_the_rows(widened, tmp_path):
    data = tiny_tags.write_splits(tmp_path / "data")
    files = [f"--{split}_file={data}/{split}.conll" for split in ("train", "dev")]
    types = [f"{letter}-{name}" for letter in "BI" for name in tiny.LABELS]
    tags, order = ["O", *types], (4, 2, 0, 6, 1, 5, 3)
    model = widened(tmp_path / "model", tags, head="tagger")
    asked = f"--labels={','.join(tags)}"
    assert run("run_tagger", model, tmp_path / "first", *files[1:], "--do_eval") == []
    expected = tiny.eval_results(tmp_path / "first")
    permute(model, order, tags)
    actions = ("--do_eval", asked), (*STILL, files[0])
    for number, more in enumerate(actions):
        lines = run("run_tagger", model, tmp_path / f"{number}", *files[1:], *more)
        assert len(lines) == 1
        results = tiny.eval_results(tmp_path / f"{number}")
        results["global_step"] = 0
        assert results == pytest.approx(expected, rel=1e-4)
        for line in lines:
            assert f"labels: {[tags[place] for place in order]}, in the order" in line
    permute(model, range(7), tags, rows=False)
    assert run("run_tagger", model, tmp_path / "wrong", *files[1:], "--do_eval") == []
    assert tiny.eval_results(tmp_path / "wrong") != pytest.approx(expected, rel=0.01)
    places = f"--pretrained={model} --output_dir={tmp_path}/no --max_seq_length=16"
    error = tiny.refuse("run_tagger", places, *files[1:], "--do_eval --labels=O,B-bad")
    assert "--labels: ['O', 'B-bad'] are not the labels" in error


@pytest.mark.slow
def test_ratings_have_no_head_of_named_classes(widened, tmp_path):
    model = widened(tmp_path / "model", ["a", "b"])
    rows = [(text, "1.5 2") for text, _ in tiny.rows(32)]
    path = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), rows)
    files = f"--train_file={path} --dev_file={path}"
    script = "examples.run_ratings"
    places = f"--pretrained={model} --output_dir={tmp_path}/out --max_seq_length=16"
    error = tiny.refuse(script, places, files, "--do_eval")
    assert "the ratings: [] are not the labels that" in error
    assert f"['a', 'b'] ({model}/config.json)" in error
    (line,) = run(script, model, tmp_path / "out", files, *STILL)
    assert f"labels: a new head for ratings []; that of {model}/config.json is" in line
    assert run(script, tmp_path / "out", tmp_path / "again", files, *STILL) == []
