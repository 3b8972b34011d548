"""docs/design.md: a new task, examples/run_ratings.py, learns."""

import json

import pytest
import tensorflow as tf

from tests import tiny


@pytest.mark.slow
def test_new_task_learns_predicts_and_exports(tmp_path):
    ratings = {"bad": "0 2", "fine": "1 1", "good": "2 0"}
    table = [(text, ratings[label]) for text, label in tiny.rows(48)]
    rows = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), table)
    model = tiny.write_model(tmp_path / "model", num_hidden_layers=1)
    files = [f"--{split}_file={rows}" for split in ("train", "dev", "test")]
    flags = [f"--pretrained={model}", f"--output_dir={tmp_path / 'out'}", *files]
    flags += ["--do_train", "--do_eval", "--do_predict", "--do_export"]
    flags += ["--max_seq_length=16", "--train_batch_size=8", "--learning_rate=1e-3"]
    done = tiny.run_script("examples.run_ratings", *flags, "--num_train_epochs=15")
    assert done.code == 0, done.err
    assert tiny.eval_results(tmp_path / "out")["eval_pearson"] > 0.8
    predicted = (tmp_path / "out/test_predictions.jsonl").read_text().splitlines()
    assert len(predicted) == 48 and len(json.loads(predicted[0])) == 2
    export = tmp_path / "out" / "export" / "1"
    served = tf.saved_model.load(str(export)).signatures["serving_default"]
    answers = served(text=tf.constant([table[0][0]]))["probabilities"].numpy()
    assert abs(answers[0] - json.loads(predicted[0])).max() < 1e-4
