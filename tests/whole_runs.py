"""The command lines of tiny runs of each script, over data that is written for them."""

import pathlib

import numpy as np

from tests import tiny, tiny_elmo, tiny_questions, tiny_tags

# What a command line begins with, by the name of the run.
SCRIPTS = {
    "classification": "run_classifier",
    "questions": "run_squad",
    "tagging": "run_tagger",
    "frozen": "run_tagger",
    "layers": "run_tagger",
    "pretraining": "run_pretraining",
    "masking": "run_pretraining",
    "left_to_right": "run_pretraining",
    "streams": "run_pretraining",
}
# What of a network "layers" reads, beside "tagging".
LAYERS = ("--layer_mix=learned", "--head=bilstm")
LAYERS += ("--bilstm_units=8", "--gradient_accumulation_steps=2")
# A dropout that no config names. It depends on the number of replicas, and where runs
# on one and on two are compared there must be none.
NO_HEAD_DROPOUT = {"modeling.heads.HEAD_DROPOUT": 0.0}
STEPS = 40
BATCH_SIZE = 8


def write(directory):
    """Models with and without dropout, and the data of every run."""
    directory = pathlib.Path(directory)
    # XLA, which the gelu of training needs, takes its time, and so does each layer.
    changes = {"hidden_act": "relu", "num_hidden_layers": 1}
    tiny.write_model(directory / "model", **changes)
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    tiny.write_model(directory / "still", **changes, **none)
    causal = {**changes, "attention": "causal"}
    tiny.write_model(directory / "model_left_to_right", **causal)
    tiny.write_model(directory / "still_left_to_right", **causal, **none)
    tiny_elmo.write_model(directory / "model_streams")
    tiny_elmo.write_model(directory / "still_streams", dropout=0.0)
    for number, count in enumerate((30, 20)):
        tiny_elmo.write_sentences(directory / f"part-{number}.txt", count, number)
    tiny.write_tables(directory)
    tiny_tags.write_splits(directory)
    tiny_questions.version_1(directory / "train.json", 40)
    tiny_questions.version_1(directory / "dev.json", 12, start=40)
    tiny.write_records(directory / "masked.tfrecord", tiny.records(50))
    unmasked = tiny.records(50, is_masked=False)
    tiny.write_records(directory / "unmasked.tfrecord", unmasked)
    return directory


def arguments(name, directory, *, model="model", steps=STEPS, evaluates=True):
    """The flags of one run, without --output_dir.

    Args:
        name: one of SCRIPTS.
        directory: what `write` has filled.
        model: "model", or "still" for no dropout.
        steps: optimizer steps.
        evaluates: whether it evaluates and predicts, too.
    """
    files = {
        "classification": ("train.tsv", "dev.tsv", "test.tsv"),
        "tagging": ("train.conll", "dev.conll", "test.conll"),
        "frozen": ("train.conll", "dev.conll", "test.conll"),
        "layers": ("train.conll", "dev.conll", "test.conll"),
        "questions": ("train.json", "dev.json", "dev.json"),
    }.get(name)
    if name in ("left_to_right", "streams"):
        model = f"{model}_{name}"
    if name == "streams":
        found = [
            f"--pretrained={directory}/{model}",
            "--do_train",
            "--max_eval_steps=0",
        ]
        found += [
            f"--input_file={directory}/part-*.txt",
            "--objective=bidirectional_lm",
        ]
        found += [f"--train_batch_size={BATCH_SIZE}", f"--num_train_steps={steps}"]
        return found + ["--do_eval"] * evaluates
    found = [f"--pretrained={directory}/{model}", "--do_train"]
    found += [f"--train_batch_size={BATCH_SIZE}", "--learning_rate=2e-3"]
    if name == "frozen":
        found += ["--freeze_encoder", "--layer_mix=learned", "--feature_cache=disk"]
    if name == "layers":
        found += LAYERS
    if files:
        rows = {"questions": 40}.get(name, 48)
        found.append(f"--num_train_epochs={(steps + 0.5) * BATCH_SIZE / rows}")
        found.append(f"--train_file={directory}/{files[0]}")
        if name == "questions":
            found += [f"--predict_file={directory}/{files[1]}", "--max_seq_length=32"]
            found += ["--doc_stride=8", "--max_query_length=8"]
        else:
            found += [f"--dev_file={directory}/{files[1]}", "--max_seq_length=16"]
            found += [f"--test_file={directory}/{files[2]}"]
        if evaluates:
            found += ["--do_predict"] + ["--do_eval"] * (name != "questions")
        return found
    kind = "masked" if name == "pretraining" else "unmasked"
    found += [f"--input_file={directory}/{kind}.tfrecord", "--max_seq_length=16"]
    found += [f"--num_train_steps={steps}", "--num_warmup_steps=2"]
    if name == "left_to_right":
        found += ["--objective=left_to_right", "--optimizer=gpt_adam"]
        found += ["--learning_rate_schedule=gpt_cosine", "--max_eval_steps=0"]
    else:
        found += ["--max_predictions_per_seq=3", "--max_eval_steps=5"]
    return found + ["--do_eval"] * evaluates


def variables(directory, step=STEPS):
    """{name: array} of a checkpoint of a run."""
    return _variables(f"{directory}/model.ckpt-{step}")


def initial_variables(model):
    """{name: array} of the weights of a model's directory."""
    from modeling.checkpoints import checkpoint

    return _variables(checkpoint.find(model))


def _variables(prefix):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(prefix)
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def assert_equal(found, expected):
    """Bit for bit: weights, moments, step."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


# Weights that have no gradient but rounding, which Adam enlarges: those that move the
# scores of all keys alike, or, of all places of an answer.
UNDECIDED = (
    "self/key/bias",
    "cls/squad/output_bias",
    "layer_0/output/LayerNorm/beta",
)


def largest_difference(found, expected):
    """Of any weight whose gradient is more than rounding."""
    assert found.keys() == expected.keys()
    return max(
        float(np.abs(found[name] - value).max())
        for name, value in expected.items()
        if "adam_" not in name and not name.endswith(UNDECIDED)
    )
