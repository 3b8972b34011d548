"""run_tagger.py from end to end, on a tiny model and sentences made for it."""

import json

import numpy as np
import pytest
import tensorflow as tf

from contract import wording
from data_pipeline.tagging import files as tagged_files
from data_pipeline.tagging import schemes
from data_pipeline.tagging import scores as tag_scores
from tests import tiny, tiny_tags

ACTIONS = ("--do_train", "--do_eval", "--do_predict")
# Enough to learn which words are tagged how, in some seconds.
LEARN = ("--learning_rate=3e-3", "--num_train_epochs=30", "--train_batch_size=8")
BRIEF = ("--learning_rate=1e-3", "--num_train_epochs=1", "--train_batch_size=8")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("uncased_model")
    # XLA, which the gelu of training needs, takes its time.
    return tiny.write_model(path, hidden_act="relu")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_tags.write_splits(tmp_path_factory.mktemp("tags"))


def files(data, *splits):
    splits = splits or ("train", "dev", "test")
    return [f"--{split}_file={data}/{split}.conll" for split in splits]


def run(model, output_dir, *arguments, **settings):
    places = f"--pretrained={model} --output_dir={output_dir} --max_seq_length=16"
    return tiny.succeed("run_tagger", places, *arguments, **settings)


@pytest.fixture(scope="module")
def trained(model_dir, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    more = (*ACTIONS, *LEARN, "--save_checkpoints_steps=80")
    return path, run(model_dir, path, *files(data), *more, draws=True)


def tags_of(path):
    layout = tagged_files.Layout()
    return tagged_files.read(str(path), layout, tags_required=True).tags


def test_whole_run_learns_and_scores_its_tags(trained, data):
    path, done = trained
    results = tiny.eval_results(path)
    assert results["eval_f1"] > 0.8 and results["global_step"] == 180
    kinds = {name.removeprefix("eval_f1_") for name in results if "_f1_" in name}
    assert kinds == set(tiny.LABELS)
    tags = json.loads((path / "label_map.json").read_text())
    assert tags["0"] == "O" and tags["tag_scheme"] == "BIO" and len(tags) == 9
    # The scores printed of the test sentences are those of the file that is written.
    scores = tag_scores.score(
        tags_of(data / "test.conll"), tags_of(path / "test_tags.conll"), "BIO"
    )
    for name, value in scores.items():
        assert f"  test_{name} = {wording.score(value)}\n" in done.out
    assert scores["f1"] > 0.8
    assert "newly initialised: output_weights, output_bias" in done.out


def test_predictions_stand_beside_the_input(trained, data):
    path, _ = trained
    before = (data / "test.conll").read_text().splitlines()
    after = (path / "test_tags.conll").read_text().splitlines()
    is_word = [bool(line) and not line.startswith("-DOCSTART-") for line in before]
    cut = [
        line.rsplit(" ", 1)[0] if word else line
        for line, word in zip(after, is_word, strict=True)
    ]
    assert cut == before
    rows = tiny.predictions(path)
    assert [(r["words"], r["given"]) for r in rows] == tiny_tags.sentences(10, 60)
    assert [row["tags"] for row in rows] == tags_of(path / "test_tags.conll")
    shares = np.concatenate([row["probabilities"] for row in rows])
    assert len(shares) == sum(is_word) and 0.15 < shares.min() <= shares.max() <= 1
    assert sum(len(row["spans"]) for row in rows) > 10


@pytest.mark.slow
def test_numbers_and_spans_are_read_as_columns_are(trained, data, tmp_path):
    path, _ = trained
    tags = json.loads((path / "label_map.json").read_text())
    names = [tags[str(i)] for i in range(7)]
    numbers = [
        {"tokens": words, "ner_tags": [names.index(tag) for tag in tags]}
        for words, tags in tiny_tags.sentences(12, 48)
    ]
    texts = []
    for words, tags in tiny_tags.sentences(10, 60):
        starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
        spans = [
            [starts[span.start], starts[span.end] - 1, span.type]
            for span in schemes.spans(tags, "BIO")
        ]
        texts.append({"text": " ".join(words), "label": spans})
    for name, rows in (("dev", numbers), ("test", texts)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    places = f"--dev_file={tmp_path}/dev.jsonl --test_file={tmp_path}/test.jsonl"
    more = ("--do_eval", "--do_predict", f"--labels={','.join(names)}")
    done = run(path, tmp_path, places, *more)
    assert "labels: scheme BIO, 7 tags: O, B-" in done.out
    for name in ("eval_results.txt", "test_predictions.jsonl"):
        assert (tmp_path / name).read_bytes() == (path / name).read_bytes()
    assert tags_of(tmp_path / "test_tags.jsonl") == tags_of(path / "test_tags.conll")
    unnamed = f"--pretrained={path} --output_dir={tmp_path}/no --do_eval {places}"
    error = tiny.refuse("run_tagger", unnamed)
    assert "dev.jsonl:1: ner_tags has" in error and "--labels" in error


@pytest.mark.slow
def test_predictions_equal_those_of_the_run(trained, data, tmp_path):
    path, _ = trained
    more = (*files(data, "dev", "test"), "--do_eval", "--do_predict")
    more += ("--predict_batch_size=3", "--pad_to_max_length")
    done = run(path, tmp_path, *more)
    for name in ("test_tags.conll", "eval_results.txt"):
        assert (tmp_path / name).read_bytes() == (path / name).read_bytes()
    assert "model.ckpt-180" in done.out and "windows, " in done.out


@pytest.mark.slow
def test_export_answers_as_the_predictions_say(trained, tmp_path):
    rows = [*tiny_tags.sentences(10, 60), tiny_tags.sentence(3, length=40)]
    path = tiny_tags.write_conll(tmp_path / "test.conll", rows)
    more = (f"--test_file={path}", "--do_predict", "--do_export", "--window_stride=5")
    done = run(trained[0], tmp_path, *more)
    version = tmp_path / "export" / "1"
    assert f"exported: {version}\n" in done.out
    name = "label_map.json"
    map_beside = (version / "assets.extra" / name).read_bytes()
    assert map_beside == (trained[0] / name).read_bytes()
    tag = tf.saved_model.load(str(version)).signatures["words"]
    cells = [[*words, *[""] * (40 - len(words))] for words, _ in rows]
    actual = {name: values.numpy() for name, values in tag(tf.constant(cells)).items()}
    predicted = tiny.predictions(tmp_path)
    assert len(predicted) == len(rows)
    for i, row in enumerate(predicted):
        count = len(row["words"])
        assert [tag.decode() for tag in actual["tags"][i, :count]] == row["tags"]
        np.testing.assert_allclose(
            actual["probabilities"][i, :count], row["probabilities"], atol=1e-5
        )
        assert set(actual["tags"][i, count:]) <= {b""}


@pytest.mark.slow
def test_words_without_tags_are_tagged_in_windows_and_not_scored(trained, tmp_path):
    long, tags = tiny_tags.sentence(3, length=40)
    rows = [*tiny_tags.sentences(10, 60), (long, tags)]
    path = tiny_tags.write_conll(tmp_path / "blind.txt", rows, has_tags=False)
    out = tmp_path / "out"
    done = run(trained[0], out, f"--test_file={path}", "--do_predict")
    assert "test_f1" not in done.out
    *short, last = tiny.predictions(out)
    assert short == [
        {k: v for k, v in row.items() if k not in ("given", "correct")}
        for row in tiny.predictions(trained[0])
    ]
    # 14 tokens fit: what lies beyond the first window is tagged like the rest of it.
    right = np.array(last["tags"]) == np.array(tags)
    assert right[14:].mean() > 0.8 and set(tags[14:]) > {"O"}


@pytest.mark.slow
def test_lists_of_tags_may_name_placeholders(model_dir, data, tmp_path):
    spans = [f"{letter}-{name}" for name in tiny.LABELS for letter in "BI"]
    names = ["PAD", "UNK", "O", *spans]
    (tmp_path / "tags.txt").write_text("".join(f"{name}\n" for name in names))
    labels = f"--labels={tmp_path}/tags.txt"
    splits = ("train", "dev", "test")
    done = run(
        model_dir, tmp_path / "out", *files(data, *splits), *ACTIONS, *BRIEF, labels
    )
    assert "labels: ['PAD', 'UNK'] are not of the scheme BIO" in done.out
    label_map = json.loads((tmp_path / "out" / "label_map.json").read_text())
    assert [label_map[str(i)] for i in range(len(names))] == names
    assert label_map["tag_scheme"] == "BIO"
    rows = tiny.predictions(tmp_path / "out")
    assert {tag for row in rows for tag in row["tags"]} <= set(names[2:])
