"""run_pretraining.py --objective=bidirectional_lm, with a tiny ELMo.

What every objective shares: test_run_pretraining.py. Killed runs, several devices and
processes: test_killed_runs.py and test_many_devices.py.
"""

import json

import numpy as np
import pytest

from data_pipeline.pretraining.streams import batches as stream_batches
from data_pipeline.pretraining.streams import files as sentence_files
from data_pipeline.text import elmo
from modeling.checkpoints import checkpoint, pretrained
from modeling.configs import config_files
from modeling.elmo import objective
from tests import tiny, tiny_elmo, whole_runs

BRIEF = (
    "--objective=bidirectional_lm --do_train --num_train_steps=12",
    "--train_batch_size=4 --save_checkpoints_steps=5 --log_steps=2",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """options.json, vocab.txt and sentences."""
    path = tmp_path_factory.mktemp("data")
    (path / "options.json").write_text(json.dumps(tiny_elmo.OPTIONS))
    tiny_elmo.write_vocab(path / "vocab.txt")
    for number in range(2):
        tiny_elmo.write_sentences(path / f"part-{number}.txt", 20, number)
    tiny_elmo.write_sentences(path / "held-out.txt", 9, 5)
    return path


def run(data, output_dir, *more):
    return tiny.succeed(
        "run_pretraining",
        f"--bert_config_file={data}/options.json --vocab_file={data}/vocab.txt",
        f"--input_file={data}/part-*.txt --output_dir={output_dir}",
        *(f"--eval_input_file={data}/held-out.txt", *BRIEF, *more),
    )


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """(directory, what it printed) of a run that saves at 5, 10 and 12."""
    path = tmp_path_factory.mktemp("trained")
    more = ("--do_eval", "--evaluate_steps=6", "--max_eval_steps=0")
    return path, run(data, path, *more)


def expected_scores(data, directory):
    """Of all held-out words, with states that are carried by hand."""
    model = objective.BidirectionalLM(config_files.read(directory / "options.json"))
    model.build()
    checkpoint.load(model, directory / "model.ckpt-12")
    vocab = elmo.read_vocab(str(directory / "vocab.txt"))
    words = sentence_files.WordIds(elmo.ElmoTokenizer(vocab))
    specs = {"eval_input_file": str(data / "held-out.txt")}
    sets = stream_batches.load(specs, words, steps_per_batch=5)
    states = {n: np.zeros((8, *s), np.float32) for n, s in model.states.items()}
    totals, count = np.zeros(2), 0
    for features in sets.evaluation_batches(8, sets.num_evaluation_batches(8, None)):
        outputs = model({**features, **states})
        states = {name: outputs[name] for name in states}
        mask = features["input_mask"].numpy()
        found = (outputs[f"{name}_losses"] for name in ("forward", "backward"))
        totals += [float((np.float64(losses) * mask).sum()) for losses in found]
        count += mask.sum()
    forward, backward = totals / count
    loss = (forward + backward) / 2
    return {
        **{"loss": loss, "next_token_loss": loss, "perplexity": np.exp(loss)},
        **{"forward_loss": forward, "forward_perplexity": np.exp(forward)},
        **{"backward_loss": backward, "backward_perplexity": np.exp(backward)},
        "global_step": 12,
    }


def test_scores_are_exact_over_all_held_out_words(trained, data):
    found = tiny.eval_results(trained[0])
    expected = expected_scores(data, trained[0])
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-5), name
    curve = tiny.events(trained[0] / "eval")["eval/perplexity"]
    assert [step for step, _ in curve] == [6, 12, 12]
    assert curve[-1][1] == pytest.approx(found["perplexity"], rel=1e-6)


def test_defaults_are_those_of_the_original(trained):
    record = json.loads((trained[0] / "run.json").read_text())
    flags = record["flags"]
    names = ("optimizer", "learning_rate", "learning_rate_schedule", "num_warmup_steps")
    assert [flags[name] for name in names] == ["adagrad", 0.2, "gpt_constant", 0]
    assert record["identity"]["config"]["unroll_steps"] == 5  # of options.json
    rates = tiny.events(trained[0] / "train")["train/learning_rate"]
    assert {value for _, value in rates} == {np.float32(0.2)}
    assert "40 of " in trained[1].out and "4 lines without a word" in trained[1].out


def test_directory_is_a_pretrained_model_with_the_states_of_its_run(trained):
    found = pretrained.locate(str(trained[0]))
    assert found.config_file.endswith("options.json")
    assert found.vocab_file.endswith("vocab.txt")
    file = checkpoint.open_file(found.checkpoint)
    carried = {"carried/cell_states", "carried/hidden_states", "lm/softmax/W/Adagrad"}
    assert carried <= file.states
    assert file.shapes["carried/cell_states"] == (4, 2, 2, 12)
    values = whole_runs.variables(trained[0], 12)
    assert np.abs(values["carried/cell_states"]).min(axis=(1, 2, 3)).max() > 0
    assert values["lm/softmax/W/Adagrad"].min() >= 1
    assert values["lm/softmax/W/Adagrad"].max() > 1
    config = config_files.read(found.config_file)
    assert config.vocab_size == 17 and config.num_negative_samples == 6


@pytest.mark.slow
def test_parts_of_a_batch_add_up(data, tmp_path):
    """Without dropout, whatever is sampled: the sample is the batch's."""
    options = json.dumps({**tiny_elmo.OPTIONS, "dropout": 0.0})
    (tmp_path / "options.json").write_text(options)
    still = f"--bert_config_file={tmp_path}/options.json"
    for parts in (1, 2):
        more = (still, f"--gradient_accumulation_steps={parts}", "--num_train_steps=5")
        run(data, tmp_path / str(parts), *more)
    one, two = (whole_runs.variables(tmp_path / str(n), 5) for n in (1, 2))
    assert whole_runs.largest_difference(one, two) < 1e-5
    assert np.abs(one["carried/hidden_states"]).max() > 1e-3


@pytest.mark.slow
def test_words_as_input_share_the_softmax(data, tmp_path):
    options = {k: v for k, v in tiny_elmo.OPTIONS.items() if k != "char_cnn"}
    options["share_embedding_softmax"] = True
    (tmp_path / "options.json").write_text(json.dumps(options))
    more = (f"--bert_config_file={tmp_path}/options.json", "--do_eval")
    run(data, tmp_path / "o", *more)
    names = whole_runs.variables(tmp_path / "o", 12)
    assert {"lm/embedding", "lm/softmax/b"} <= names.keys()
    assert "lm/softmax/W" not in names
    assert tiny.eval_results(tmp_path / "o")["perplexity"] < 17


@pytest.mark.slow
def test_next_words_are_learned(data, tmp_path):
    more = ("--num_train_steps=200", "--do_eval", "--max_eval_steps=0")
    (tmp_path / "a.txt").write_text("she sings and the river runs to the sea .\n" * 9)
    files = [f"--{n}={tmp_path}/a.txt" for n in ("input_file", "eval_input_file")]
    run(data, tmp_path / "out", *more, *files)
    found = tiny.eval_results(tmp_path / "out")
    assert max(found[f"{n}_perplexity"] for n in ("forward", "backward")) < 3  # of 17


@pytest.mark.slow  # tests/modeling/elmo/ computes in bfloat16 every day
def test_mixed_precision_trains_as_float32_does(trained, data, tmp_path):
    more = ("--mixed_precision=float16", "--do_eval", "--max_eval_steps=0")
    run(data, tmp_path, *more)
    found, expected = (tiny.eval_results(path) for path in (tmp_path, trained[0]))
    assert found["loss"] != expected["loss"]
    assert found["loss"] == pytest.approx(expected["loss"], rel=5 * 2.0**-8)
    states = whole_runs.variables(tmp_path, 12)["carried/cell_states"]
    assert states.dtype == np.float32
