"""Grids of run_classifier.py from end to end, and what TensorBoard shows of them."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2

from tests import tiny

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
def test_grid_trains_each_and_predicts_with_the_best(searched):
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
    traces = path.glob("*/train/plugins/profile/*/*.xplane.pb")
    assert len({trace.parents[4].name for trace in traces}) == 2
    assert done.err.count("profile: steps 1 to 2 in ") == 2
    # Records of features are there once.
    assert [p.parent for p in path.rglob("train.tf_record")] == [path]


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
