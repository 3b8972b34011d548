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


def write_model(path, more_rows):
    """A model whose vocabulary has two tokens more than vocab.txt."""
    size = len((tiny.write_model(path) / "vocab.txt").read_text().splitlines())
    tiny.write_model(path, num_hidden_layers=1, vocab_size=size + more_rows)
    ids = {token: size + i for i, token in enumerate(TOKENS)}
    (path / "added_tokens.json").write_text(json.dumps(ids))
    special = {"additional_special_tokens": ["[E1]"]}
    (path / "special_tokens_map.json").write_text(json.dumps(special))
    return path


@pytest.mark.slow
def test_run_directory_and_export_have_the_tokens(tmp_path):
    model, run = write_model(tmp_path / "model", 2), tmp_path / "run"
    rows = [(text, label) for text in TEXTS for label in ("x", "y")]
    table = tiny.write_tsv(tmp_path / "t.tsv", ("text", "label"), rows)
    done = tiny.run_classifier(
        f"--pretrained={model} --train_file={table} --test_file={table}",
        f"--output_dir={run} --do_train --do_predict --do_export",
        "--max_seq_length=16 --train_batch_size=4 --learning_rate=1e-2",
        "--num_train_epochs=1 --nowrite_tf_records",
    )
    assert done.code == 0, done.err
    tokenizer = wordpiece.BertTokenizer.from_file(f"{run}/vocab.txt")
    tokens = tokenizer.ids_to_tokens(tokenizer.tokenize(TEXTS[0]).numpy())
    assert tokens == ["the", "CoVax", "[UNK]", "[E1]", "film"]
    served = tf.saved_model.load(f"{run}/export/1").signatures["serving_default"]
    outputs = served(tf.constant([text for text, _ in rows]))["probabilities"]
    predicted = [[*row["probabilities"].values()] for row in tiny.predictions(run)]
    np.testing.assert_allclose(outputs, predicted, atol=1e-5, rtol=0)
    # Without the tokens other numbers come out.
    texts = [text.lower().replace("covax", "zzz") for text, _ in rows]
    other = served(tf.constant(texts))["probabilities"]
    assert np.abs(other - outputs).max() > 1e-4


def test_tokens_without_embeddings_are_refused(tmp_path):
    (tmp_path / "t.txt").write_text("a\n")
    line = tiny.refuse(
        "extract_features",
        f"--pretrained={write_model(tmp_path / 'model', 0)} --max_seq_length=16",
        f"--input_file={tmp_path}/t.txt --output_file={tmp_path}/o.jsonl",
    )
    message = r"vocab\.txt has \d+ entries, added ones included, but .* vocab_size=\d+;"
    assert re.search(message, line)
