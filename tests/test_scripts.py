"""What all scripts that train have in common, on the runs of tests/whole_runs.py."""

import json
import re
from typing import NamedTuple

import pytest

from tests import daily, killed, tiny, whole_runs

STEPS, SAVED = 12, (5, 10, 12)
BERT = "bert_config.json tokenizer_config.json vocab.txt"
TAGS = "test_tags.conll test_predictions.jsonl label_map.json"


class Row(NamedTuple):
    """A run, and what is its own.

    Attributes:
        results: names of files that hold the same bytes however often it was stopped.
        files: names of the other files that it leaves.
        change: a flag with which it is another run.
        reason: words of the line that refuses to go on with it.
    """

    results: str
    files: str
    change: str = "--train_batch_size=4"
    reason: str = "train_batch_size was 8 and is 4"


ROWS = {
    "classification": Row(
        "test_results.tsv test_predictions.jsonl test_predictions.csv",
        f"{BERT} label_map.json train.tf_record eval.tf_record predict.tf_record",
        "--class_weights=1,50,1",
        "class_weights was None and is '1,50,1'",
    ),
    "choice": Row(
        "test_results.tsv test_predictions.jsonl test_predictions.csv",
        f"{BERT} label_map.json train.tf_record eval.tf_record predict.tf_record",
        "--learning_rate=1e-2",
        "learning_rate was 0.002 and is 0.01",
    ),
    "questions": Row(
        "predictions.json nbest_predictions.json",
        f"{BERT} train.tf_record eval.tf_record",
        "--doc_stride=9",
        "doc_stride was 8 and is 9",
    ),
    "tagging": Row(TAGS, BERT),
    "vectors": Row(
        "test_vectors.npz",
        f"{BERT} modules.json 1_Pooling/config.json 2_Normalize/config.json "
        "config_sentence_transformers.json sentence_bert_config.json",
        "--scale=10",
        "scale was 20.0 and is 10.0",
    ),
    "layers": Row(TAGS, f"{BERT} head.json", "--bilstm_units=9", "reading was {"),
    "pairs": Row(
        "test_predictions.txt test_predictions.jsonl",
        "config.json generation_config.json tokenizer_config.json vocab.txt",
        "--max_target_length=3",
        "max_target_length was 4 and is 3",
    ),
    "pretraining": Row("", BERT, "--optimizer=lamb", "optimizer was 'adam' and is"),
    "masking": Row("", BERT, "--seed=2", "seed was 1 and is 2"),
    "left_to_right": Row(
        "", BERT, "--optimizer=adam", "optimizer was 'gpt_adam' and is 'adam'"
    ),
    "replaced_tokens": Row(
        "",
        "config.json tokenizer_config.json vocab.txt",
        "--discriminator_loss_weight=5",
        "discriminator_loss_weight was 50.0 and is 5.0",
    ),
    "denoising": Row(
        "",
        "config.json tokenizer_config.json vocab.txt",
        "--corruption=infilling",
        "corruption was 'random_spans' and is 'infilling'",
    ),
    "streams": Row(
        "",
        "options.json tokenizer_config.json vocab.txt",
        "--unroll_steps=6",
        "config was",
    ),
}
DAILY = ("pretraining",)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return whole_runs.write(tmp_path_factory.mktemp("data"))


@pytest.fixture(
    scope="module",
    params=daily.params(ROWS, lambda name: name in DAILY),
)
def whole(request, data, tmp_path_factory):
    """(row, directory, what was printed) of an uninterrupted run."""
    name, path = request.param, tmp_path_factory.mktemp(request.param)
    flags = whole_runs.arguments(name, data, steps=STEPS)
    done = tiny.succeed(
        whole_runs.SCRIPTS[name],
        *(*flags, f"--output_dir={path}"),
        "--save_checkpoints_steps=5 --log_steps=4",
    )
    return ROWS[name], path, done


def test_whole_run_leaves_these_files(whole):
    row, path, done = whole
    names = set(tiny.listing(path))
    events = {name.split("/")[0] for name in names if "tfevents" in name}
    assert events == {"train", "eval"}
    checkpoints = {
        f"model.ckpt-{step}.{ending}"
        for step in SAVED
        for ending in ("index", "data-00000-of-00001", "json")
    }
    written = {name for name in names if "tfevents" not in name}
    common = {"checkpoint", "eval_results.txt", "run.json"}
    assert written - checkpoints == {*common, *f"{row.results} {row.files}".split()}
    assert checkpoints < written
    assert f'path: "model.ckpt-{STEPS}"' in (path / "checkpoint").read_text()
    results = (path / "eval_results.txt").read_text()
    keys = [line.split(" = ")[0] for line in results.splitlines()]
    assert keys == sorted(keys) and f"global_step = {STEPS}\n" in results
    assert f"training: step 0 to {STEPS}" in done.out
    last = rf"^step {STEPS}/{STEPS} \(100 %\)  .*loss \d"
    assert re.search(last, done.err, re.M), done.err
    flags = json.loads((path / "run.json").read_text())["flags"]
    assert flags["do_train"] is True and flags["save_checkpoints_steps"] == 5


def test_run_that_ended_early_ends_as_the_uninterrupted_one(whole, tmp_path):
    """Bit for bit: weights, moments, states, dropout; and then nothing is left."""
    row, path, _ = whole
    results = ["eval_results.txt", *row.results.split()]
    killed.assert_ends_as(path, tmp_path, SAVED[0], results)
    before = tiny.listing(tmp_path)
    done = tiny.run_again(path, f"--output_dir={tmp_path}")
    assert done.code == 0, done.err
    assert f"step {STEPS} of {STEPS} is reached; raise --num_train_" in done.out
    after = tiny.listing(tmp_path)
    assert {name: after[name] for name in before} == before
    # The same point is added to the curves once more.
    assert all(name.startswith("eval/events") for name in after.keys() - before.keys())


@pytest.mark.slow
def test_another_run_is_refused_and_replaced_when_asked(whole, tmp_path):
    row, path, _ = whole
    killed.cut_off(path, tmp_path, SAVED[0])
    (tmp_path / "notes.txt").write_text("mine")
    before = tiny.listing(tmp_path)
    place = f"--output_dir={tmp_path}"
    done = tiny.run_again(path, place, row.change)
    assert done.code == 2 and f"holds another run: {row.reason}" in done.err
    assert "or add --overwrite_output_dir to replace it" in done.err
    assert tiny.listing(tmp_path) == before
    done = tiny.run_again(path, place, row.change, "--overwrite_output_dir")
    assert done.code == 0, done.err
    assert "training: step 0 to " in done.out
    assert (tmp_path / "notes.txt").read_text() == "mine"
