"""Tasks on layers of a network, frozen or not, from end to end."""

import json

import numpy as np
import pytest

import bert_reborn as bert
from serving import predictor
from tests import tiny, tiny_tags, whole_runs

FLAGS = ("--freeze_encoder", "--layer_mix=learned")
FLAGS += ("--feature_dropout=0.1", "--head=bilstm")
FLAGS += ("--bilstm_layers=1", "--bilstm_units=32")
LEARN = ("--learning_rate=1e-2", "--train_batch_size=8", "--max_seq_length=16")
STEPS = 120


@pytest.fixture(scope="module")
def tagged(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("tagged")
    data = tiny_tags.write_splits(tmp_path_factory.mktemp("tags"))
    tiny.succeed(
        "run_tagger",
        f"--pretrained={model_dir} --output_dir={path}",
        *(f"--{split}_file={data}/{split}.conll" for split in ("train", "dev", "test")),
        *("--do_train", "--do_eval", *FLAGS, *LEARN, "--num_train_epochs=20"),
        "--save_checkpoints_steps=60",
    )
    return path, data


@pytest.mark.slow
def test_tagger_learns_on_a_network_that_stays(tagged, model_dir):
    path, _ = tagged
    assert tiny.eval_results(path)["eval_f1"] > 0.9
    weights = whole_runs.variables(path, STEPS)
    before = whole_runs.initial_variables(model_dir)
    kept = [name for name in weights if name.startswith("bert/")]
    assert kept and not any("adam_" in name for name in kept)
    for name in kept:
        np.testing.assert_array_equal(weights[name], before[name], err_msg=name)
    own = {"layer_mix/ELMo_W", "layer_mix/ELMo_gamma", "output_weights"}
    own |= {f"bilstm/{way}_0/kernel" for way in ("forward", "backward")}
    for name in own:
        assert np.abs(weights[f"{name}/adam_m"]).max() > 0, name
    assert np.abs(weights["layer_mix/ELMo_W"]).max() > 1e-3
    assert json.loads((path / "head.json").read_text()) == {
        "bilstm_layers": 1,
        "bilstm_units": 32,
        "feature_dropout": 0.1,
        "freeze_encoder": True,
        "head": "bilstm",
        "layer_mix": "learned",
    }
    losses = tiny.events(path / "train")
    assert "train/tagger_loss" in losses


@pytest.mark.slow
def test_weights_say_how_they_are_read(tagged, tmp_path):
    path, data = tagged
    tiny.succeed(
        "run_tagger",
        f"--pretrained={path} --output_dir={tmp_path}",
        *(f"--{split}_file={data}/{split}.conll" for split in ("dev", "test")),
        "--do_eval --do_predict --do_export --max_seq_length=16",
    )
    expected = tiny.eval_results(path)
    assert tiny.eval_results(tmp_path) == expected
    line = tiny.refuse(
        "run_tagger",
        f"--pretrained={path} --output_dir={tmp_path}/other --max_seq_length=16",
        f"--dev_file={data}/dev.conll --do_eval --layer_mix=sum_all",
    )
    assert "not what the model was trained with, learned" in line
    rows = tiny.predictions(tmp_path)
    served = predictor.Predictor(str(tmp_path / "export")).predict(
        [" ".join(row["words"]) for row in rows]
    )
    assert [row["tags"] for row in served] == [row["tags"] for row in rows]
    loaded = bert.load(path, max_seq_length=16)
    assert loaded.model.reading.head == "bilstm"
    words = " ".join(rows[0]["words"])
    logits = np.asarray(loaded.model(loaded.encode([words]))["logits"])[0, 1:-1]
    names = np.array(loaded.classes.names)[logits.argmax(axis=-1)]
    assert names.tolist() == rows[0]["tags"]


@pytest.mark.slow
def test_pairs_are_compared_by_what_lstms_read(model_dir, tmp_path):
    rows = [
        (f"the {a} sea", f"a {b} film", "same" if a == b else "other")
        for a in tiny.SIGNS.values()
        for b in tiny.SIGNS.values()
        for _ in range(4)
    ]
    table = tiny.write_tsv(tmp_path / "rows.tsv", ("text_a", "text_b", "label"), rows)
    flags = ("--layer_mix=learned", "--head=bilstm", "--bilstm_units=32")
    flags += ("--bilstm_layers=1", "--freeze_encoder")
    done = tiny.succeed(
        "run_classifier",
        f"--pretrained={model_dir} --output_dir={tmp_path}/out",
        *(f"--{split}_file={table}" for split in ("train", "dev", "test")),
        *("--do_train", "--do_eval", "--do_predict", "--do_export", *flags, *LEARN),
        "--num_train_epochs=80 --gradient_accumulation_steps=2 --explain=2",
    )
    assert "newly initialised" in done.out
    out = tmp_path / "out"
    assert json.loads((out / "head.json").read_text())["joins_pairs"] is True
    assert tiny.eval_results(out)["eval_accuracy"] > 0.9
    texts = [row[0] for row in rows], [row[1] for row in rows]
    served = predictor.Predictor(str(out / "export")).predict(*texts)
    expected = tiny.predictions(out)
    assert [row["label"] for row in served] == [row["label"] for row in expected]
    loaded = bert.load(out, max_seq_length=16)
    assert loaded.num_texts == 2
    actual = loaded.predict(*texts)
    assert [row["label"] for row in actual] == [row["label"] for row in expected]


@pytest.mark.slow
def test_cache_of_a_frozen_network_changes_no_result(tmp_path):
    tiny.write_model(tmp_path / "model", num_hidden_layers=1, hidden_act="relu")
    common = whole_runs.arguments("frozen", tiny_tags.write_splits(tmp_path))

    def run(path, *flags):
        return tiny.succeed("run_tagger", *common, f"--output_dir={path}", *flags).out

    out = run(tmp_path / "cached", "--seeds=3,4")
    assert out.count("features: ") == 3  # not 6
    without = run(tmp_path / "not", "--feature_cache=none", "--seed=3")
    assert "features: " not in without
    one, other, expected = (
        whole_runs.variables(tmp_path / name)
        for name in ("cached/seed-3", "cached/seed-4", "not")
    )
    # Batches are composed otherwise where the states are computed.
    assert whole_runs.largest_difference(one, expected) < 1e-5
    assert whole_runs.largest_difference(other, expected) > 1e-2
    weights = expected["layer_mix/ELMo_W"]
    assert np.abs(weights).max() > 1e-3
    shares = np.exp(weights) / np.exp(weights).sum()
    assert f"  s_0 {shares[0]:.4f}  s_1 {shares[1]:.4f}\n" in without
    scores = tiny.eval_results(tmp_path / "not")
    assert tiny.eval_results(tmp_path / "cached/seed-3") == pytest.approx(scores)
