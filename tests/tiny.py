"""A model and tables small enough that a script runs from end to end in a second."""

import contextlib
import functools
import gc
import importlib
import io
import json
import logging
import pathlib
import re
import shlex
import sys
from typing import NamedTuple

import pytest

from contract import errors
from serving.server import doors

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Which word of a text decides its label; the others say nothing.
SIGNS = {"bad": "awful", "fine": "okay", "good": "great"}
FILLERS = ["the", "a", "film", "shop", "was", "really", "and", "it", "sea", "very"]
# Of vocabularies, which have the letters as well, so that "a" is not here.
OWN_WORDS = [*SPECIAL, *FILLERS, *SIGNS.values()]
OWN_WORDS[OWN_WORDS.index("a")] = "[unused0]"
LABELS = sorted(SIGNS)


# With these, words of other texts are spelled, too.
LETTERS = tuple(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")


def write_model(directory, pieces=(), **changes):
    """A directory as Google's zip has it, of 2 layers x 32, random weights in it.

    `pieces` are added to its vocabulary, such as LETTERS.
    """
    import keras

    from modeling import pretrainers
    from modeling.checkpoints import google
    from modeling.configs import config as config_lib

    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    vocab = [*OWN_WORDS, *"abcdefghijklmnopqrstuvwxyz.,"]
    vocab += pieces
    (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab))
    raw = {
        "vocab_size": len(vocab),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 48,
        "type_vocab_size": 2,
        "initializer_range": 0.1,  # with 0.02 such a small network hardly reacts
        **changes,
    }
    config = config_lib.BertConfig.from_dict(raw)
    (directory / "bert_config.json").write_text(config.to_json_string())
    keras.utils.set_random_seed(7)
    model = pretrainers.BertPretrainer(config)
    model.build()
    google.save(directory / "bert_model.ckpt", model)
    return directory


def write_electra(directory, **changes):
    """An ELECTRA of 2 layers x 32, and its generator of half the width, beside it."""
    import keras

    from modeling import replaced
    from modeling.checkpoints import google
    from modeling.networks import electra

    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    vocab = [*OWN_WORDS, *"abcdefghijklmnopqrstuvwxyz.,"]
    (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab))
    raw = {
        "model_type": "electra",
        "vocab_size": len(vocab),
        "embedding_size": 16,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "hidden_act": "relu",
        "max_position_embeddings": 48,
        "initializer_range": 0.1,
        **changes,
    }
    config = electra.ElectraConfig.from_dict(raw)
    (directory / "config.json").write_text(config.to_json_string())
    keras.utils.set_random_seed(7)
    model = replaced.ReplacedTokenDetector(config, 0.5)
    model.build()
    google.save(directory / "electra.ckpt", model)
    return directory


def encoder_decoder(bert):
    """A config.json of Hugging Face with this bert_config.json for both sides."""
    side = {**bert, "model_type": "bert", "layer_norm_eps": 1e-12}
    side["hidden_act"] = side["hidden_act"].replace("gelu", "gelu_new")
    return {
        "model_type": "encoder-decoder",
        "encoder": side,
        "decoder": {**side, "is_decoder": True, "add_cross_attention": True},
        "decoder_start_token_id": SPECIAL.index("[CLS]"),
        "eos_token_id": SPECIAL.index("[SEP]"),
        "pad_token_id": 0,
    }


def as_trained(made):
    """A bert.Loaded or the like, the bias of its new head as a training moves it."""
    bias = made.model.trainable_variables[-1]
    bias.assign(bias + 0.01)
    return made


def rows(count, start=0):
    """(text, label) pairs; equal arguments give equal rows, lengths vary."""
    actual = []
    for i in range(start, start + count):
        label = LABELS[i % 3]
        words = [FILLERS[(i * 7 + j * 3) % 10] for j in range(2 + i // 3 % 6)]
        words.insert(i % len(words), SIGNS[label])
        actual.append((" ".join(words), label))
    return actual


def head_of(classes, source="run/label_map.json", **changes):
    """The label_maps.Head of labels or tags, as a label_map.json describes it."""
    from data_pipeline import label_maps

    kind, names = label_maps.kind(classes), classes.names
    head = label_maps.Head(source, classes.num_outputs, kind, names, True, classes)
    return head._replace(**changes)


def write_tsv(path, header, table):
    lines = [header, *table] if header else table
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    pathlib.Path(path).write_text(text, encoding="utf-8")
    return path


def write_tables(directory, train=48, dev=18, test=10):
    """train.tsv, dev.tsv and test.tsv with the columns text and label."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    start = 0
    for name, count in (("train", train), ("dev", dev), ("test", test)):
        table = rows(count, start)
        write_tsv(directory / f"{name}.tsv", ("text", "label"), table)
        start += count
    return directory


def records(count, seed=0, *, length=16, predictions=3, is_masked=True):
    """Features of pretraining records: arrays [count, ...], by name.

    Words follow each other in the order of FILLERS, so that a hidden one can be
    learned; sentence B goes on with it, or in half of the records goes backwards.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    pad, _, cls, sep, mask = range(len(SPECIAL))
    actual = {
        name: np.zeros((count, length), np.int64)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    masked = {
        "masked_lm_positions": np.zeros((count, predictions), np.int64),
        "masked_lm_ids": np.zeros((count, predictions), np.int64),
        "masked_lm_weights": np.zeros((count, predictions), np.float32),
    }
    actual["next_sentence_labels"] = rng.integers(0, 2, (count, 1))
    for i in range(count):
        first, second = rng.integers(3, (length - 3) // 2 + 1, 2)
        step = -1 if actual["next_sentence_labels"][i, 0] else 1
        start = rng.integers(len(FILLERS))
        words = [start + j for j in range(first)]
        words += [words[-1] + step * (j + 1) for j in range(second)]
        words = [len(SPECIAL) + word % len(FILLERS) for word in words]
        ids = np.array([cls, *words[:first], sep, *words[first:], sep])
        actual["segment_ids"][i, first + 2 : len(ids)] = 1
        actual["input_mask"][i, : len(ids)] = 1
        places = np.setdiff1d(np.arange(len(ids)), [0, first + 1, len(ids) - 1])
        places = np.sort(rng.permutation(places)[: 1 + i % predictions])
        if is_masked:
            masked["masked_lm_positions"][i, : len(places)] = places
            masked["masked_lm_ids"][i, : len(places)] = ids[places]
            masked["masked_lm_weights"][i, : len(places)] = 1.0
            ids[places] = mask
        actual["input_ids"][i] = np.pad(
            ids, (0, length - len(ids)), constant_values=pad
        )
    return {**actual, **masked} if is_masked else actual


def write_records(path, features):
    """A TFRecord file as create_pretraining_data.py of the original writes it."""
    import tensorflow as tf

    def feature(values):
        if values.dtype.kind == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in range(len(features["input_mask"])):
            row = {name: feature(values[i]) for name, values in features.items()}
            example = tf.train.Example(features=tf.train.Features(feature=row))
            writer.write(example.SerializeToString())
    return path


def write_described(path, features, vocab_file, **changes):
    """`write_records`, and beside them the metadata of records of `records`."""
    from data_pipeline.pretraining import metadata

    write_records(path, features)
    vocab = vocab_file.read_text().split()
    known = {
        **{"max_seq_length": 16, "max_predictions_per_seq": 3, "masking": "word_piece"},
        **{"masked_lm_prob": 0.15, "sentence_task": "next", "do_lower_case": True},
        **{"dupe_factor": 1, "short_seq_prob": 0.1, "random_seed": 1},
        "vocab_size": len(vocab),
        "vocab_digest": metadata.vocab_digest(vocab),
        "num_instances": len(features["input_ids"]),
        "num_bytes": path.stat().st_size,
    }
    metadata.write(str(path), metadata.Metadata(**(known | changes)))


# Changes of `write_described` for records from left to right.
FULL = {
    **{"objective": "left_to_right", "masking": "none", "max_predictions_per_seq": 0},
    **{"masked_lm_prob": 0.0, "sentence_task": "none", "short_seq_prob": 0.0},
}


class Done(NamedTuple):
    code: int
    out: str
    err: str
    log: str = ""


def settings_class(program):
    """The settings of run_classifier, examples.run_ratings, ..."""
    from tasks.settings import fields

    found = vars(_imported(program)).values()
    (kind,) = [
        each
        for each in found
        if isinstance(each, type)
        and issubclass(each, fields.Settings)
        and each.program == program
    ]
    return kind


def settings_of(program, *arguments):
    """The settings of a command line; not checked."""
    from cli import command_line
    from tasks.settings import fields

    kind = settings_class(program)
    values = command_line.define(kind)
    if arguments:
        values([program, *map(str, arguments)])
    names = [name for name in fields.rows(kind) if values[name].present]
    return kind(**{name: values[name].value for name in names})


def flag_defaults(program):
    """{name: default} of its flags; None where one must be given."""
    from cli import command_line
    from tasks.settings import fields

    kind = settings_class(program)
    values = command_line.define(kind)
    return {name: values[name].default for name in fields.rows(kind)}


@functools.cache
def _imported(script):
    """Its module. TensorFlow's million objects stay: no collection looks at them."""
    module = importlib.import_module(script)
    gc.collect()
    gc.freeze()
    return module


@contextlib.contextmanager
def _logged():
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    try:
        yield text
    finally:
        logging.getLogger().removeHandler(handler)


def words(*texts):
    """The flags in texts; a value may have spaces, too."""
    return [
        word for text in texts for word in re.split(r"\s+(?=--)", f"{text}") if word
    ]


def run_script(script, *arguments, draws=False):
    """A script such as run_classifier in this process; an exception passes through.

    An argument holds a flag, or several with spaces between. Unless it `draws`, the
    script makes neither pictures nor a report, which take longer than such a run.
    """
    from tasks.settings import fields

    if "write_report" in fields.rows(settings_class(script)) and not draws:
        arguments = ("--nowrite_report", *arguments)
    return run_program(script, *words(*arguments), draws=draws)


def run_program(program, *arguments, draws=True):
    """`run_script` with words of a command line as they are."""
    from cli import command_line

    out, err = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch, _logged() as log:
        patch.setattr(sys, "argv", [program, *map(str, arguments)])
        patch.setattr(sys, "excepthook", sys.excepthook)
        patch.setattr(command_line, "load_tensorflow", lambda **_: None)
        patch.setattr(errors, "heed", lambda signals: None)
        patch.setattr(doors, "end_at_sigterm", lambda: None)
        patch.setattr(
            command_line.app, "run", lambda main, flags_parser: main(flags_parser(None))
        )
        if not draws and "reports.pictures" in sys.modules:
            patch.setattr("reports.pictures.choose", lambda seen: {})
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                start(_imported(program))
            except SystemExit as error:
                code = error.code
    return Done(code or 0, out.getvalue(), err.getvalue(), log.getvalue())


def start(module):
    """Runs the command of a module, in this process."""
    from cli import command_line

    if main := vars(module).get("main"):
        main()
    else:  # an example in one file
        kind = settings_class(module.__name__)
        command_line.run(module.run, command_line.parse(kind, module.__doc__))


def succeed(script, *texts, **settings):
    """`run_script`, which must end well."""
    done = run_script(script, *texts, **settings)
    assert done.code == 0, done.err
    return done


def refuse(script, *texts):
    """`run_script`, which must end in one line; returns that."""
    done = run_script(script, *texts)
    assert done.code == 2, done.err
    *_, line = done.err.splitlines()
    assert line.startswith("error: ") and done.err.count("error: ") == 1, done.err
    assert "Traceback" not in done.err
    return line


def run_again(directory, *more, **settings):
    """The command that run.json of a run's directory holds, with further flags."""
    command = json.loads((directory / "run.json").read_text())["command"]
    program, script, *arguments = shlex.split(command)
    assert program == "python" and f"--output_dir={directory}" in arguments
    return run_script(script.removesuffix(".py"), *arguments, *more, **settings)


def run_classifier(*arguments, **settings):
    """`run_script` of the script that most tests run."""
    return run_script("run_classifier", *arguments, **settings)


def event_tags(directory):
    """{tag: its plugin} in TensorBoard's event files of train/ or eval/."""
    import tensorflow as tf

    return {
        value.tag: value.metadata.plugin_data.plugin_name
        for path in pathlib.Path(directory).glob("events.*")
        for record in tf.data.TFRecordDataset(str(path))
        for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value
    }


def events(directory):
    """{tag: [(step, value)]} in event files, in the order in which they were written.

    Values that are no scalars are bytes, or lists.
    """
    import tensorflow as tf
    from tensorboard.backend.event_processing import event_accumulator

    accumulator = event_accumulator.EventAccumulator(
        str(directory), size_guidance={"tensors": 0}
    )
    accumulator.Reload()
    return {
        tag: [
            (event.step, tf.make_ndarray(event.tensor_proto).tolist())
            for event in accumulator.Tensors(tag)
        ]
        for tag in accumulator.Tags()["tensors"]
    }


def eval_results(directory):
    """{name: number} of eval_results.txt."""
    text = (pathlib.Path(directory) / "eval_results.txt").read_text()
    return {k: float(v) for k, v in (line.split(" = ") for line in text.splitlines())}


def predictions(directory):
    """The objects of test_predictions.jsonl."""
    path = pathlib.Path(directory) / "test_predictions.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def listing(directory):
    """{relative path: bytes} of all files below a directory."""
    directory = pathlib.Path(directory)
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}
