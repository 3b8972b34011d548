"""run_pretraining.py --objective=left_to_right, with a left-to-right BERT.

The masked objective and all that both share: test_run_pretraining.py.
"""

import math

import numpy as np
import pytest
import tensorflow as tf

from modeling import pretrainers
from modeling.checkpoints import checkpoint
from modeling.configs import config as config_lib
from tests import tiny

HELD_OUT, NUM_WORDS, NUM_BYTES = 14, 90, 500
BRIEF = (
    "--objective=left_to_right --max_seq_length=16 --train_batch_size=8",
    "--learning_rate=1e-3 --num_train_steps=12 --num_warmup_steps=2",
    "--optimizer=gpt_adam --learning_rate_schedule=gpt_cosine",
    "--save_checkpoints_steps=5 --log_steps=2 --eval_batch_size=4",
)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    # XLA, which the gelu of training needs, takes its time.
    changes = {"num_hidden_layers": 1, "hidden_act": "relu", "attention": "causal"}
    return tiny.write_model(path, **changes)


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory, model_dir):
    """Unmasked records as they are made for BERT; the held-out ones say their text."""
    path = tmp_path_factory.mktemp("records")
    tiny.write_records(path / "train", tiny.records(50, 0, is_masked=False))
    held_out = tiny.records(HELD_OUT, 2, is_masked=False)
    tiny.write_described(
        path / "held-out",
        held_out,
        model_dir / "vocab.txt",
        **tiny.FULL,
        num_predictions=int(held_out["input_mask"][:, 1:].sum()),
        num_words=NUM_WORDS,
        num_text_bytes=NUM_BYTES,
    )
    return path


def run(model_dir, records_dir, output_dir, *more):
    tiny.succeed(
        "run_pretraining",
        f"--pretrained={model_dir} --input_file={records_dir}/train",
        f"--eval_input_file={records_dir}/held-out --output_dir={output_dir}",
        *("--do_train", *BRIEF, *more),
    )


def expected_scores(config_file, weights):
    """Of all held-out records, in float64, from logits."""
    model = pretrainers.LanguageModel(config_lib.BertConfig.from_json_file(config_file))
    model.build()
    checkpoint.load(model, weights)
    rows = tiny.records(HELD_OUT, 2, is_masked=False)
    features = {
        name: tf.constant(rows[name], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    logits = np.asarray(model.logits(features), np.float64)[:, :-1]
    labels, mask = rows["input_ids"][:, 1:], rows["input_mask"][:, 1:]
    top = logits.max(-1, keepdims=True)
    normalized = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    own = np.take_along_axis(normalized, labels[..., None], -1)[..., 0]
    nats = -(own * mask).sum()
    hits = ((logits.argmax(-1) == labels) * mask).sum()
    return {
        "loss": nats / mask.sum(),
        "next_token_loss": nats / mask.sum(),
        "next_token_accuracy": hits / mask.sum(),
        "perplexity": math.exp(nats / mask.sum()),
        "word_perplexity": math.exp(nats / NUM_WORDS),
        "bits_per_byte": nats / math.log(2) / NUM_BYTES,
        "global_step": 12,
    }


def test_scores_are_exact_over_all_held_out_records(model_dir, records_dir, tmp_path):
    """14 records in batches of 4, the last of which counts as much as it holds."""
    more = ("--do_eval", "--evaluate_steps=6", "--max_eval_steps=0")
    run(model_dir, records_dir, tmp_path, *more)
    found = tiny.eval_results(tmp_path)
    expected = expected_scores(
        model_dir / "bert_config.json", tmp_path / "model.ckpt-12"
    )
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-5), name
    train, held_out = (tiny.events(tmp_path / kind) for kind in ("train", "eval"))
    assert [step for step, _ in held_out["eval/bits_per_byte"]] == [6, 12, 12]
    losses, perplexities = (
        [value for _, value in train[f"train/{name}"]]
        for name in ("next_token_loss", "perplexity")
    )
    assert len(losses) == 8
    assert perplexities == pytest.approx(np.exp(losses), rel=1e-5)


@pytest.mark.slow
def test_next_words_are_learned(model_dir, records_dir, tmp_path):
    more = ("--num_train_steps=300", "--do_eval", "--max_eval_steps=0")
    run(model_dir, records_dir, tmp_path, *more, "--learning_rate=1e-2")
    found = tiny.eval_results(tmp_path)
    assert found["next_token_accuracy"] > 0.6
    assert found["perplexity"] < 5  # of 43 tokens
