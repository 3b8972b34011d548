"""run_classifier.py --teacher from end to end, on what tests/tiny.py writes."""

import re

import keras
import numpy as np
import pytest

import bert_reborn as bert
from contract import errors
from data_pipeline import label_maps
from data_pipeline.classification import labels
from loading import model_directory
from tests import tiny

pytestmark = pytest.mark.slow

LEARN = ("--learning_rate=2e-3", "--num_train_epochs=20", "--train_batch_size=8")
TEMPERATURE = 3.0
# Traced faster than gelu and two layers.
QUICK = {"num_hidden_layers": 1, "hidden_act": "relu"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The student before it learns; another vocabulary than the teacher's."""
    path = tiny.write_model(tmp_path_factory.mktemp("small"), **QUICK)
    first, *words = (path / "vocab.txt").read_text().splitlines()
    special = len(tiny.SPECIAL) - 1
    words = [*words[:special], *reversed(words[special:])]
    (path / "vocab.txt").write_text("\n".join([first, *words, ""]))
    return path


@pytest.fixture(scope="module")
def table_dir(tmp_path_factory):
    """Tables, and in wrong.tsv labels of which none is right."""
    path = tiny.write_tables(tmp_path_factory.mktemp("tables"))
    following = dict(zip(tiny.LABELS, tiny.LABELS[1:] + tiny.LABELS[:1], strict=True))
    wrong = [(text, following[label]) for text, label in tiny.rows(48)]
    tiny.write_tsv(path / "wrong.tsv", ("text", "label"), wrong)
    tiny.write_tsv(path / "few.tsv", ("text", "label"), wrong[:12])
    texts = [(text,) for text, _ in tiny.rows(36, 12)]
    tiny.write_tsv(path / "more.tsv", ("text",), texts)
    return path


def run(model, output_dir, *arguments, **settings):
    places = f"--pretrained={model} --output_dir={output_dir} --max_seq_length=16"
    return tiny.succeed("run_classifier", places, "--do_train", *arguments, **settings)


@pytest.fixture(scope="module")
def teacher(table_dir, tmp_path_factory):
    """A run that has learned which word decides."""
    model = tiny.write_model(tmp_path_factory.mktemp("large"), hidden_size=48, **QUICK)
    path = tmp_path_factory.mktemp("teacher")
    run(model, path, f"--train_file={table_dir}/train.tsv", *LEARN)
    return path


def test_student_learns_from_its_teacher_and_rows_without_labels(
    small, teacher, table_dir, tmp_path
):
    """Few labels, all wrong, and rows without."""
    path = tmp_path
    files = (f"--train_file={table_dir}/few.tsv", f"--dev_file={table_dir}/dev.tsv")
    done = run(
        *(small, path, *files, f"--unlabelled_file={table_dir}/more.tsv", "--do_eval"),
        f"--teacher={teacher} --distill_temperature={TEMPERATURE}",
        *(*LEARN, "--save_checkpoints_steps=100", "--log_steps=40"),
    )
    assert tiny.eval_results(path)["eval_accuracy"] > 0.9
    shown = f"unlabelled: 36 examples from {table_dir}/more.tsv"
    assert shown in done.out and "training: step 0 to 120" in done.out
    assert re.search(r"loss \d\.\d+ soft_loss \d\.\d+ label_loss \d\.\d+", done.err)
    tags = tiny.event_tags(path / "train")
    assert {"train/loss", "train/soft_loss", "train/label_loss"} <= tags.keys()
    assert {"eval/soft_loss", "eval/label_loss"} <= tiny.event_tags(
        path / "eval"
    ).keys()
    assert not (path / "unlabelled.tf_record").exists()
    # The losses are those of logits that the networks give by another way.
    table = tiny.rows(18, 48)
    texts, ids = [row[0] for row in table], [tiny.LABELS.index(row[1]) for row in table]
    loaded = [bert.load(each, max_seq_length=16) for each in (path, teacher)]
    logits = [
        np.asarray(each.model(each.encode(texts))["logits"], np.float64)
        for each in loaded
    ]

    def shares(values, temperature):
        shares = np.exp(values / temperature)
        return shares / shares.sum(axis=1, keepdims=True)

    supplied, shown = (shares(values, TEMPERATURE) for values in reversed(logits))
    soft = -(TEMPERATURE**2) * (supplied * np.log(shown)).sum(axis=1).mean()
    label = -np.log(shares(logits[0], 1.0)[np.arange(18), ids]).mean()
    results = tiny.eval_results(path)
    assert results["eval_soft_loss"] == pytest.approx(soft, rel=1e-4)
    assert results["eval_label_loss"] == pytest.approx(label, rel=1e-4, abs=1e-5)
    assert results["eval_loss"] == results["eval_label_loss"]


def test_teacher_computes_in_the_precision_of_the_run(
    small, table_dir, tmp_path, monkeypatch
):
    policies = []

    def read(*arguments):
        policies.append(keras.config.dtype_policy().name)
        raise errors.InputError("seen")

    labels_of_few = labels.Labels(tuple(tiny.LABELS))
    head = label_maps.Head("", 3, "", labels_of_few.names, True, labels_of_few)
    opened = model_directory.ModelDirectory
    monkeypatch.setattr(opened, "stored_head", lambda *_, **__: head)
    monkeypatch.setattr(opened, "find_head", lambda *_: ("classifier", 3))
    monkeypatch.setattr(opened, "build", read)
    before = keras.config.dtype_policy()
    for precision in ("bfloat16", None):
        more = [f"--mixed_precision={precision}"] if precision else []
        done = tiny.run_classifier(
            f"--pretrained={small} --output_dir={tmp_path} --do_train",
            *(f"--train_file={table_dir}/few.tsv", f"--teacher={small}", *more),
            "--max_seq_length=16",
        )
        assert done.code == 2 and "seen" in done.err
    keras.config.set_dtype_policy(before)
    assert policies == ["mixed_bfloat16", "float32"]


# Flags, and words of the line.
WRONG = {
    "--unlabelled_file=rows.tsv": (
        "--unlabelled_file=rows.tsv is read with --teacher|--teacher"
    ),
    "--distill_weight=0.5": "0.5|--teacher",
    "--teacher={teacher} --distill_temperature=0": (
        "--distill_temperature=0.0 is not 0.01 to 1000.0; give one such as 2"
    ),
    "--teacher={teacher} --distill_weight=0 --unlabelled_file=rows.tsv": (
        "--distill_weight=0 leaves nothing|rows.tsv"
    ),
    "--teacher={teacher} --output_dir={teacher}/../{name}": (
        "is the --output_dir of the student"
    ),
    "--teacher=missing": "--teacher=missing: no such directory",
    "--teacher={small}": "--teacher|no head of a classifier|--output_dir of a run",
    "--teacher={teacher} --labels=good,bad,fine,sad": (
        "['bad', 'fine', 'good']|['good', 'bad', 'fine', 'sad']|--labels=bad,fine,good"
    ),
    "--teacher={teacher} --problem_type=multi_label": (
        "was trained for classification|multi_label|--problem_type"
    ),
    "--teacher={teacher} --unlabelled_file={tables}/pairs.tsv": (
        "pairs.tsv|--text_b_column"
    ),
    "--teacher={teacher} --max_seq_length=49 --pretrained={long}": (
        "sequence length 49|{teacher}/bert_config.json"
    ),
}


@pytest.mark.parametrize("flags", WRONG)
def test_mistake_is_one_line_and_leaves_nothing(
    flags, teacher, small, table_dir, tmp_path
):
    places = {
        **{"teacher": teacher, "name": teacher.name, "small": small},
        **{"tables": table_dir, "long": tmp_path / "long"},
    }
    tiny.write_tsv(table_dir / "pairs.tsv", ("text_a", "text_b"), [("a film", "it")])
    if "{long}" in flags:
        longer = {"num_hidden_layers": 1, "max_position_embeddings": 64}
        tiny.write_model(places["long"], **longer)
    before = tiny.listing(teacher)
    line = tiny.refuse(
        "run_classifier",
        f"--pretrained={small} --output_dir={tmp_path}/out --do_train",
        f"--train_file={table_dir}/train.tsv --max_seq_length=16",
        flags.format(**places),
    )
    missing = [w for w in WRONG[flags].split("|") if w.format(**places) not in line]
    assert not missing, line
    assert not (tmp_path / "out").exists() and tiny.listing(teacher) == before
