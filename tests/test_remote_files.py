"""Everything that takes a path takes one of a remote file system.

Here that is TensorFlow's ram://, the memory of this process, which is reached through
the same interface as gs://.
"""

import os

import numpy as np
import pytest
import tensorflow as tf

import bert_reborn as bert
from data_pipeline import head_classes
from data_pipeline.generation import perplexity
from data_pipeline.seq2seq import pairs
from data_pipeline.squad import files
from data_pipeline.tables import label_files, labelled
from data_pipeline.tagging import files as tagged_files
from modeling.checkpoints import places
from tests import tiny
from tests.refusals import refused


@pytest.fixture(scope="module", autouse=True)
def directories():
    """Makes ram:// know directories as gs:// does: any beginning of a name is one.

    For the same reason nothing is exported here: a directory is not renamed with what
    is in it.
    """
    isdir = tf.io.gfile.isdir

    def has_files(path):
        is_ram = str(path).startswith("ram://")
        return bool(tf.io.gfile.glob(f"{path}/*")) if is_ram else isdir(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.io.gfile, "isdir", has_files)
        # Which looks for a directory first.
        reader = tf.compat.v1.train.NewCheckpointReader
        patch.setattr(tf.train, "load_checkpoint", reader)
        yield


def upload(directory, remote):
    tf.io.gfile.makedirs(remote)
    for path in directory.iterdir():
        tf.io.gfile.copy(str(path), f"{remote}/{path.name}", overwrite=True)
    return remote


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    local = tmp_path_factory.mktemp("local")
    tiny.write_model(local / "model", num_hidden_layers=1, hidden_act="relu")
    tiny.write_tables(local / "tables")
    upload(local / "model", "ram://remote/model")
    upload(local / "tables", "ram://remote/tables")
    return "ram://remote"


@pytest.fixture(scope="module")
def run(remote):
    done = tiny.run_classifier(
        f"--pretrained={remote}/model",
        *(f"--{split}_file={remote}/tables/{split}.tsv" for split in SPLITS),
        "--do_train --do_eval --do_predict",
        "--max_seq_length=16 --train_batch_size=8 --num_train_epochs=2",
        f"--learning_rate=1e-3 --output_dir={remote}/out --write_report",
    )
    assert done.code == 0, done.err
    return f"{remote}/out"


SPLITS = ("train", "dev", "test")


def read(path):
    with tf.io.gfile.GFile(path) as file:
        return file.read()


@pytest.mark.slow
def test_a_run_leaves_its_files_there(run):
    assert {
        *("bert_config.json", "vocab.txt", "run.json", "label_map.json"),
        *("eval_results.txt", "test_results.tsv", "test_predictions.jsonl"),
        "test_predictions.csv",
        *("report.html", "report.json", "README.md", "checkpoint"),
    } <= set(tf.io.gfile.listdir(run))
    assert "eval_accuracy" in read(f"{run}/eval_results.txt")


@pytest.mark.slow
def test_a_run_goes_on_there_and_python_reads_it(run, remote):
    done = tiny.run_classifier(
        f"--pretrained={run} --dev_file={remote}/tables/dev.tsv",
        f"--do_eval --max_seq_length=16 --output_dir={remote}/again",
    )
    assert done.code == 0, done.err
    first, again = (
        read(f"{path}/eval_results.txt") for path in (run, f"{remote}/again")
    )
    assert first == again
    rows = tiny.rows(10, 48 + 18)  # those of test.tsv
    predicted = bert.load(run, max_seq_length=16).predict([text for text, _ in rows])
    stored = [line.split("\t") for line in read(f"{run}/test_results.tsv").splitlines()]
    np.testing.assert_allclose(
        [[*row["probabilities"].values()] for row in predicted],
        np.array(stored, float),
        atol=1e-5,
    )


FILES = {
    "pairs.csv": "source;target\nGood morning.;Guten Tag.\nYes.;Ja.\n",
    "names.txt": "b\na\n",
    "label_map.json": '{"0": "bad", "1": "good"}',
    "choices.csv": "context,one,two,label\nIt rains.,Wet.,Dry.,one\n",
    "words.conll": "Ada B-PER\nspoke O\n",
    "squad.json": (
        '{"data": [{"paragraphs": [{"context": "Ada spoke.", "qas": '
        '[{"id": "1", "question": "Who?", "answers": []}]}]}]}'
    ),
}
CHOICES = labelled.Layout(text_a="context", choices=("one", "two"), label="label")
READERS = {
    "pairs": lambda d: list(
        pairs.open_rows(f"{d}/pairs.csv", pairs.Layout(), targets_required=True).rows
    ),
    "document": lambda d: perplexity.read(f"{d}/names.txt", as_one=True)[0][0],
    "labels": lambda d: label_files.read_labels(f"{d}/names.txt"),
    "label map": lambda d: head_classes.read(f"{d}/label_map.json", 2),
    "choices": lambda d: (
        labelled.read_table(f"{d}/choices.csv", CHOICES, labels_required=True).choices
    ),
    "tags": lambda d: (
        tagged_files.read(
            f"{d}/words.conll", tagged_files.Layout(), tags_required=True
        ).tags
    ),
    "squad": lambda d: (
        files.read_for_prediction(
            f"{d}/squad.json", version_2_with_negative=False
        ).texts
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_rows_are_read_there_as_here(tmp_path, name):
    remote = f"ram://rows/{name.replace(' ', '_')}"
    for path, text in FILES.items():
        for directory in (str(tmp_path), remote):
            tf.io.gfile.makedirs(os.path.dirname(f"{directory}/{path}"))
            with tf.io.gfile.GFile(f"{directory}/{path}", "w") as file:
                file.write(text)
    here, there = READERS[name](tmp_path), READERS[name](remote)
    assert here == there and here


@pytest.mark.parametrize("form", ["hugging_face", "keras"])
def test_weights_that_libraries_read_from_disk_are_copied(tmp_path, remote, form):
    path = tmp_path / form
    loaded = bert.load(f"{remote}/model", max_seq_length=16)
    if form == "keras":
        path.mkdir()
        loaded.model.save(path / "model.keras")
    else:
        loaded.save(path, form)
    file = places.open_file(upload(path, f"{remote}/{form}"))
    assert not file.source.startswith("ram://")
    local = places.open_file(path)
    assert dict(file.shapes) == dict(local.shapes) and file.shapes


# Arguments of Python, by the name that a message has, with a classifier to train.
DOORS = [
    ("directory", lambda path, _: bert.load(path)),
    ("directory", lambda path, _: bert.embedder(path)),
    ("directory", lambda path, made: made.save(path)),
    ("export_dir", lambda path, made: made.export(path)),
    ("export_dir", lambda path, _: bert.Predictor(path)),
    ("index_dir", lambda path, _: bert.SearchIndex.open(path)),
    ("output_dir", lambda path, made: made.fit(["a"], ["b"], output_dir=path)),
    ("rows", lambda path, made: made.fit(path)),
    ("rows", lambda path, made: made.read({"train": path})),
]


@pytest.mark.parametrize("number", range(len(DOORS)))
def test_python_names_a_file_system_that_is_not_there(remote, number):
    name, use = DOORS[number]
    made = tiny.as_trained(
        bert.classifier(f"{remote}/model", labels=["a", "b"], max_seq_length=16)
    )
    with refused(f"{name}=s3://bucket/a: TensorFlow has no s3:// here", "local path"):
        use("s3://bucket/a", made)


def test_python_expands_the_directory_of_a_user(remote, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    loaded = bert.load(f"{remote}/model", max_seq_length=16)
    loaded.save("~/saved")
    assert {path.name for path in tmp_path.iterdir()} == {"saved"}  # and no ~
    again = bert.load("~/saved", max_seq_length=16)
    assert again.source.startswith(str(tmp_path))
    for name, use in DOORS[4:6]:
        with refused(f"{name}={tmp_path}/none"):
            use("~/none", None)
    (tmp_path / "~").mkdir()  # one that is called so is meant
    with refused("directory=~: ", "no "):
        bert.load("~")
