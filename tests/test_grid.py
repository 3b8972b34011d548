"""Grids of run_classifier.py from end to end, and what TensorBoard shows of them."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2

from tests import tiny, tiny_questions

BRIEF = ("--max_seq_length=16", "--train_batch_size=8", "--num_train_epochs=1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid")
    tiny.write_model(path / "model", num_hidden_layers=1)
    return tiny.write_tables(path, train=24)


def run(place, output_dir, *arguments):
    return tiny.run_classifier(
        f"--pretrained={place}/model",
        f"--output_dir={output_dir}",
        *(f"--{split}_file={place}/{split}.tsv" for split in ("train", "dev", "test")),
        *BRIEF,
        *arguments,
    )


@pytest.fixture(scope="module")
def searched(place):
    """A grid of two runs, with a trace, vectors and predictions of the best."""
    actions = ("--do_train", "--do_eval", "--do_predict", "--write_projector")
    more = ("--profile_steps=1,2", "--grid=learning_rate=1e-3,5e-3")
    done = run(place, place / "out", *actions, *more)
    assert done.code == 0, done.err
    return place / "out", done


@pytest.mark.slow
def test_grid_trains_each_and_predicts_with_the_best(searched, place, monkeypatch):
    path, done = searched
    record = json.loads((path / "grid.json").read_text())
    directories = ["learning_rate=0.001", "learning_rate=0.005"]
    scores = [tiny.eval_results(path / name)["eval_accuracy"] for name in directories]
    assert record["metric"] == "accuracy"
    best = directories[int(np.argmax(scores))]
    assert record["best"]["directory"] == best
    predicted = {p.parent.name for p in path.rglob("test_predictions.jsonl")}
    assert predicted == {best}
    assert f"its best run is {path / best}\n" in done.out
    rates = [json.loads((path / d / "run.json").read_text()) for d in directories]
    assert [rate["flags"]["learning_rate"] for rate in rates] == [1e-3, 5e-3]
    # The rate was not only written down: it moved the weights.
    losses = [record["runs"][name]["results"]["eval_loss"] for name in directories]
    assert abs(losses[0] - losses[1]) > 1e-4
    # Records of features are there once.
    assert [p.parent for p in path.rglob("train.tf_record")] == [path]


@pytest.mark.slow
def test_grid_killed_between_two_runs_ends_as_the_whole_one(searched, place, tmp_path):
    """One run has ended, and grid.json does not say so; the other has not begun."""
    path = tmp_path / "out"
    shutil.copytree(searched[0], path)
    shutil.rmtree(path / "learning_rate=0.005")
    (path / "grid.json").unlink()
    more = ("--profile_steps=1,2", "--grid=learning_rate=1e-3,5e-3")
    actions = ("--do_train", "--do_eval", "--do_predict", "--write_projector")
    done = run(place, path, *actions, *more)
    assert done.code == 0, done.err
    assert done.out.count("nothing to train: step 3 of 3 is reached") == 1
    assert (path / "grid.json").read_text() == (searched[0] / "grid.json").read_text()


@pytest.mark.slow
def test_grid_equals_the_run_of_its_flags(searched, place, tmp_path):
    """Stops of a trace and the runs before change nothing, bit for bit."""
    done = run(place, tmp_path, "--do_train", "--learning_rate=5e-3")
    assert done.code == 0, done.err
    name = "model.ckpt-3.data-00000-of-00001"
    alone = (tmp_path / name).read_bytes()
    assert alone == (searched[0] / "learning_rate=0.005" / name).read_bytes()
    assert alone != (searched[0] / "learning_rate=0.001" / name).read_bytes()


@pytest.mark.slow
def test_trace_is_written_where_tensorboard_looks(searched):
    found = searched[0].glob("*/train/plugins/profile/*/*.xplane.pb")
    assert len({path.parents[4].name for path in found}) == 2
    assert searched[1].err.count("profile: steps 1 to 2 in ") == 2


@pytest.mark.slow
def test_vectors_of_dev_rows_stand_beside_their_labels(searched, place):
    directory = searched[0] / "learning_rate=0.005" / "eval"
    lines = (directory / "metadata.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows[0] == ["label", "predicted", "text"]
    table = (place / "dev.tsv").read_text("utf-8").splitlines()[1:]
    assert [f"{text}\t{label}" for label, _, text in rows[1:]] == table
    right = np.mean([label == predicted for label, predicted, _ in rows[1:]])
    accuracy = tiny.eval_results(directory.parent)["eval_accuracy"]
    assert right == pytest.approx(accuracy, abs=1e-6)
    vectors = np.loadtxt(directory / "vectors.tsv", np.float32, delimiter="\t")
    assert (
        vectors.shape == (18, 32) and np.abs(vectors).max() <= 1
    )  # tanh of the pooler
    # Rows without a common text are no neighbours by accident of the order.
    assert len(np.unique(vectors.round(4), axis=0)) == 18


BAD_GRIDS = {
    "learning_rat=1,2": [
        "'learning_rat', which is no flag",
        "It can vary learning_rate",
    ],
    "output_dir=a,b": ["cannot vary output_dir", "share all else", "learning_rate"],
    "max_seq_length=16,32": ["cannot vary max_seq_length"],
    "seed=1,2": ["--seeds=1,2,3"],
    "learning_rate=1e-3,-1": ["learning_rate=-1", "non-negative"],
    "learning_rate=": ["'learning_rate=' lacks a value"],
    "learning_rate=1,nan": ["learning_rate=nan", "not a finite"],
    "learning_rate=2e-5,0.00002": ["has 2e-05 twice"],
    "optimizer=adam,sgd": ["optimizer=sgd", "<adam|lamb|gpt_adam|adagrad>"],
    "train_batch_size=8,32": ["24 training examples", "--train_batch_size=32"],
    "train_batch_size=8;train_batch_size=4": ["has train_batch_size twice"],
}


@pytest.mark.parametrize("text", BAD_GRIDS)
def test_wrong_grid_is_refused_before_the_work(place, tmp_path, text):
    out = tmp_path / "out"
    more = ("--learning_rate=1e-3", "--train_batch_size=8", f"--grid={text}")
    done = run(place, out, "--do_train", "--do_eval", "--num_train_epochs=0.9", *more)
    line = done.err.splitlines()[-1]
    assert done.code == 2 and line.startswith("error: "), done.err
    for words in BAD_GRIDS[text]:
        assert words in line
    assert not out.exists()


WRONG = {
    "no training": (("--do_eval", "--grid=learning_rate=1"), "set --do_train and"),
    "no scores": (
        ("--do_train", "--grid=learning_rate=1"),
        "set --do_train and --do_ev",
    ),
    "after the end": (
        ("--do_train", "--profile_steps=1,4"),
        "last step of this run, 3",
    ),
    "one step": (("--do_train", "--profile_steps=3"), "two ascending steps"),
    "no number": (("--do_train", "--profile_steps=1,x"), "two ascending steps"),
    "not shown": (("--do_train", "--write_projector"), "add --do_eval"),
}


@pytest.mark.parametrize("name", WRONG)
def test_flags_that_lack_others_are_refused(place, tmp_path, name):
    arguments, words = WRONG[name]
    done = run(place, tmp_path / "out", *arguments)
    assert done.code == 2 and words in done.err, done.err
    assert not (tmp_path / "out").exists()


def hparams(directory):
    """{tag: HParamsPluginData} of the tab HParams, and {tag: number} of its scores."""
    shown, scores = {}, {}
    (path,) = directory.glob("*.hparams")
    for record in tf.data.TFRecordDataset(str(path)):
        for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value:
            content = value.metadata.plugin_data.content
            if value.tag.startswith("_hparams_/"):
                shown[value.tag] = plugin_data_pb2.HParamsPluginData.FromString(content)
            else:
                scores[value.tag] = float(tf.make_ndarray(value.tensor))
    return shown, scores


@pytest.mark.slow
def test_tensorboard_compares_the_runs(searched):
    path = searched[0]
    experiment = hparams(path)[0]["_hparams_/experiment"].experiment
    domains = {
        info.name: [value.number_value for value in info.domain_discrete.values]
        for info in experiment.hparam_infos
    }
    assert domains == {"learning_rate": [1e-3, 5e-3], "seed": [1.0]}
    metrics = {info.name.tag for info in experiment.metric_infos}
    assert {"eval_accuracy", "eval_loss"} <= metrics
    for rate in domains["learning_rate"]:
        shown, scores = hparams(path / f"learning_rate={rate}")
        start = shown["_hparams_/session_start_info"].session_start_info
        assert start.hparams["learning_rate"].number_value == rate
        end = shown["_hparams_/session_end_info"].session_end_info
        assert end.status == api_pb2.STATUS_SUCCESS
        results = tiny.eval_results(path / f"learning_rate={rate}")
        assert scores["eval_loss"] == pytest.approx(results["eval_loss"], rel=1e-5)
    config = (
        path / "learning_rate=0.005" / "eval" / "projector_config.pbtxt"
    ).read_text()
    assert 'tensor_name: "dev"' in config and 'tensor_path: "vectors.tsv"' in config


@pytest.mark.slow
def test_seeds_are_shown_by_tensorboard_too(place, tmp_path):
    done = run(place, tmp_path, "--do_train", "--do_eval", "--seeds=4")
    assert done.code == 0, done.err
    found = {path.parent for path in tmp_path.rglob("*.hparams")}
    assert found == {tmp_path, tmp_path / "seed-4"}
    assert re.search(r"^over seeds 4:$", done.out, re.M)


@pytest.mark.slow
def test_questions_are_scored_by_their_predictions(place, tmp_path):
    """run_squad.py has no --do_eval; each run predicts, and the best is exported."""
    for split, start in (("train", 0), ("dev", 24)):
        tiny_questions.version_1(tmp_path / f"{split}.json", 24, start=start)
    arguments = (
        *(f"--pretrained={place}/model", f"--output_dir={tmp_path}/out"),
        *(f"--train_file={tmp_path}/train.json", f"--predict_file={tmp_path}/dev.json"),
        *("--max_seq_length=40", "--doc_stride=8", "--max_query_length=12"),
        *("--train_batch_size=8", "--num_train_epochs=1", "--seeds=1"),
        *("--do_train", "--grid=learning_rate=1e-3,1e-5"),
    )
    refused = tiny.run_script("run_squad", *arguments)
    assert refused.code == 2 and "set --do_train and --do_predict" in refused.err
    done = tiny.run_script("run_squad", *arguments, "--do_predict", "--do_export")
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "out" / "grid.json").read_text())
    assert record["metric"] == "f1"
    for name, entry in record["runs"].items():
        assert entry["score"] == entry["results"]["f1"]
        assert (tmp_path / "out" / name / "predictions.json").exists()
    exported = [path.parent for path in (tmp_path / "out").rglob("export")]
    assert exported == [tmp_path / "out" / record["best"]["directory"]]
