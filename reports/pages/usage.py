"""Commands that load, use and serve the files of a run."""

import itertools
import json
import os
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from contract import export_formats, programs, tf_serving


class Kind(NamedTuple):
    """A kind of task."""

    program: str  # that trains it
    rows_flag: str  # of the script, for the file to predict, or ""
    example: str  # a text for the exported model, or two with a tab between them
    title: str


_PREDICTOR = "run_predictor"
_FEATURES = "feature-extraction"  # of an ELMo, which transformers does not have
_VECTORS = "sentence-similarity"
_TEXT_TO_TEXT = "text2text-generation"  # which bert_reborn.py does not open
# By the name that the hub has for it.
KINDS = {
    "text-classification": Kind(
        "run_classifier", "test_file=rows.tsv", "A text.", "Text classification"
    ),
    "multiple-choice": Kind(
        "run_classifier", "test_file=rows.tsv", "A context.", "Choice of answers"
    ),
    "token-classification": Kind(
        "run_tagger", "test_file=rows.conll", "A sentence.", "Tagging of words"
    ),
    "question-answering": Kind(
        "run_squad",
        "predict_file=questions.json",
        "When does it open?\tThe fair opens on Monday.",
        "Question answering",
    ),
    _VECTORS: Kind("run_embedding", "", "A text.", "Vectors of texts"),
    _TEXT_TO_TEXT: Kind(
        "run_seq2seq", "test_file=rows.tsv", "A text.", "Sequence to sequence"
    ),
    "fill-mask": Kind("run_pretraining", "", "The sea is [MASK].", "Pretraining"),
    "text-generation": Kind("run_pretraining", "", "The sea is", "Pretraining"),
    _FEATURES: Kind("run_pretraining", "", "A text.", "Pretraining"),
}
_TEXTS_OF_A_CHOICE = {
    "context": "A context.",
    "question": "What follows?",
    "choices": "An answer.",
}


class Use(NamedTuple):
    """One thing to do, with its code."""

    title: str
    code: str
    language: str = "bash"


def place(directory: str) -> str:
    """A run's directory in commands: relative, never with the path of a machine."""
    if "://" in directory:
        return directory.rstrip("/")
    relative = os.path.relpath(directory)
    if relative == os.curdir or relative.startswith(os.pardir):
        return f"path/to/{os.path.basename(os.path.abspath(directory))}"
    return relative


def origin(record: Mapping[str, Any]) -> str:
    """The name of the weights that training began with, or ""."""
    flags = record["flags"]
    if not record["trains"]:
        return ""
    named = flags.get("pretrained") or flags.get("init_checkpoint") or ""
    return os.path.basename(str(named).rstrip("/"))


def uses(record: Mapping[str, Any], directory: str) -> list[Use]:
    """The things to do with a run whose directory has this name in commands."""
    kind, flags = KINDS[record["kind"]], record["flags"]
    where = shlex.quote(directory)
    usable = []
    if record["has_weights"] and record["kind"] != _TEXT_TO_TEXT:
        usable.append(Use("Load it in Python", _loading(record, directory), "python"))
    if record["has_weights"] and kind.rows_flag:
        repeated = [
            _flag(name, flags[name])
            for name in record["answer_flags"]
            if flags.get(name) is not None
        ]
        arguments = [f"--pretrained={where}", "--do_predict", f"--{kind.rows_flag}"]
        arguments += [*repeated, f"--output_dir={where}/predictions"]
        usable.append(_use("Predict rows of a file", kind.program, arguments))
    for folder, export_format in record["exports"]:
        export = f"--export_dir={where}/{folder}"
        example = _example(record)
        quoted = "$" + repr(example) if "\t" in example else f'"{example}"'
        is_default = export_format == export_formats.SAVED_MODEL
        of_format = "" if is_default else f" in {export_format}"
        asked = [export, quoted]
        usable.append(_use(f"Ask the export{of_format}", _PREDICTOR, asked))
        if not is_default:
            served = [export, "--serve"]
            usable.append(_use(f"Serve the export{of_format}", _PREDICTOR, served))
        elif "://" not in directory:  # docker mounts directories of the machine
            serving = _serving(record, where)
            usable.append(Use("Serve it with TensorFlow Serving", serving))
    if record["has_weights"] and record["kind"] == _FEATURES:
        arguments = [f"--pretrained={where}", "--input_file=texts.txt"]
        arguments += ["--output_file=features.npz", "--output_format=npz"]
        usable.append(_use("Extract features", "extract_features", arguments))
    elif record["has_weights"]:
        arguments = [f"--input={where}", "--to=hugging_face"]
        arguments.append(f"--output_dir={where}/hugging_face")
        title = "Convert it for transformers"
        usable.append(_use(title, "convert_checkpoint", arguments))
    return usable


def on_lines(command: str) -> str:
    """A command with a line for each flag, to be read, and typed as it is."""
    words = shlex.split(command)
    first = sum(1 for _ in itertools.takewhile(lambda w: w[:2] != "--", words))
    quoted = [shlex.quote(word) for word in words]
    return " \\\n  ".join([" ".join(quoted[:first]), *quoted[first:]])


def _example(record):
    names = record.get("text_names") or ()
    if "choices" in names:
        return "\t".join(_TEXTS_OF_A_CHOICE[name] for name in names)
    pair = "One text.\tAnother text."
    return pair if len(names) > 1 else KINDS[record["kind"]].example


def _loading(record, directory):
    length = f"max_seq_length={record['flags']['max_seq_length']}"
    # Python's `encode` masks no words.
    example = "A text." if record["kind"] == "fill-mask" else _example(record)
    texts = example.split("\t")
    choices = (record.get("text_names") or ()).count("choices")
    arguments = [f'["{text}"]' for text in texts[: len(texts) - choices]]
    if choices:
        arguments.append(f"choices=[{json.dumps(texts[-choices:])}]")
    statement = f"outputs = loaded.model(loaded.encode({', '.join(arguments)}))"
    if record["kind"] in ("text-classification", "multiple-choice"):
        statement = f"answers = loaded.predict({', '.join(arguments)})"
    if record["kind"] == _VECTORS:
        statement = f"vectors = loaded.embed({', '.join(arguments)})"
    loading = f"loaded = bert.load({directory!r}, {length})"
    return f"import bert_reborn as bert\n\n{loading}\n{statement}"


def _serving(record, where):
    name = record["name"] if record["name"].isidentifier() else "model"
    port = tf_serving.REST_PORT
    return (
        f"docker run -p {port}:{port} -e MODEL_NAME={name} \\\n"
        f'  -v "$PWD"/{where}/export:/models/{name} tensorflow/serving:2.20.0'
    )


def _flag(name, value):
    flag, equals, text = programs.spell(name, value).partition("=")
    return f"{flag}{equals}{shlex.quote(text)}" if equals else flag


def _use(title, program, arguments):
    return Use(title, " \\\n  ".join([programs.command(program), *arguments]))
