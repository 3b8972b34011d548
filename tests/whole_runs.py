"""The command lines of tiny runs of each script, over data that is written for them."""

import json
import pathlib

import numpy as np

from tests import tiny, tiny_elmo, tiny_questions, tiny_tags

STEPS = 40
BATCH_SIZE = 8
# What "layers" reads of a network, beside "tagging".
LAYERS = ("--layer_mix=learned", "--head=bilstm")
LAYERS += ("--bilstm_units=8", "--gradient_accumulation_steps=2")
_TABLES = " ".join(f"--{s}_file={{d}}/{s}.tsv" for s in ("train", "dev", "test"))
_TABLES += " --max_seq_length=16"
_TAGS = _TABLES.replace(".tsv", ".conll")
_RECORDS = "--input_file={d}/%s.tfrecord --max_seq_length=16 --num_warmup_steps=2"
_MASKS = " --max_predictions_per_seq=3 --max_eval_steps=5"
# {name of the run: (script, flags, what is evaluated and predicted)}, {d} for the data.
RUNS = {
    "classification": ("run_classifier", _TABLES, "--do_eval --do_predict"),
    "choice": (
        "run_classifier",
        "--train_file={d}/choices.tsv --dev_file={d}/choices.tsv --test_file={d}/"
        "choices.tsv --choice_columns=one,two --max_seq_length=16",
        "--do_eval --do_predict",
    ),
    "questions": (
        "run_squad",
        "--train_file={d}/train.json --predict_file={d}/dev.json --max_seq_length=32 "
        "--doc_stride=8 --max_query_length=8",
        "--do_predict",
    ),
    "tagging": (
        "run_tagger",
        f"{_TAGS} --pack_sequences --pad_to_max_length",
        "--do_eval --do_predict",
    ),
    "vectors": (
        "run_embedding",
        "--train_file={d}/near.tsv --dev_file={d}/near.tsv --test_file={d}/near.tsv "
        "--text_a_column=one --text_b_column=two --negative_columns=other "
        "--max_seq_length=16 --gradient_accumulation_steps=2",
        "--do_eval --do_predict",
    ),
    "frozen": (
        "run_tagger",
        f"{_TAGS} --freeze_encoder --layer_mix=learned",
        "--do_eval --do_predict",
    ),
    "layers": ("run_tagger", f"{_TAGS} {' '.join(LAYERS)}", "--do_eval --do_predict"),
    "pairs": (
        "run_seq2seq",
        _TABLES.replace("--max_seq", "--max_source") + " --max_target_length=4 "
        "--source_column=text --target_column=label",
        "--do_eval --do_predict",
    ),
    "pretraining": ("run_pretraining", _RECORDS % "masked" + _MASKS, "--do_eval"),
    "masking": (
        "run_pretraining",
        _RECORDS % "unmasked" + _MASKS + " --pack_sequences",
        "--do_eval",
    ),
    "replaced_tokens": (
        "run_pretraining",
        _RECORDS % "unmasked" + " --max_predictions_per_seq=3 --max_eval_steps=0 "
        "--objective=replaced_tokens --generator_size=0.5",
        "--do_eval",
    ),
    "left_to_right": (
        "run_pretraining",
        _RECORDS % "unmasked" + " --objective=left_to_right --optimizer=gpt_adam "
        "--learning_rate_schedule=gpt_cosine --max_eval_steps=0",
        "--do_eval",
    ),
    "denoising": (
        "run_pretraining",
        _RECORDS % "full" + " --objective=denoising --max_eval_steps=0",
        "--do_eval",
    ),
    "streams": (
        "run_pretraining",
        "--input_file={d}/part-*.txt --objective=bidirectional_lm --max_eval_steps=0",
        "--do_eval",
    ),
}
SCRIPTS = {name: script for name, (script, _, _) in RUNS.items()}
# Networks of their own.
_MODELS = {
    "left_to_right": "_left_to_right",
    "replaced_tokens": "_electra",
    "streams": "_streams",
}
_NUM_ROWS = {"questions": 40, "choice": 16}  # 48 in the others
# A dropout that no config names. It depends on the number of replicas, and where runs
# on one and on two are compared there must be none.
NO_HEAD_DROPOUT = {"modeling.heads.HEAD_DROPOUT": 0.0}


def write(directory):
    directory = pathlib.Path(directory)
    # XLA, which the gelu of training needs, takes its time, and so does each layer.
    changes = {"hidden_act": "relu", "num_hidden_layers": 1}
    tiny.write_model(directory / "model", **changes)
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    deep = {**changes, "num_hidden_layers": 4}  # whose blocks are traced once
    tiny.write_model(directory / "deep", **deep, **none)
    tiny.write_model(directory / "still", **changes, **none)
    causal = {**changes, "attention": "causal"}
    tiny.write_model(directory / "model_left_to_right", **causal)
    tiny.write_model(directory / "still_left_to_right", **causal, **none)
    tiny.write_electra(directory / "model_electra", num_hidden_layers=1)
    tiny.write_electra(directory / "still_electra", num_hidden_layers=1, **none)
    tiny_elmo.write_model(directory / "model_streams")
    tiny_elmo.write_model(directory / "still_streams", dropout=0.0)
    for name in ("model", "still"):
        bert = (directory / name / "bert_config.json").read_text()
        config = tiny.encoder_decoder(json.loads(bert))
        (directory / f"{name}_pairs.json").write_text(json.dumps(config))
    for number, count in enumerate((30, 20)):
        tiny_elmo.write_sentences(directory / f"part-{number}.txt", count, number)
    write_texts(directory)
    unmasked = tiny.records(50, is_masked=False)
    vocab_file = directory / "model" / "vocab.txt"
    full = directory / "full.tfrecord"
    tiny.write_described(full, unmasked, vocab_file, **tiny.FULL)
    return directory


def write_texts(directory):
    """What `write` writes beside models and all that has to fit one."""
    tiny.write_tables(directory)
    rows = [(text, "great", "awful", "one") for text, _ in tiny.rows(16)]
    header = ("text", "one", "two", "label")
    tiny.write_tsv(directory / "choices.tsv", header, rows)
    rows = [(text, f"{label} {text}", label) for text, label in tiny.rows(48)]
    tiny.write_tsv(directory / "near.tsv", ("one", "two", "other"), rows)
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
        name: one of RUNS.
        directory: what `write` has filled.
        model: "model", or "still" for no dropout, or "deep" for 4 layers of it.
        steps: optimizer steps.
        evaluates: whether it evaluates and predicts, too.
    """
    script, flags, actions = RUNS[name]
    common = f"--do_train --train_batch_size={BATCH_SIZE} --num_train_steps={steps}"
    if script != "run_pretraining":
        epochs = (steps + 0.5) * BATCH_SIZE / _NUM_ROWS.get(name, 48)
        common = (
            f"--do_train --train_batch_size={BATCH_SIZE} --num_train_epochs={epochs}"
        )
    weights = f"{{d}}/{model}{_MODELS.get(name, '')}"
    network = f"--pretrained={weights}"
    if name == "denoising":
        network = f"--bert_config_file={weights}_pairs.json"
        network += f" --vocab_file={weights}/vocab.txt"
    if name != "streams":
        common += " --learning_rate=2e-3"
    text = f"{network} {common} {flags} {actions if evaluates else ''}"
    return text.format(d=directory).split()


def variables(directory, step=STEPS):
    """{name: array} of a checkpoint of a run."""
    return _variables(f"{directory}/model.ckpt-{step}")


def initial_variables(model):
    """{name: array} of the weights of a model's directory."""
    from modeling.checkpoints import places

    return _variables(places.find(model))


def _variables(prefix):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(prefix)
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def assert_equal(actual, expected):
    """Bit for bit: weights, moments, step."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


# Weights that have no gradient but rounding, which Adam enlarges: those that move the
# scores of all keys alike, or, of all places of an answer.
UNDECIDED = ("self/key/bias", "cls/squad/output_bias", "layer_0/output/LayerNorm/beta")


def largest_difference(actual, expected):
    assert actual.keys() == expected.keys()
    return max(
        float(np.abs(actual[name] - value).max())
        for name, value in expected.items()
        if "adam_" not in name and not name.endswith(UNDECIDED)
    )
