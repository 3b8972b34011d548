"""run_pretraining.py --objective=denoising, from end to end.

The noise: tests/data_pipeline/denoising. What runs share: test_run_pretraining.py.
"""

import json
import math

import numpy as np
import pytest

from data_pipeline.pretraining.denoising import batches as denoising_batches
from data_pipeline.pretraining.denoising import corruptions
from data_pipeline.text import wordpiece
from modeling import pretrainers
from modeling.checkpoints import checkpoint
from modeling.configs import config_files
from tests import tiny

HELD_OUT = 14
BRIEF = (
    "--objective=denoising --max_seq_length=16 --train_batch_size=8",
    "--learning_rate=1e-3 --num_train_steps=12 --num_warmup_steps=2",
    "--save_checkpoints_steps=5 --log_steps=2 --eval_batch_size=4",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A config, a vocabulary, and records to train on and held out."""
    path = tmp_path_factory.mktemp("data")
    changes = {"num_hidden_layers": 1, "hidden_act": "relu"}
    bert = tiny.write_model(path / "bert", **changes)
    config = tiny.encoder_decoder(json.loads((bert / "bert_config.json").read_text()))
    (path / "config.json").write_text(json.dumps(config))
    (path / "vocab.txt").write_text((bert / "vocab.txt").read_text())
    for name, count, seed in (("train", 50, 0), ("held-out", HELD_OUT, 2)):
        records = tiny.records(count, seed, is_masked=False)
        tiny.write_described(path / name, records, path / "vocab.txt", **tiny.FULL)
    return path


def run(data, output_dir, *more):
    return tiny.run_script(
        "run_pretraining",
        f"--bert_config_file={data}/config.json --vocab_file={data}/vocab.txt",
        f"--input_file={data}/train --eval_input_file={data}/held-out",
        *(f"--output_dir={output_dir}", "--do_train", *BRIEF, *more),
    )


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """(directory, what it printed) of a run that saves at 5, 10 and 12."""
    path = tmp_path_factory.mktemp("trained")
    done = run(data, path, "--do_eval", "--evaluate_steps=6", "--max_eval_steps=0")
    assert done.code == 0, done.err
    return path, done


def test_scores_are_means_over_all_tokens_of_held_out_targets(trained, data):
    """Of the same noise at each evaluation, computed row by row."""
    path = trained[0]
    config = config_files.read(path / "config.json")
    model = pretrainers.build("seq2seq", None, config)
    checkpoint.load(model, path)
    texts = denoising_batches.load(
        {"input_file": f"{data}/train", "eval_input_file": f"{data}/held-out"},
        wordpiece.BertTokenizer.from_file(f"{data}/vocab.txt", do_lower_case=True),
        corruptions.rule("random_spans"),
        **{"max_seq_length": 16, "vocab_size": config.vocab_size, "spare_rows": 0},
        tokens=config.decoder_tokens,
    )
    total = right = count = 0.0
    for batch in texts.evaluation_batches(1, HELD_OUT):
        outputs, mask = model(batch), batch["decoder_mask"].numpy()
        total += float((outputs["next_token_losses"].numpy() * mask).sum())
        right += float((outputs["next_token_hits"].numpy() * mask).sum())
        count += mask.sum()
    assert count > 3 * HELD_OUT
    loss = total / count
    assert tiny.eval_results(path) == pytest.approx(
        {
            **{"loss": loss, "target_token_loss": loss, "perplexity": math.exp(loss)},
            **{"target_token_accuracy": right / count, "global_step": 12},
        },
        rel=1e-5,
    )
    curve = [value for _, value in tiny.events(path / "train")["train/loss"]]
    assert curve[-1] < curve[0]
    assert "texts: up to 14 tokens; sources up to 15, targets up to 4" in trained[1].out


@pytest.mark.slow
@pytest.mark.parametrize("corruption", corruptions.CORRUPTIONS)
def test_each_corruption_trains(data, tmp_path, corruption):
    density = "--noise_density=0.25"
    done = run(data, tmp_path, f"--corruption={corruption}", density, "--do_eval")
    assert done.code == 0, done.err
    identity = json.loads((tmp_path / "run.json").read_text())["identity"]
    assert (identity["corruption"], identity["noise_density"]) == (corruption, 0.25)
    assert np.isfinite(tiny.eval_results(tmp_path)["loss"])


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--masking=span", "for --objective=masked_lm"),
        ("--mean_noise_span_length=2", "but it is drop; leave it out"),
        ("--do_export", "run_seq2seq.py --do_export"),
    ],
)
def test_flags_that_do_not_fit_are_refused(data, tmp_path, flag, said):
    done = run(data, tmp_path / "out", "--corruption=drop", flag)
    assert done.code == 2 and said in done.err
    assert not (tmp_path / "out").exists()
