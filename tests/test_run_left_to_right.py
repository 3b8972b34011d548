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
from tests import resumed_runs, tiny, whole_runs

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


def arguments(model_dir, records_dir, output_dir, *more):
    return (
        f"--pretrained={model_dir} --input_file={records_dir}/train",
        f"--eval_input_file={records_dir}/held-out --output_dir={output_dir}",
        *("--do_train", *BRIEF, *more),
    )


@pytest.fixture(scope="module")
def trained(model_dir, records_dir, tmp_path_factory):
    """(directory, what it printed) of a run that saves at 5, 10 and 12."""
    path = tmp_path_factory.mktemp("trained")
    more = ("--do_eval", "--evaluate_steps=6", "--max_eval_steps=0")
    flags_ = arguments(model_dir, records_dir, path, *more)
    done = tiny.run_script("run_pretraining", *flags_)
    assert done.code == 0, done.err
    return path, done


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


def test_scores_are_exact_over_all_held_out_records(trained, model_dir):
    """14 records in batches of 4, the last of which counts as much as it holds."""
    found = tiny.eval_results(trained[0])
    expected = expected_scores(
        model_dir / "bert_config.json", trained[0] / "model.ckpt-12"
    )
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-5), name


def test_curves_have_perplexities(trained):
    train, held_out = (tiny.events(trained[0] / kind) for kind in ("train", "eval"))
    for name in ("loss", "perplexity", "word_perplexity", "bits_per_byte"):
        assert [step for step, _ in held_out[f"eval/{name}"]] == [6, 12, 12]
        last = held_out[f"eval/{name}"][-1][1]
        assert last == pytest.approx(tiny.eval_results(trained[0])[name], rel=1e-6)
    losses = [loss for _, loss in train["train/next_token_loss"]]
    perplexities = [value for _, value in train["train/perplexity"]]
    assert len(losses) == 8
    assert perplexities == pytest.approx(np.exp(losses), rel=1e-5)


@pytest.mark.slow
def test_next_words_are_learned(model_dir, records_dir, tmp_path):
    more = ("--num_train_steps=300", "--do_eval", "--max_eval_steps=0")
    flags_ = arguments(model_dir, records_dir, tmp_path, *more, "--learning_rate=1e-2")
    done = tiny.run_script("run_pretraining", *flags_)
    assert done.code == 0, done.err
    found = tiny.eval_results(tmp_path)
    assert found["next_token_accuracy"] > 0.6
    assert found["perplexity"] < 5  # of 43 tokens


@pytest.mark.slow
def test_parts_of_a_batch_add_up(records_dir, tmp_path):
    """Without dropout; a part counts its own tokens, and the loss is of all."""
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    changes = {"num_hidden_layers": 1, "hidden_act": "relu", "attention": "causal"}
    model = tiny.write_model(tmp_path / "model", **changes, **still)
    for parts in (1, 4):
        flags_ = arguments(model, records_dir, tmp_path / str(parts))
        more = (f"--gradient_accumulation_steps={parts}", "--num_train_steps=3")
        done = tiny.run_script("run_pretraining", *flags_, *more)
        assert done.code == 0, done.err
    one, four = (whole_runs.variables(tmp_path / str(n), 3) for n in (1, 4))
    assert whole_runs.largest_difference(one, four) < 1e-5
    start = whole_runs.initial_variables(model)
    name = "bert/embeddings/word_embeddings"
    assert np.abs(one[name] - start[name]).max() > 1e-4


@pytest.mark.slow
def test_pages_of_a_run_name_its_kind(trained, tmp_path):
    """As text generation, for the hub, too."""
    resumed = tmp_path / "again"
    resumed_runs.cut_off(trained[0], resumed, 12)
    done = tiny.run_again(trained[0], f"--output_dir={resumed}", "--write_report")
    assert done.code == 0, done.err
    assert "pipeline_tag: text-generation" in (resumed / "README.md").read_text()
    assert "perplexity" in (resumed / "report.html").read_text()
