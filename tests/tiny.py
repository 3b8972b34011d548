"""A model and tables small enough that a script runs from end to end in a second."""

import contextlib
import io
import json
import pathlib
import sys
from typing import NamedTuple

import pytest
from absl import flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Which word of a text decides its label; the others say nothing.
SIGNS = {"bad": "awful", "fine": "okay", "good": "great"}
FILLERS = ["the", "a", "film", "shop", "was", "really", "and", "it", "sea", "very"]
LABELS = sorted(SIGNS)


def write_model(directory, **changes):
    """A directory as Google's zip has it, of 2 layers x 32, random weights in it."""
    import keras

    from modeling import checkpoint, models
    from modeling import config as config_lib

    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    vocab = [*SPECIAL, *FILLERS, *SIGNS.values(), *"abcdefghijklmnopqrstuvwxyz.,"]
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
    model = models.BertPretrainer(config)
    model.build()
    checkpoint.save_google(directory / "bert_model.ckpt", model)
    return directory


def rows(count, start=0):
    """(text, label) pairs; equal arguments give equal rows, lengths vary."""
    found = []
    for i in range(start, start + count):
        label = LABELS[i % 3]
        words = [FILLERS[(i * 7 + j * 3) % 10] for j in range(2 + i // 3 % 6)]
        words.insert(i % len(words), SIGNS[label])
        found.append((" ".join(words), label))
    return found


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


class Done(NamedTuple):
    """What a script printed, and how it ended."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def classifier_flags():
    """Defines the flags of run_classifier.py anew; gives their names."""
    import run_classifier as script

    _forget_flags()
    script.define_flags()
    yield [flag.name for flag in _defined_flags()]
    _forget_flags()


def _defined_flags():
    modules = flags.FLAGS.flags_by_module_dict()
    return [*modules.get("run_classifier", []), *modules.get("training.flags", [])]


def _forget_flags():
    for flag in _defined_flags():
        delattr(flags.FLAGS, flag.name)


def run_classifier(*arguments):
    """The script run_classifier.py in this process; an exception passes through."""
    import run_classifier as script

    out, err = io.StringIO(), io.StringIO()
    code = 0
    with classifier_flags(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["run_classifier", *map(str, arguments)])
        flags.FLAGS(sys.argv)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                script.main([])
            except SystemExit as error:
                code = error.code
    return Done(code or 0, out.getvalue(), err.getvalue())


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
