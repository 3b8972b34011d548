"""run_pretraining.py from end to end, on a model and records of tests/tiny.py."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from data_pipeline.pretraining import batches as record_batches
from modeling import pretrainers
from modeling.checkpoints import checkpoint
from modeling.configs import config as config_lib
from serving import export
from tests import killed, tiny, tiny_corpus, whole_runs
from training import inference
from training.distribution import devices

# Of the records of tests/tiny.py, and of a run that is over in a moment.
LENGTHS = ("--max_seq_length=16", "--max_predictions_per_seq=3")
BRIEF = (
    "--train_batch_size=8",
    "--learning_rate=1e-3",
    "--num_train_steps=12",
    "--num_warmup_steps=2",
    "--save_checkpoints_steps=5",
    "--log_steps=2",
    "--eval_batch_size=4",
    "--max_eval_steps=3",
)
GOLDEN = tiny.ROOT / "tests" / "golden" / "tiny_uncased"
KEYS = {
    "global_step",
    "loss",
    "masked_lm_accuracy",
    "masked_lm_loss",
    "next_sentence_accuracy",
    "next_sentence_loss",
}


@pytest.fixture(scope="module")
def records_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("records")
    tiny.write_records(path / "train-0.tfrecord", tiny.records(30, 0))
    tiny.write_records(path / "train-1.tfrecord", tiny.records(20, 1))
    tiny.write_records(path / "held-out.tfrecord", tiny.records(14, 2))
    return path


def arguments_of(model, records, output_dir, *more):
    return (
        f"--bert_config_file={model}/bert_config.json",
        f"--input_file={records}/train-*.tfrecord",
        f"--output_dir={output_dir}",
        *LENGTHS,
        *BRIEF,
        *more,
    )


def run(*arguments):
    return tiny.succeed("run_pretraining", *arguments)


@pytest.fixture(scope="module")
def trained_on(model_dir, records_dir, tmp_path_factory):
    """`trained`, and what the run had devices.distributed hand out."""
    path = tmp_path_factory.mktemp("trained")
    handed_out, distributed = [], devices.distributed
    scored, score = [], inference.objective_scores

    def noted(strategy, batches):
        handed_out.append(batches)
        return distributed(strategy, batches)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "distributed", noted)
        patch.setattr(
            inference, "objective_scores", lambda *a: scored.append(1) or score(*a)
        )
        done = run(
            *arguments_of(model_dir, records_dir, path),
            f"--eval_input_file={records_dir}/held-out.tfrecord",
            f"--vocab_file={model_dir}/vocab.txt",
            f"--init_checkpoint={model_dir}/bert_model.ckpt",
            "--do_train --do_eval --evaluate_steps=6",
        )
    # At steps 6 and 12; --do_eval takes the latter.
    assert len(scored) == 2
    return path, done, handed_out


@pytest.fixture(scope="module")
def trained(trained_on):
    return trained_on[:2]


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def expected_scores(config_file, weights, features, batch_size, num_batches):
    """The original's metric_fn in NumPy, from logits."""
    model = pretrainers.BertPretrainer(
        config_lib.BertConfig.from_json_file(config_file)
    )
    model.build()
    checkpoint.load(model, weights)
    order = np.arange(batch_size * num_batches) % len(features["input_ids"])
    rows = {name: value[order] for name, value in features.items()}
    outputs = model(
        {
            k: tf.constant(v.astype(v.dtype.str.replace("i8", "i4")))
            for k, v in rows.items()
        }
    )
    words = log_softmax(outputs["masked_lm_logits"])  # [N, P, V]
    ids, weight = rows["masked_lm_ids"], rows["masked_lm_weights"].astype(np.float64)
    word_losses = -np.take_along_axis(words, ids[..., None], axis=-1)[..., 0]
    order = log_softmax(outputs["next_sentence_logits"])  # [N, 2]
    labels = rows["next_sentence_labels"].reshape(-1)
    order_losses = -order[np.arange(len(labels)), labels]
    in_batches = (num_batches, -1)
    summed = (word_losses * weight).reshape(in_batches).sum(axis=1)
    batch_words = summed / (weight.reshape(in_batches).sum(axis=1) + 1e-5)
    batch_order = order_losses.reshape(in_batches).mean(axis=1)
    right = words.argmax(axis=-1) == ids
    return {
        "loss": (batch_words + batch_order).mean(),
        "masked_lm_loss": summed.sum() / weight.sum(),
        "masked_lm_accuracy": (right * weight).sum() / weight.sum(),
        "next_sentence_loss": order_losses.mean(),
        "next_sentence_accuracy": (order.argmax(axis=-1) == labels).mean(),
    }


def test_each_of_two_hosts_makes_half_of_every_batch(trained_on):
    context = tf.distribute.InputContext(2, 1)
    halves = [
        batches(context).element_spec["input_ids"].shape[0] for batches in trained_on[2]
    ]
    assert set(halves) == {4, 2} and halves[0] == 4


def test_eval_results_are_those_of_the_logits(trained, model_dir):
    """Float32 sums of some 20 losses of order 1."""
    path = trained[0]
    text = (path / "eval_results.txt").read_text()
    keys = [line.split(" = ")[0] for line in text.splitlines()]
    assert keys == sorted(KEYS) and "global_step = 12\n" in text
    expected = expected_scores(
        model_dir / "bert_config.json",
        path / "model.ckpt-12",
        tiny.records(14, 2),
        batch_size=4,
        num_batches=3,
    )
    actual = tiny.eval_results(path)
    for name, value in expected.items():
        assert actual[name] == pytest.approx(value, rel=1e-5), name
    # Weighted otherwise they would be equal.
    assert abs(
        actual["masked_lm_loss"] + actual["next_sentence_loss"] - actual["loss"]
    ) > (1e-4)


@pytest.mark.slow  # every day a classifier shows that it learns
def test_masked_words_are_learned_and_filled_in(
    model_dir, records_dir, tmp_path, monkeypatch
):
    modules = []
    monkeypatch.setattr(export, "save", lambda module, *_: modules.append(module))
    done = run(
        *arguments_of(model_dir, records_dir, tmp_path, "--do_train", "--do_export"),
        f"--vocab_file={model_dir}/vocab.txt --num_warmup_steps=10",
        "--num_train_steps=250 --learning_rate=2e-3 --log_steps=50",
    )
    curves = tiny.events(tmp_path / "train")
    first, *_, last = (value for _, value in curves["train/masked_lm_accuracy"])
    assert last > 0.5 > 0.3 > first
    assert "weights: random" in done.out
    filled = modules[0].functions["fill_mask"](tf.constant(["sea very [MASK] a film"]))
    assert filled["tokens"][0, 0, 0].numpy() == b"the"


@pytest.mark.slow
def test_warm_up_as_long_as_the_run_is_warned_of(trained):
    shown = "is not less than --num_train_steps"
    assert shown not in trained[1].log
    for supplied, times in (("1", 0), ("2", 1)):
        more = ("--num_train_steps=2", f"--num_warmup_steps={supplied}")
        done = tiny.run_again(trained[0], *more, "--train_batch_size=4")
        assert done.code == 2 and "train_batch_size was 8 and is 4" in done.err
        assert done.log.count(f"--num_warmup_steps=2 {shown}=2") == times


@pytest.mark.slow
def test_evaluation_alone_uses_the_newest_checkpoint(trained, model_dir, records_dir):
    path = trained[0]
    before = tiny.eval_results(path)
    done = run(
        *arguments_of(model_dir, records_dir, path, "--do_eval"),
        f"--eval_input_file={records_dir}/held-out.tfrecord",
    )
    assert f"weights: {path}/model.ckpt-12: 30 of 30" in done.out
    assert tiny.eval_results(path) == before


@pytest.mark.slow
def test_without_a_sentence_task_words_alone_count(model_dir, tmp_path):
    records = tiny.records(24, 3)
    file = tmp_path / "train-0.tfrecord"
    tiny.write_described(file, records, model_dir / "vocab.txt", sentence_task="none")
    out = tmp_path / "out"
    done = run(
        *arguments_of(model_dir, tmp_path, out, "--do_train", "--do_eval"),
        f"--num_train_steps=3 --init_checkpoint={model_dir}/bert_model.ckpt",
        "--optimizer=lamb --gradient_accumulation_steps=4",
    )
    assert "8 per replica in 4 micro-batches" in done.out
    results = tiny.eval_results(out)
    assert set(results) == {name for name in KEYS if "next_sentence" not in name}
    assert not [tag for tag in tiny.events(out / "train") if "next_sentence" in tag]
    before = whole_runs.initial_variables(model_dir)
    after = whole_runs.variables(out, 3)
    unmoved = {name for name, v in before.items() if np.array_equal(v, after[name])}
    # Not even decayed, as in the original.
    assert unmoved == {
        "bert/pooler/dense/bias",
        "bert/pooler/dense/kernel",
        "cls/seq_relationship/output_bias",
        "cls/seq_relationship/output_weights",
    }


def test_original_records_and_weights(shared_file, tmp_path):
    """400 records of google-research/bert, and its recorded network."""
    file = shared_file("golden/pretraining/original.tfrecord")
    done = run(
        f"--bert_config_file={GOLDEN}/bert_config.json",
        f"--init_checkpoint={GOLDEN}/bert_model.ckpt",
        f"--input_file={file}",
        f"--output_dir={tmp_path}",
        "--do_eval --max_eval_steps=3 --eval_batch_size=4",
    )
    assert "62 of 62 variables assigned" in done.out
    features = tiny_corpus.parse(tiny_corpus.raw(file)[:12])
    expected = expected_scores(
        GOLDEN / "bert_config.json", GOLDEN, features, batch_size=4, num_batches=3
    )
    actual = tiny.eval_results(tmp_path)
    for name, value in expected.items():
        # Losses of about 60 with these random weights.
        assert actual[name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.slow
def test_damage_in_the_middle_of_a_file_is_named(
    trained, records_dir, tmp_path, monkeypatch
):
    out = killed.cut_off(trained[0], tmp_path / "out", 5)
    for name in ("train-0.tfrecord", "train-1.tfrecord"):
        shutil.copy(records_dir / name, tmp_path)
    file = tmp_path / "train-0.tfrecord"
    before = whole_runs.variables(out, 5)
    training_batches = record_batches.RecordSets.training_batches

    def damage_and_read(*arguments, **named):
        """Bytes of the same number are no text and have the right checksum."""
        records = [record.numpy() for record in tf.data.TFRecordDataset(str(file))]
        records[20] = b"\xff" * len(records[20])
        with tf.io.TFRecordWriter(str(file)) as writer:
            for record in records:
                writer.write(record)
        return training_batches(*arguments, **named)

    monkeypatch.setattr(record_batches.RecordSets, "training_batches", damage_and_read)
    places = (f"--input_file={tmp_path}/train-*.tfrecord", f"--output_dir={out}")
    done = tiny.run_again(trained[0], *places)
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(f"error: {file}: "), done.err
    assert "copy the file again" in done.err and "Traceback" not in done.err
    whole_runs.assert_equal(whole_runs.variables(out, 5), before)
    assert not (out / "eval_results.txt").exists()


@pytest.mark.slow
def test_records_of_another_program_are_masked_while_training(model_dir, tmp_path):
    """Neither masks nor labels, as ELECTRA's."""
    features = tiny.records(16, 0, is_masked=False)
    del features["next_sentence_labels"]
    tiny.write_records(tmp_path / "train-0.tfrecord", features)
    arguments = arguments_of(model_dir, tmp_path, tmp_path / "out", "--do_train")
    steps = ("--num_train_steps=2", f"--vocab_file={model_dir}/vocab.txt")
    out = run(*arguments, *steps).out
    assert (
        "--input_file: 1 file without .metadata.json, read as no next_sentence_labels,"
        " sentence_task=none, not masked"
    ) in out
    assert (tmp_path / "out" / "model.ckpt-2.index").exists()


def test_segments_that_the_network_has_not_are_refused(
    model_dir, records_dir, tmp_path
):
    text = (model_dir / "bert_config.json").read_text()
    assert '"type_vocab_size": 2' in text
    path = tmp_path / "bert_config.json"
    path.write_text(text.replace('"type_vocab_size": 2', '"type_vocab_size": 1'))
    arguments = arguments_of(tmp_path, records_dir, tmp_path / "out", "--do_train")
    line = tiny.refuse("run_pretraining", *arguments)
    assert f"{records_dir}/train-0.tfrecord: record 0 has segment_ids=1, not 0 " in line
    assert not (tmp_path / "out").exists()


def teardown_module():
    keras.utils.clear_session(free_memory=True)
