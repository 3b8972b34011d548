"""Tasks on layers of a network, frozen or not, from end to end."""

import json

import numpy as np
import pytest

import bert
from serving import predictor
from tests import tiny, tiny_questions, tiny_tags, whole_runs

FLAGS = ("--freeze_encoder", "--layer_mix=learned")
FLAGS += ("--feature_dropout=0.1", "--head=bilstm")
FLAGS += ("--bilstm_layers=1", "--bilstm_units=32")
LEARN = ("--learning_rate=1e-2", "--train_batch_size=8", "--max_seq_length=16")
STEPS = 120


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("uncased_model")
    return tiny.write_model(path, num_hidden_layers=1, hidden_act="relu")


@pytest.fixture(scope="module")
def tagged(model_dir, tmp_path_factory):
    """Directory and data of a tagger on a frozen network."""
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
    """Evaluated, asked and exported without a flag that says so."""
    path, data = tagged
    tiny.succeed(
        "run_tagger",
        f"--pretrained={path} --output_dir={tmp_path}",
        *(f"--{split}_file={data}/{split}.conll" for split in ("dev", "test")),
        "--do_eval --do_predict --do_export --max_seq_length=16",
    )
    expected = tiny.eval_results(path)
    assert tiny.eval_results(tmp_path) == expected
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


def test_other_ways_to_read_are_refused(tagged, tmp_path):
    path, data = tagged
    places = f"--pretrained={path}", f"--output_dir={tmp_path}/out"
    more = *places, f"--dev_file={data}/dev.conll", "--do_eval", "--max_seq_length=16"
    done = tiny.run_script("run_tagger", *more, "--layer_mix=sum_all")
    assert done.code == 2 and "not what the model was trained with, learned" in done.err
    again = f"--output_dir={path}", "--head=linear"
    done = tiny.run_again(path, again[0], "--bilstm_units=8")
    assert done.code == 2 and "reading was {" in done.err
    done = tiny.run_again(path, *again)
    assert done.code == 2 and "--bilstm_layers=1 is for a BiLSTM" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["google", "hugging_face", "keras"])
def test_weights_are_converted_with_their_head(tagged, tmp_path, form):
    path, data = tagged
    out = tmp_path / "out"
    tiny.succeed(
        "convert_checkpoint", f"--input={path}", f"--to={form}", f"--output_dir={out}"
    )
    assert (out / "head.json").read_bytes() == (path / "head.json").read_bytes()
    tiny.succeed(
        "run_tagger",
        f"--pretrained={out} --output_dir={tmp_path}/eval",
        f"--dev_file={data}/dev.conll --do_eval --max_seq_length=16",
    )
    found, expected = tiny.eval_results(tmp_path / "eval"), tiny.eval_results(path)
    assert found | {"global_step": STEPS} == expected
    if form == "hugging_face":  # whose library would read the last layer alone
        config = json.loads((out / "config.json").read_text())
        assert config["architectures"] == ["BertModel"]


@pytest.mark.slow
def test_pairs_are_compared_by_what_lstms_read(model_dir, tmp_path):
    """In parts of a batch; served, explained, and opened in Python."""
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
        "--num_train_epochs=40 --gradient_accumulation_steps=2 --explain=2",
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
    found = loaded.predict(*texts)
    assert [row["label"] for row in found] == [row["label"] for row in expected]


def test_questions_have_the_same_refusals(model_dir, tmp_path):
    data = tiny_questions.version_1(tmp_path / "dev.json", 2)
    done = tiny.run_script(
        "run_squad",
        f"--pretrained={model_dir} --train_file={data}",
        f"--do_train --bilstm_units=8 --output_dir={tmp_path}/out",
        "--max_seq_length=24 --max_query_length=4",
    )
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "--bilstm_units=8 is for a BiLSTM, and --head=linear" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_questions_are_answered_by_what_lstms_read(model_dir, tmp_path):
    """Learned, served, and answered again without a flag that says how."""
    tiny_questions.version_1(tmp_path / "train.json", 60)
    tiny_questions.version_1(tmp_path / "dev.json", 20, start=60)
    limits = ("--max_query_length=4", "--doc_stride=8", "--answer_aligner=words")
    limits += (f"--predict_file={tmp_path}/dev.json", "--do_predict")
    out, again = tmp_path / "out", tmp_path / "again"
    tiny.succeed(
        *("run_squad", f"--pretrained={model_dir}", f"--output_dir={out}", *limits),
        f"--train_file={tmp_path}/train.json --do_train --do_export",
        *(*FLAGS, *LEARN, "--max_seq_length=24", "--num_train_epochs=12"),
    )
    assert tiny.eval_results(out)["f1"] > 90
    step = int(tiny.eval_results(out)["global_step"])
    weights = whole_runs.variables(out, step)
    before = whole_runs.initial_variables(model_dir)
    kept = [name for name in weights if name.startswith("bert/")]
    for name in kept:
        np.testing.assert_array_equal(weights[name], before[name], err_msg=name)
    assert kept and weights["cls/squad/output_weights"].shape == (2, 64)
    tiny.succeed(
        *("run_squad", f"--pretrained={out}", f"--output_dir={again}", *limits),
        "--max_seq_length=24",
    )
    answers = (out / "predictions.json").read_bytes()
    assert (again / "predictions.json").read_bytes() == answers
    rows = json.loads((tmp_path / "dev.json").read_text())["data"][0]["paragraphs"]
    served = predictor.Predictor(str(out / "export")).predict(
        [row["qas"][0]["question"] for row in rows], [row["context"] for row in rows]
    )
    assert [row["answer"] for row in served] == [*json.loads(answers).values()]
    loaded = bert.load(out, max_seq_length=24)
    assert loaded.model.reading.head == "bilstm"
