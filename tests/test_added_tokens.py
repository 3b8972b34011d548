"""Scripts on a directory with an added_tokens.json, as for words of a domain."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.text import wordpiece
from tests import tiny

# `CoVax` is found in any case and within words, `[E1]` as it is written.
TOKENS = ("CoVax", "[E1]")
TEXTS = ("the covaxes [E1] film", "COVAX-a [e1]", "a[E1]b covax", "the film")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """A model with rows for two more tokens than vocab.txt has."""
    path = tmp_path_factory.mktemp("uncased")
    size = len((tiny.write_model(path) / "vocab.txt").read_text().splitlines())
    tiny.write_model(path, num_hidden_layers=1, vocab_size=size + 2)
    ids = {token: size + i for i, token in enumerate(TOKENS)}
    (path / "added_tokens.json").write_text(json.dumps(ids))
    special = {"additional_special_tokens": ["[E1]"]}
    (path / "special_tokens_map.json").write_text(json.dumps(special))
    return path


@pytest.fixture(scope="module")
def trained(model_dir, tmp_path_factory):
    """(run directory, arguments) of a classifier with an export."""
    path = tmp_path_factory.mktemp("run")
    rows = [(text, label) for text in TEXTS for label in ("x", "y")]
    table = tiny.write_tsv(path.parent / "t.tsv", ("text", "label"), rows)
    arguments = (f"--test_file={table}", f"--output_dir={path}", "--max_seq_length=16")
    done = tiny.run_classifier(
        *(f"--pretrained={model_dir}", f"--train_file={table}", *arguments),
        *("--do_train", "--do_predict", "--do_export", "--train_batch_size=4"),
        *("--learning_rate=1e-2", "--num_train_epochs=1", "--nowrite_tf_records"),
    )
    assert done.code == 0, done.err
    return path, arguments


def tokens_of(vocab_file, texts):
    tokenizer = wordpiece.BertTokenizer.from_file(str(vocab_file))
    return [tokenizer.ids_to_tokens(row) for row in tokenizer.tokenize(texts).to_list()]


def test_run_directory_has_the_same_tokenizer(model_dir, trained):
    wanted = tokens_of(model_dir / "vocab.txt", TEXTS)
    assert wanted[:2] == [
        ["the", "CoVax", "[UNK]", "[E1]", "film"],
        ["CoVax", "[UNK]", "a", "[UNK]", "[UNK]", "[UNK]"],
    ]
    assert tokens_of(trained[0] / "vocab.txt", TEXTS) == wanted
    held = json.loads((trained[0] / "added_tokens.json").read_text())
    assert held == json.loads((model_dir / "added_tokens.json").read_text())


@pytest.mark.slow
def test_export_and_prediction_know_the_tokens(trained):
    path, arguments = trained
    before = [row["probabilities"] for row in tiny.predictions(path)]
    served = tf.saved_model.load(f"{path}/export/1").signatures["serving_default"]
    texts = [text for text in TEXTS for _ in range(2)]
    outputs = served(tf.constant(texts))["probabilities"].numpy()
    wanted = [list(row.values()) for row in before]
    np.testing.assert_allclose(outputs, wanted, atol=1e-5, rtol=0)
    # Predicting alone, with what the run directory says.
    done = tiny.run_classifier(f"--pretrained={path}", "--do_predict", *arguments)
    assert done.code == 0, done.err
    assert [row["probabilities"] for row in tiny.predictions(path)] == before
    # And without the tokens other numbers come out.
    texts = [text.lower().replace("covax", "zzz") for text in texts]
    other = served(tf.constant(texts))["probabilities"].numpy()
    assert np.abs(other - outputs).max() > 1e-4


def test_records_hold_the_tokens(model_dir, tmp_path):
    """And run_pretraining.py takes them with the same vocabulary."""
    (tmp_path / "t.txt").write_text("the covax film\nthe [E1] sea\na film\n\n" * 8)
    done = tiny.run_script(
        *("create_pretraining_data", f"--vocab_file={model_dir}/vocab.txt"),
        *(f"--input_file={tmp_path}/t.txt", f"--output_file={tmp_path}/r.tfrecord"),
        *("--max_seq_length=16", "--max_predictions_per_seq=3", "--num_workers=1"),
        "--dupe_factor=1",
    )
    assert done.code == 0, done.err
    ids = json.loads((model_dir / "added_tokens.json").read_text())
    held = set()
    for record in tf.data.TFRecordDataset(f"{tmp_path}/r.tfrecord"):
        feature = tf.train.Example.FromString(record.numpy()).features.feature
        for name in ("input_ids", "masked_lm_ids"):
            held |= set(feature[name].int64_list.value)
    assert set(ids.values()) <= held
    done = tiny.run_script(
        *("run_pretraining", f"--pretrained={model_dir}", "--do_eval"),
        *(f"--input_file={tmp_path}/r.tfrecord", f"--output_dir={tmp_path}/out"),
        *("--max_seq_length=16", "--max_predictions_per_seq=3", "--max_eval_steps=1"),
    )
    assert done.code == 0, done.err


def test_tokens_without_embeddings_are_refused(model_dir, tmp_path):
    tiny.write_model(tmp_path, num_hidden_layers=1)
    (tmp_path / "added_tokens.json").write_bytes(
        (model_dir / "added_tokens.json").read_bytes()
    )
    (tmp_path / "t.txt").write_text("a\n")
    done = tiny.run_script(
        *("extract_features", f"--pretrained={tmp_path}"),
        *(f"--input_file={tmp_path}/t.txt", f"--output_file={tmp_path}/o.jsonl"),
        "--max_seq_length=16",
    )
    assert done.code == 2
    message = (
        r"vocab\.txt with added_tokens\.json has \d+ entries, but .* vocab_size=\d+;"
    )
    assert re.search(message, done.err)
