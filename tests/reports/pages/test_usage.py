"""Commands that a shell reads as they are meant, whatever the directory is called."""

import pathlib

import pytest

from contract import programs
from reports.pages import record, usage
from tasks.settings import fields
from tests import other_values, printed_uses, tiny
from tests.reports import example_runs

ROOT = pathlib.Path(__file__).resolve().parents[3]
FACTS = {"name": "mine", "answer_flags": [], **example_runs.facts()}


def uses(directory, **changes):
    actual = usage.uses({**FACTS, **changes}, directory)
    return {use.title: use.code for use in actual}


@pytest.mark.parametrize("directory", ["output/mine", "my runs/it's $1", "a;b"])
def test_shell_reads_the_directory(directory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = uses(directory)
    python = code.pop("Load it in Python")
    assert python.startswith("import bert_reborn as bert\n")
    assert f"bert.load({directory!r}, max_seq_length=32)" in python
    actual = {title: printed_uses.words(line) for title, line in code.items()}
    assert actual == {
        "Predict rows of a file": [
            *("python", "run_classifier.py", f"--pretrained={directory}"),
            *("--do_predict", "--test_file=rows.tsv"),
            f"--output_dir={directory}/predictions",
        ],
        "Ask the export": [
            *("python", "run_predictor.py"),
            *(f"--export_dir={directory}/export", "A text."),
        ],
        "Serve it with TensorFlow Serving": [
            *("docker", "run", "-p", "8501:8501", "-e", "MODEL_NAME=mine"),
            *("-v", f"{tmp_path}/{directory}/export:/models/mine"),
            "tensorflow/serving:2.20.0",
        ],
        "Convert it for transformers": [
            *("python", "convert_checkpoint.py", f"--input={directory}"),
            *("--to=hugging_face", f"--output_dir={directory}/hugging_face"),
        ],
    }


def test_rows_are_read_as_those_of_training():
    flags = {"max_seq_length": 32, "text_a_column": "the text", "has_header": "false"}
    flags |= {"encoding": "cp1252"}
    flags |= {"version_2_with_negative": True}
    words = printed_uses.words(
        uses("mine", flags=flags, answer_flags=[*flags])["Predict rows of a file"]
    )
    assert words[5:-1] == [
        *("--max_seq_length=32", "--text_a_column=the text", "--has_header=false"),
        *("--encoding=cp1252", "--version_2_with_negative"),
    ]


def predicting(kind, settings):
    """The flags of the command that predicts, but for its directories."""
    made = record.build(
        None,
        directory="mine",
        flags=settings.values(),
        defaults=settings.defaults(),
        answer_flags=settings.that_change(fields.ANSWERS),
        data={},
    )
    code = usage.uses({**FACTS, **made, "kind": kind}, "mine")
    (line,) = (use.code for use in code if use.title == "Predict rows of a file")
    python, script, first, *words, last = printed_uses.words(line)
    assert (python, script) == ("python", f"{settings.program}.py")
    assert (first, last) == ("--pretrained=mine", "--output_dir=mine/predictions")
    return words


@pytest.mark.parametrize(
    ("kind", "program", "arguments", "repeated"),
    [
        (
            "text-classification",
            "run_classifier",
            "--task_name=rte --seed=7 --learning_rate=1 --max_seq_length=128 "
            "--multi_label_threshold=0 --quote= --nocheck_case --allow_empty_text",
            # The length is the usual one.
            "--quote= --allow_empty_text --multi_label_threshold=0.0 --nocheck_case",
        ),
        (
            "multiple-choice",
            "run_classifier",
            "--choice_columns=a,b --delimiter=; --label_column=c --test_file=d",
            "--choice_columns=a,b --delimiter=;",
        ),
        (
            "question-answering",
            "run_squad",
            "--task_name=drcd --n_best_size=3 --train_batch_size=4 --doc_stride=9",
            "--task_name=drcd --n_best_size=3 --doc_stride=9",
        ),
        (
            "text2text-generation",
            "run_seq2seq",
            "--seed=7 --do_sample --source_column=a --do_train --num_train_epochs=1",
            "--seed=7 --do_sample --source_column=a",
        ),
    ],
)
def test_settings_that_change_answers_are_repeated_whatever_their_values(
    kind, program, arguments, repeated
):
    words = predicting(kind, tiny.settings_of(program, *arguments.split()))
    assert words[:2] == ["--do_predict", f"--{usage.KINDS[kind].rows_flag}"]
    assert sorted(words[2:]) == sorted(repeated.split())


@pytest.mark.parametrize("kind", [k for k, v in usage.KINDS.items() if v.rows_flag])
def test_every_setting_that_changes_answers_is_repeated(kind):
    """And no other one; its twin trains, in tests/test_printed_predictions.py."""
    program = usage.KINDS[kind].program
    known = fields.rows(tiny.settings_class(program))
    given = {name: other_values.other_value(row) for name, row in known.items()}
    settings = tiny.settings_class(program)(**given)
    words = predicting(kind, settings)
    repeated = tiny.settings_of(program, *words)
    rows_file = usage.KINDS[kind].rows_flag.partition("=")[0]
    changing = {name for name, row in known.items() if "answers" in row.rules.changes}
    assert repeated.given == changing | {"do_predict", rows_file}
    for name in changing:
        assert getattr(repeated, name) == getattr(settings, name), name


def test_setting_without_a_value_is_not_repeated():
    """Its default may be another one where a network has its own."""
    flags = {"max_seq_length": 32, "delimiter": None}
    actual = uses("mine", flags=flags, answer_flags=["delimiter"])
    words = printed_uses.words(actual["Predict rows of a file"])
    assert words == printed_uses.words(uses("mine")["Predict rows of a file"])


def test_exports_of_all_formats_are_asked_and_served():
    assert "Ask the export" not in uses("mine", exports=[])
    code = uses("mine", exports=[["export_onnx", "onnx"], ["export_litert", "litert"]])
    assert "docker" not in str(code) and "Ask the export" not in code
    for name in ("onnx", "litert"):
        asked = printed_uses.words(code[f"Ask the export in {name}"])
        served = printed_uses.words(code[f"Serve the export in {name}"])
        export = f"--export_dir=mine/export_{name}"
        assert asked == ["python", "run_predictor.py", export, "A text."]
        assert served == [*asked[:-1], "--serve"]


def test_installed_programs_are_modules_of_the_wheel(monkeypatch):
    in_checkout = uses("mine")
    monkeypatch.setattr(programs, "PACKAGE", "bert_reborn")
    for title, code in uses("mine").items():
        if code.startswith("python "):
            python, option, module, *words = printed_uses.words(code)
            assert words == printed_uses.words(in_checkout[title])[-len(words) :]
            assert (python, option, module[:12]) == ("python", "-m", "bert_reborn.")
            path = module.removeprefix("bert_reborn.").replace(".", "/") + ".py"
            assert (ROOT / path).is_file()


def test_command_has_a_line_for_each_flag():
    command = "python run_predictor.py --a=1 '--b=x --y' --c"
    lines = usage.on_lines(command).split(" \\\n  ")
    assert lines == ["python run_predictor.py", "--a=1", "'--b=x --y'", "--c"]
    assert printed_uses.words(usage.on_lines(command)) == printed_uses.words(command)
    assert usage.on_lines("python a.py one two") == "python a.py one two"


def test_docker_mounts_no_bucket():
    assert "docker" not in str(uses("gs://bucket/mine"))


@pytest.mark.parametrize(
    ("changes", "options", "encoded"),
    [
        (
            {"text_names": ["text_a", "text_b"]},
            "One text.\tAnother text.",
            '["One text."], ["Another text."]',
        ),
        (
            {"text_names": ["context", "choices", "choices"]},
            "A context.\tAn answer.\tAn answer.",
            '["A context."], choices=[["An answer.", "An answer."]]',
        ),
        ({"kind": "token-classification"}, "A sentence.", '"A sentence."]'),
        ({"kind": "fill-mask"}, "The sea is [MASK].", '"A text."]'),
        ({"kind": "text-generation"}, "The sea is", '"The sea is"]'),
        (
            {"kind": "question-answering"},
            "When does it open?\tThe fair opens on Monday.",
            '["When does it open?"], ["The fair opens on Monday."]',
        ),
    ],
)
def test_examples_suit_the_task(changes, options, encoded):
    code = uses("output/mine", **changes)
    assert printed_uses.words(code["Ask the export"])[-1] == options
    assert encoded in code["Load it in Python"]
