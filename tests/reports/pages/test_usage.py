"""Commands that a shell reads as they are meant, whatever the directory is called."""

import pytest

from reports.pages import usage
from tests import printed_uses
from tests.reports import example_runs

FACTS = {"name": "mine", "changed_flags": [], **example_runs.facts()}


def uses(directory, **changes):
    actual = usage.uses({**FACTS, **changes}, directory)
    return {use.title: use.code for use in actual}


@pytest.mark.parametrize("directory", ["output/mine", "my runs/it's $1", "a;b"])
def test_shell_reads_the_directory(directory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = uses(directory)
    python = code.pop("Load it in Python")
    assert f"bert.load({directory!r}, max_seq_length=32)" in python
    actual = {title: printed_uses.words(line) for title, line in code.items()}
    assert actual == {
        "Predict rows of a file": [
            *("python", "run_classifier.py", f"--pretrained={directory}"),
            *("--do_predict", "--test_file=rows.tsv"),
            f"--output_dir={directory}/predictions",
        ],
        "Ask the export": [
            *("python", "-m", "serving.predictor"),
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
    flags |= {"version_2_with_negative": True, "learning_rate": 1e-5}
    words = printed_uses.words(
        uses("mine", flags=flags, changed_flags=[*flags])["Predict rows of a file"]
    )
    assert words[5:-1] == [
        *("--text_a_column=the text", "--has_header=false"),
        *("--max_seq_length=32", "--version_2_with_negative"),
    ]


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
