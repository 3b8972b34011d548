"""run_pretraining.py --objective=denoising, from end to end.

The noise: tests/data_pipeline/denoising. What runs share: test_run_pretraining.py.
"""

import json
import math

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
    "--learning_rate=1e-3 --num_train_steps=6 --num_warmup_steps=2",
    "--log_steps=2 --eval_batch_size=4",
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


def test_scores_are_means_over_all_tokens_of_held_out_targets(data, tmp_path):
    """The noise is the same at each evaluation; here the rows are read one by one."""
    path = tmp_path
    done = tiny.succeed(
        "run_pretraining",
        f"--bert_config_file={data}/config.json --vocab_file={data}/vocab.txt",
        f"--input_file={data}/train --eval_input_file={data}/held-out",
        f"--output_dir={path} --do_train --do_eval --max_eval_steps=0",
        *BRIEF,
    )
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
            **{"target_token_accuracy": right / count, "global_step": 6},
        },
        rel=1e-5,
    )
    curve = [value for _, value in tiny.events(path / "train")["train/loss"]]
    assert curve[-1] < curve[0]
    assert "texts: up to 14 tokens; sources up to 15, targets up to 4" in done.out
