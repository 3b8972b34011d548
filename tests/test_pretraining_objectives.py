"""Scores of run_pretraining.py's other objectives, from the outputs of its networks.

Masked words: test_run_pretraining.py. Files, resumed and refused runs: test_scripts.py.
"""

import collections
import dataclasses
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import denoising_batches, masking, word_streams
from data_pipeline.text import elmo, wordpiece
from loading import model_directory
from modeling import pretrainers, replaced
from modeling.checkpoints import checkpoint, comparison, places
from modeling.configs import config_files
from modeling.networks.elmo import objective
from tests import read_model, tiny, tiny_elmo, whole_runs

HELD_OUT, NUM_WORDS, NUM_BYTES = 14, 90, 500
STEPS = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data of tests/whole_runs.py, and records and sentences that are held out."""
    path = whole_runs.write(tmp_path_factory.mktemp("data"))
    held_out = tiny.records(HELD_OUT, 2, is_masked=False)
    tiny.write_described(
        path / "held-out",
        held_out,
        path / "model" / "vocab.txt",
        **tiny.FULL,
        num_predictions=int(held_out["input_mask"][:, 1:].sum()),
        num_words=NUM_WORDS,
        num_text_bytes=NUM_BYTES,
    )
    tiny.write_records(path / "held-out-words", held_out)
    tiny_elmo.write_sentences(path / "held-out.txt", 9, 5)
    return path


def run(name, data, output_dir, *more):
    others = {"streams": "held-out.txt", "replaced_tokens": "held-out-words"}
    held_out = others.get(name, "held-out")
    return tiny.succeed(
        "run_pretraining",
        *whole_runs.arguments(name, data, steps=STEPS),
        f"--eval_input_file={data}/{held_out} --output_dir={output_dir}",
        *("--evaluate_steps=6 --eval_batch_size=4 --log_steps=2", *more),
    )


@pytest.mark.slow
def test_scores_of_next_words_are_exact(data, tmp_path):
    """14 records in batches of 4, the last of which counts as much as it holds."""
    run("left_to_right", data, tmp_path)
    config = config_files.read(tmp_path / "bert_config.json")
    model = pretrainers.LanguageModel(config)
    model.build()
    checkpoint.load(model, tmp_path)
    rows = tiny.records(HELD_OUT, 2, is_masked=False)
    names = ("input_ids", "input_mask", "segment_ids")
    logits = model.logits({name: tf.constant(rows[name], tf.int32) for name in names})
    logits = np.asarray(logits, np.float64)[:, :-1]
    labels, mask = rows["input_ids"][:, 1:], rows["input_mask"][:, 1:]
    top = logits.max(-1, keepdims=True)
    normalized = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    own = np.take_along_axis(normalized, labels[..., None], -1)[..., 0]
    nats = -(own * mask).sum()
    hits = ((logits.argmax(-1) == labels) * mask).sum()
    loss = nats / mask.sum()
    assert tiny.eval_results(tmp_path) == pytest.approx(
        {
            **{"loss": loss, "next_token_loss": loss, "perplexity": math.exp(loss)},
            "next_token_accuracy": hits / mask.sum(),
            "word_perplexity": math.exp(nats / NUM_WORDS),
            "bits_per_byte": nats / math.log(2) / NUM_BYTES,
            "global_step": STEPS,
        },
        rel=1e-5,
    )
    train, held_out = (tiny.events(tmp_path / kind) for kind in ("train", "eval"))
    assert [step for step, _ in held_out["eval/bits_per_byte"]] == [6, 12, 12]
    losses, perplexities = (
        [value for _, value in train[f"train/{name}"]]
        for name in ("next_token_loss", "perplexity")
    )
    assert len(losses) == 7
    assert perplexities == pytest.approx(np.exp(losses), rel=1e-5)


@pytest.mark.slow
def test_scores_of_denoised_texts_are_means_over_their_targets(data, tmp_path):
    """The noise is the same at each evaluation; here the rows are read one by one."""
    done = run("denoising", data, tmp_path)
    config = config_files.read(tmp_path / "config.json")
    model = pretrainers.build("seq2seq", None, config)
    checkpoint.load(model, tmp_path)
    vocab_file = f"{tmp_path}/vocab.txt"
    texts = denoising_batches.load(
        {"input_file": f"{data}/full.tfrecord", "eval_input_file": f"{data}/held-out"},
        wordpiece.BertTokenizer.from_file(vocab_file, do_lower_case=True),
        denoising_batches.rule("random_spans"),
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
    assert tiny.eval_results(tmp_path) == pytest.approx(
        {
            **{"loss": loss, "target_token_loss": loss, "perplexity": math.exp(loss)},
            **{"target_token_accuracy": right / count, "global_step": STEPS},
        },
        rel=1e-5,
    )
    assert "texts: up to 14 tokens; sources up to 15, targets up to 4" in done.out


def expected_stream_scores(data, directory):
    """All held-out words, with states that are carried by hand."""
    model = objective.BidirectionalLM(config_files.read(directory / "options.json"))
    model.build()
    checkpoint.load(model, directory)
    vocab = elmo.read_vocab(str(directory / "vocab.txt"))
    words = word_streams.WordIds(elmo.ElmoTokenizer(vocab))
    specs = {"eval_input_file": str(data / "held-out.txt")}
    sets = word_streams.load(specs, words, steps_per_batch=5)
    states = {n: np.zeros((4, *s), np.float32) for n, s in model.states.items()}
    totals, count = np.zeros(2), 0
    for features in sets.evaluation_batches(4, sets.num_evaluation_batches(4, None)):
        outputs = model({**features, **states})
        states = {name: outputs[name] for name in states}
        mask = features["input_mask"].numpy()
        losses = [outputs[f"{name}_losses"] for name in ("forward", "backward")]
        totals += [float((np.float64(each) * mask).sum()) for each in losses]
        count += mask.sum()
    forward, backward = totals / count
    loss = (forward + backward) / 2
    return {
        **{"loss": loss, "next_token_loss": loss, "perplexity": np.exp(loss)},
        **{"forward_loss": forward, "forward_perplexity": np.exp(forward)},
        **{"backward_loss": backward, "backward_perplexity": np.exp(backward)},
        "global_step": STEPS,
    }


@pytest.mark.slow
def test_scores_of_streams_are_exact_and_their_states_are_kept(data, tmp_path):
    done = run("streams", data, tmp_path)
    results = tiny.eval_results(tmp_path)
    assert results == pytest.approx(expected_stream_scores(data, tmp_path), rel=1e-5)
    curve = tiny.events(tmp_path / "eval")["eval/perplexity"]
    assert [step for step, _ in curve] == [6, 12, 12]
    assert curve[-1][1] == pytest.approx(results["perplexity"], rel=1e-6)
    assert "50 of " in done.out and "4 lines without a word" in done.out
    # Defaults are those of the original.
    record = json.loads((tmp_path / "run.json").read_text())
    names = ("optimizer", "learning_rate", "learning_rate_schedule", "num_warmup_steps")
    defaults = [record["flags"][name] for name in names]
    assert defaults == ["adagrad", 0.2, "gpt_constant", 0]
    assert record["identity"]["config"]["unroll_steps"] == 5  # of options.json
    rates = tiny.events(tmp_path / "train")["train/learning_rate"]
    assert {value for _, value in rates} == {np.float32(0.2)}
    # The directory is a pretrained model.
    files = model_directory.locate(str(tmp_path))
    assert files.config_file.endswith("options.json")
    file = places.open_file(files.init_checkpoint)
    carried = {"carried/cell_states", "carried/hidden_states", "lm/softmax/W/Adagrad"}
    assert carried <= file.states.keys()
    assert file.shapes["carried/cell_states"] == (8, 2, 2, 12)
    values = whole_runs.variables(tmp_path, STEPS)
    assert np.abs(values["carried/cell_states"]).min(axis=(1, 2, 3)).max() > 0
    sums = values["lm/softmax/W/Adagrad"]
    assert sums.min() >= 1 and sums.max() > 1


@pytest.mark.slow
def test_parts_of_a_batch_of_streams_add_up(data, tmp_path):
    """Without dropout, whatever is sampled: the sample is the batch's."""
    for parts in (1, 2):
        more = (f"--pretrained={data}/still_streams", "--num_train_steps=5")
        parts_flag = f"--gradient_accumulation_steps={parts}"
        run("streams", data, tmp_path / str(parts), *more, parts_flag)
    one, two = (whole_runs.variables(tmp_path / str(n), 5) for n in (1, 2))
    assert whole_runs.largest_difference(one, two) < 1e-5
    assert np.abs(one["carried/hidden_states"]).max() > 1e-3


@pytest.fixture(scope="module")
def detector(data, tmp_path_factory):
    """The directory of a run of replaced tokens, and what it printed."""
    path = tmp_path_factory.mktemp("detector")
    more = ("--max_eval_steps=0 --do_export", "--mask_proportions=0.8,0.1,0.1")
    return path, run("replaced_tokens", data, path, *more)


def evaluated_batches(data, config):
    """The batches of an evaluation, with the same masks and draws as there."""
    vocab_file = str(data / "model_electra" / "vocab.txt")
    sets = record_batches.load(
        {"eval_input_file": str(data / "held-out-words")},
        wordpiece.BertTokenizer.from_file(vocab_file, do_lower_case=True),
        masking.Rule("word_piece", 0.15, 3),
        **{"max_seq_length": 16, "vocab_size": config.vocab_size, "spare_rows": 0},
    )
    sets = dataclasses.replace(sets, has_draws=True)
    return [*sets.evaluation_batches(4, None)]


@pytest.mark.slow
def test_scores_of_replaced_tokens_are_exact(data, detector):
    """14 records in batches of 4: each counts once, and none of its padding."""
    path, done = detector
    config = config_files.read(path / "config.json")
    model = replaced.ReplacedTokenDetector(config, 0.5)
    model.build()
    checkpoint.load(model, path)
    sums, loss, rows = collections.defaultdict(float), 0.0, HELD_OUT
    for batch in evaluated_batches(data, config):
        outputs = {n: np.float64(v)[:rows] for n, v in model(batch).items()}
        features = {n: np.asarray(v)[:rows] for n, v in batch.items()}
        rows -= 4
        ids, weights = features["masked_lm_ids"], features["masked_lm_weights"]
        logits = outputs["masked_lm_logits"]
        own = np.take_along_axis(logits, ids[..., None], -1)[..., 0]
        words = np.log(np.exp(logits).sum(-1)) - own
        mask, actual = features["input_mask"], outputs["is_replaced"]
        p = 1 / (1 + np.exp(-outputs["replaced_logits"]))
        each = -np.log(np.where(actual == 1, p, 1 - p))
        found = p > 0.5
        batch_sums = {
            "words": (words * weights).sum(),
            "hits": ((logits.argmax(-1) == ids) * weights).sum(),
            "tokens": mask.sum(),
            "each": (each * mask).sum(),
            "right": ((found == actual) * mask).sum(),
            "both": (found * actual * mask).sum(),
            "said": (found * mask).sum(),
            "is": (actual * mask).sum(),
        }
        count = weights.sum()
        loss += batch_sums["words"] / (count + 1e-5) / 4
        loss += 50 * batch_sums["each"] / batch_sums["tokens"] / 4
        batch_sums["predictions"] = count
        for name, value in batch_sums.items():
            sums[name] += value
    assert 0 < sums["is"] < sums["predictions"] < sums["tokens"] / 3
    assert tiny.eval_results(path) == pytest.approx(
        {
            **{"loss": loss, "masked_lm_loss": sums["words"] / sums["predictions"]},
            "masked_lm_accuracy": sums["hits"] / sums["predictions"],
            "discriminator_loss": sums["each"] / sums["tokens"],
            "weighted_discriminator_loss": 50 * sums["each"] / sums["tokens"],
            "discriminator_accuracy": sums["right"] / sums["tokens"],
            "discriminator_precision": sums["both"] / max(sums["said"], 1),
            "discriminator_recall": sums["both"] / sums["is"],
            "global_step": STEPS,
        },
        rel=1e-4,
    )
    assert "electra.ckpt: 48 of 48 variables assigned" in done.out
    curve = tiny.events(path / "eval")["eval/discriminator_recall"]
    assert [step for step, _ in curve] == [6, 12, 12]


@pytest.mark.slow
def test_discriminator_is_fine_tuned_converted_and_exported(data, detector, tmp_path):
    path, _ = detector
    done = tiny.succeed(
        "run_classifier",
        f"--pretrained={path} --train_file={data}/train.tsv --dev_file={data}/dev.tsv",
        f"--max_seq_length=16 --do_train --do_eval --output_dir={tmp_path}/fine-tuned",
    )
    assert "in the file but not used: discriminator_predictions/" in done.out
    config = config_files.read(path / "config.json")
    converted = tmp_path / "converted"
    done = tiny.succeed(
        "convert_checkpoint",
        f"--input={path} --to=hugging_face --output_dir={converted}",
    )
    assert "head: discriminator" in done.out
    assert "left over: generator/" in done.out
    raw = json.loads((converted / "config.json").read_text())
    assert raw["architectures"] == ["ElectraForPreTraining"]
    model = read_model.read(path, config).model
    batch = comparison.make_batch(config)
    again = read_model.read(converted, config).model
    logits = [np.asarray(each(batch)["replaced_logits"]) for each in (model, again)]
    np.testing.assert_array_equal(*logits)
    # The generator is of no use without the tables beside it.
    line = tiny.refuse(
        "convert_checkpoint",
        f"--input={path} --head=pretraining --to=google --output_dir={tmp_path}/no",
    )
    assert "has no such head (it has: discriminator); leave --head out" in line
    # Vectors are the discriminator's, tokens for [MASK] the generator's.
    sentence = "sea very [MASK] the film"
    (export,) = (path / "export").iterdir()
    loaded = tf.saved_model.load(str(export))
    text = tf.constant([sentence.replace("[MASK]", "great")])
    vectors = loaded.signatures["embed"](text)["vector"].numpy()
    vocab = (path / "vocab.txt").read_text().split()
    ids = [2, *map(vocab.index, sentence.split()), 3]
    inputs = {
        "input_ids": np.array([ids]),
        "input_mask": np.ones((1, 7), np.int32),
        "segment_ids": np.zeros((1, 7), np.int32),
    }
    whole_text = {**inputs, "input_ids": np.array([ids])}
    whole_text["input_ids"][0, 3] = vocab.index("great")
    hidden = model.encode(whole_text, None)["sequence_output"]
    np.testing.assert_allclose(vectors[0], np.mean(hidden[0], axis=0), atol=1e-5)
    whole = replaced.ReplacedTokenDetector(config, 0.5)
    whole.build()
    checkpoint.load(whole, path)
    place = {**inputs, "masked_lm_positions": np.array([[3]])}
    best = int(np.argmax(whole.generator(place)["masked_lm_logits"][0, 0]))
    filled = loaded.signatures["fill_mask"](tf.constant([sentence]))["tokens"].numpy()
    assert filled[0, 0, 0].decode() == vocab[best]


@pytest.mark.slow
def test_parts_of_a_batch_of_replaced_tokens_add_up(data, tmp_path):
    """Draws belong to the rows of a batch, whichever part they are in."""
    start = (f"--pretrained={data}/still_electra", "--num_train_steps=5")
    for name, more in (
        ("whole", ""),
        ("parts", "--gradient_accumulation_steps=2 --recompute"),
        ("half", "--mixed_precision=bfloat16"),
    ):
        run("replaced_tokens", data, tmp_path / name, *start, "--nodo_eval", more)
    whole, parts, half = (
        whole_runs.variables(tmp_path / name, 5) for name in ("whole", "parts", "half")
    )
    assert whole_runs.largest_difference(parts, whole) < 1e-5
    assert 1e-5 < whole_runs.largest_difference(half, whole) < 0.02


@pytest.mark.slow
def test_weights_of_the_other_network_are_refused(data, detector, tmp_path):
    path, _ = detector
    common = whole_runs.arguments("replaced_tokens", data, steps=2, evaluates=False)
    alone = tmp_path / "alone"
    masked = [word for word in common if "objective" not in word and "size" not in word]
    vocab = f"--vocab_file={path}/vocab.txt --bert_config_file={path}/config.json"
    masked = [word for word in masked if "--pretrained" not in word]
    done = tiny.succeed("run_pretraining", *masked, vocab, f"--output_dir={alone}")
    assert "weights: random" in done.out
    output = f"--output_dir={tmp_path}/out"
    for words, mistake in (
        (
            common,
            (f"--pretrained={alone}", "holds a generator alone; give a discriminator"),
        ),
        (common, ("--generator_size=1", "another generator; set --generator_size=0.5")),
        (common, ("--generator_size=0.3", "makes 0.6 heads; choose")),
        (masked, (f"--pretrained={path}", "set --objective=replaced_tokens")),
    ):
        flag, message = mistake
        line = tiny.refuse("run_pretraining", *words, flag, output)
        assert message in line, line
    assert not (tmp_path / "out").exists()
    # A discriminator without its generator is a beginning.
    converted = tmp_path / "converted"
    arguments = f"--input={path} --to=hugging_face --output_dir={converted}"
    tiny.succeed("convert_checkpoint", arguments)
    done = tiny.succeed("run_pretraining", *common, f"--pretrained={converted}", output)
    assert "newly initialised: generator/" in done.out
