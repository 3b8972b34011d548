"""The printed command that predicts rows gives the answers of its run."""

import pathlib
import shutil

import pytest

from tests import printed_uses, tiny, tiny_questions, tiny_tags

BRIEF = "--learning_rate=1e-3 --num_train_epochs=1 --train_batch_size=8"


def labels(directory):
    """Rows of two labels each, with another sign between them than a comma."""
    for name, rows in (("train", tiny.rows(48)), ("test", tiny.rows(12, 48))):
        others = [label for _, label in rows[1:] + rows[:1]]
        cells = [
            (text, "|".join(sorted({label, other})))
            for (text, label), other in zip(rows, others, strict=True)
        ]
        tiny.write_tsv(directory / f"{name}.tsv", ("text", "label"), cells)
    return directory / "test.tsv"


def tags(directory):
    tiny_tags.write_splits(directory)
    return directory / "test.conll"


def pairs(directory):
    for name, rows in (("train", tiny.rows(48)), ("test", tiny.rows(12, 48))):
        cells = [(text, f"{label} film") for text, label in rows]
        tiny.write_tsv(directory / f"{name}.tsv", ("source", "target"), cells)
    return directory / "test.tsv"


def questions(directory):
    tiny_questions.version_1(directory / "train.json", 30)
    tiny_questions.version_1(directory / "test.json", 10, start=60)
    return directory / "test.json"


# (How data are written, flag of what is predicted, its file in the command, flags of
# the run, one without which answers differ, and their file) of each program.
CASES = {
    "run_classifier": (
        *(labels, "test_file", "rows.tsv"),
        "--problem_type=multi_label --label_separator=| --max_seq_length=16",
        "--multi_label_threshold=0.58",
        "test_predictions.jsonl",
    ),
    "run_tagger": (
        *(tags, "test_file", "rows.conll", "--max_seq_length=32"),
        *("--document_context", "test_predictions.jsonl"),
    ),
    "run_seq2seq": (
        *(pairs, "test_file", "rows.tsv"),
        "--max_source_length=16 --max_target_length=6 --seed=5",
        *("--do_sample", "test_predictions.jsonl"),
    ),
    "run_squad": (
        *(questions, "predict_file", "questions.json"),
        "--max_seq_length=24 --max_query_length=4 --doc_stride=8",
        *("--max_answer_length=1", "nbest_predictions.json"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("program", CASES)
def test_printed_command_repeats_the_answers(program, model_dir, tmp_path, monkeypatch):
    write, flag, rows, common, odd, answers = CASES[program]
    monkeypatch.chdir(tmp_path)
    place = pathlib.Path("path/to/out")
    predicted = write(tmp_path)
    files = f"--train_file={tmp_path}/train{predicted.suffix} --{flag}={predicted}"
    tiny.succeed(
        program,
        f"--pretrained={model_dir} --output_dir={place} --do_train --do_predict",
        f"{BRIEF} {files} {common} {odd} --write_report",
        draws=True,
    )
    expected = (place / answers).read_text("utf-8")
    shutil.copy(predicted, rows)
    code = printed_uses.of_card(place)["Predict rows of a file"]
    python, script, *arguments = printed_uses.words(code)
    assert (python, script) == ("python", f"{program}.py")
    tiny.succeed(program, *arguments)
    assert (place / "predictions" / answers).read_text("utf-8") == expected
    # Twin: without the flag there are other answers.
    others = [word for word in arguments if word != odd]
    assert len(others) == len(arguments) - 1
    tiny.succeed(program, *others, "--overwrite_output_dir")
    assert (place / "predictions" / answers).read_text("utf-8") != expected
