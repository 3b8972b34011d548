"""run_classifier.py --long_texts=windows: the same answers by all that answers."""

import functools
import json
import random

import numpy as np
import pytest
import tensorflow as tf

import bert_reborn as bert
from data_pipeline.classification import labels, long_texts
from loading import model_directory
from modeling import heads
from serving import classifiers, formats, predictor
from serving.protocol import servables
from tasks.settings import fields
from tests import daily, killed, tiny, tiny_elmo, tiny_family, whole_runs
from tests.refusals import refused
from tests.serving import exported_ops
from tests.serving.server import running

LENGTH = 12
ROUNDING = 1e-5  # of float32 in another order, and of answers with six decimals
WINDOWS = "--long_texts=windows --window_logits=max"


def rows(count, start=0):
    """(text, label), whose last word decides, after 1 to 60 words that do not."""
    made = []
    for i in range(start, start + count):
        rng, label = random.Random(i), tiny.LABELS[i % 3]
        words = rng.choices(tiny.FILLERS, k=(1, 8, 20, 40, 60)[i % 5])
        made.append((" ".join([*words, tiny.SIGNS[label]]), label))
    return made


TEXTS = [text for text, _ in rows(7)]
LONG = 4  # of 61 words
TEXTS += ["great", "it " * 300 + "great", "awful film " * 9]
# Its windows by hand: stretches of 10 words, each 5 after the one before.
STRETCHES = [
    " ".join(TEXTS[LONG].split()[k : k + 10])
    for k in range(0, len(TEXTS[LONG].split()) - 5, 5)
]


def shares(answers):
    return np.array([[*answer["probabilities"].values()] for answer in answers])


@pytest.fixture(
    scope="module", params=daily.params(["mean", "max"], lambda kind: kind == "mean")
)
def joined(request):
    return request.param


@pytest.fixture(scope="module")
def untrained(model_dir, tmp_path_factory, joined):
    """A directory with a head that is random and reads windows."""
    made = bert.load(model_dir, labels=tiny.LABELS)
    layer = made.model.classifier.logits
    layer.kernel.assign(np.random.default_rng(1).normal(size=layer.kernel.shape) * 9)
    # What all texts have in common would decide alone.
    layer.bias.assign(-np.asarray(made.model(made.encode("the film"))["logits"])[0])
    path = tmp_path_factory.mktemp("untrained") / "model"
    made.save(path)
    windows = long_texts.Windows(window_logits=joined)
    label_set = labels.Labels(tuple(tiny.LABELS), windows=windows)
    content = json.loads((path / "label_map.json").read_text())
    (path / "label_map.json").write_text(json.dumps(content | label_set.settings))
    return path


@pytest.fixture(scope="module")
def loaded(untrained):
    return bert.load(untrained, max_seq_length=LENGTH)


def test_answers_are_those_of_the_windows_by_themselves(loaded, joined):
    assert loaded.classes.windows.window_logits == joined
    actual = shares(loaded.predict(TEXTS))
    logits = np.asarray(loaded.model(loaded.encode(TEXTS))["logits"])
    wanted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(actual, wanted, atol=ROUNDING)
    inputs = loaded.encode(STRETCHES)
    each = np.asarray(loaded.model({k: v[:, 0] for k, v in inputs.items()})["logits"])
    assert len(each) > 3
    np.testing.assert_allclose(
        logits[LONG], getattr(each, joined)(axis=0), atol=ROUNDING
    )


def test_saved_model_keeps_the_length_of_windows(untrained, loaded, tmp_path):
    loaded.save(tmp_path / "saved")
    content = json.loads((tmp_path / "saved" / "label_map.json").read_text())
    assert content == {
        **json.loads((untrained / "label_map.json").read_text()),
        "max_seq_length": str(LENGTH),
    }
    again = bert.load(tmp_path / "saved")
    assert again.max_seq_length == LENGTH and again.classes == loaded.classes
    assert bert.load(tmp_path / "saved", max_seq_length=9).max_seq_length == 9
    flags = model_directory.read_run(str(tmp_path / "saved")).flags
    assert flags == {"max_seq_length": LENGTH}  # which scripts take, too
    # The twin: the file that had none.
    assert bert.load(untrained).max_seq_length != LENGTH


def test_vectors_are_the_means_of_those_of_the_windows(loaded):
    embed = functools.partial(loaded.embed, layers=(-1, 0))  # [B, 2, D]
    actual, each = embed(TEXTS), embed(STRETCHES)
    np.testing.assert_allclose(actual[LONG], each.mean(axis=0), atol=ROUNDING)
    assert np.abs(actual[LONG] - each[0]).max() > 0.01  # the beginning alone
    unit = actual / np.linalg.norm(actual, axis=-1, keepdims=True)
    np.testing.assert_allclose(embed(TEXTS, normalize=True), unit, atol=ROUNDING)
    with refused("windows reads single texts"):
        loaded.embed(TEXTS, TEXTS)


def test_answer_depends_on_no_other_row(loaded):
    together = shares(loaded.predict(TEXTS))
    for order in (range(9, -1, -1), [8], [0, 8, 0]):
        some = shares(loaded.predict([TEXTS[i] for i in order]))
        np.testing.assert_allclose(some, together[[*order]], atol=ROUNDING)


def test_what_is_served_answers_as_the_model(loaded):
    wanted = shares(loaded.predict(TEXTS))
    module = classifiers.served(loaded._pack, loaded.classes, loaded.model, [])
    features, counts = module.stages.encode(tf.constant(TEXTS))
    assert counts.numpy().max() == 16 and counts.numpy().min() == 1  # of 301 words
    outputs = module.stages.forward(features)
    answers = module.stages.finish(counts, outputs)
    np.testing.assert_allclose(answers["probabilities"], wanted, atol=ROUNDING)
    names = [tiny.LABELS[place].encode() for place in wanted.argmax(axis=1)]
    assert answers["label"].numpy().tolist() == names
    # The twin: the beginnings alone.
    cut = [" ".join(text.split()[: LENGTH - 2]) for text in TEXTS]
    assert np.abs(shares(loaded.predict(cut)) - wanted).max() > 0.05
    with refused("windows reads single texts"):
        loaded.predict(TEXTS, TEXTS)
    assert loaded.attention(TEXTS[LONG]).shape[-1] == LENGTH  # of the first window
    assert loaded.tokens(TEXTS[LONG])[1:-1] == TEXTS[LONG].split()[: LENGTH - 2]


@pytest.mark.slow
def test_exports_of_all_formats_and_the_server_answer_as_the_model(loaded, tmp_path):
    wanted = shares(loaded.predict(TEXTS))
    kinds = ("saved_model", "none"), ("onnx", "none"), ("litert", "none")
    for form, weights in (*kinds, ("onnx", "dynamic_int8"), ("onnx", "static_int8")):
        path = loaded.export(
            tmp_path / f"{form}_{weights}",
            export_format=form,
            quantization=weights,
            texts=TEXTS if weights == "static_int8" else None,
        )
        if form == "saved_model":
            exported_ops.assert_servable(path)
        opened = predictor.Predictor(path)
        assert opened.text_names == ["text"] and opened.predict([]) == []
        answers = opened.predict(TEXTS)
        atol = {"none": ROUNDING, "static_int8": 0.2}.get(weights, 0.15)
        np.testing.assert_allclose(shares(answers), wanted, atol=atol, err_msg=form)
        one = np.concatenate([shares(opened.predict([text])) for text in TEXTS])
        np.testing.assert_allclose(one, shares(answers), atol=ROUNDING, err_msg=form)
        if weights == "none":
            assert [row["label"] for row in answers] == [
                tiny.LABELS[place] for place in wanted.argmax(axis=1)
            ]
    assert loaded.predict([]) == []
    version = formats.open_version(str(tmp_path / "saved_model_none" / "1"))
    model = servables.Model("m", {1: version}, labels=tiny.LABELS)
    with running.running(model) as server:
        body = {"instances": [{"text": text} for text in TEXTS]}
        status, _, actual = server.request("/v1/models/m:predict", body)
        assert status == 200
        served = [row["probabilities"] for row in actual["predictions"]]
        np.testing.assert_allclose(served, wanted, atol=ROUNDING)
    # `ids` has the logits of each window.
    inputs = {name: np.asarray(v)[LONG] for name, v in loaded.encode(TEXTS).items()}
    inputs = {k: v[:3].astype(np.int32) for k, v in inputs.items()}
    logits = version.call("ids", inputs)["logits"]
    each = loaded.model(inputs)["logits"]
    np.testing.assert_allclose(logits, each, atol=1e-4)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory, start = tmp_path_factory.mktemp("data"), 0
    for name, count in (("train", 60), ("dev", 30), ("test", 20)):
        table = rows(count, start)
        tiny.write_tsv(directory / f"{name}.tsv", ("text", "label"), table)
        start += count
    return directory


def run(model, data, path, *more, epochs=20):
    files = " ".join(f"--{s}_file={data}/{s}.tsv" for s in ("train", "dev", "test"))
    return tiny.succeed(
        "run_classifier",
        f"--pretrained={model} --output_dir={path} --max_seq_length={LENGTH} {files}",
        "--do_train --do_eval --do_predict --train_batch_size=10 --learning_rate=3e-3",
        f"--num_train_epochs={epochs}",
        *more,
    )


@pytest.fixture(scope="module")
def trained(model_dir, data, tmp_path_factory):
    """A run that has learned labels that stand at the ends of texts."""
    path = tmp_path_factory.mktemp("trained")
    more = "--save_checkpoints_steps=60 --do_export --export_format=onnx"
    run(model_dir, data, path, WINDOWS, more)
    return path


@pytest.mark.slow
def test_windows_learn_what_stands_at_the_end_and_truncation_does_not(
    trained, model_dir, data, tmp_path
):
    assert tiny.eval_results(trained)["eval_accuracy"] >= 0.95
    done = run(model_dir, data, tmp_path / "cut")
    assert tiny.eval_results(tmp_path / "cut")["eval_accuracy"] < 0.75
    assert "36 cut to 12; --long_texts=windows reads them whole" in done.out
    # Without a flag, other commands do as the run.
    wanted = np.loadtxt(trained / "test_results.tsv")
    path = tmp_path / "predicted"
    file = f"--test_file={data}/test.tsv"
    again = f"--pretrained={trained} --output_dir={path} {file} --do_predict"
    done = tiny.succeed("run_classifier", again, "--do_export")
    assert "windows, at most" in done.out and "cut to 16 windows of 12" in done.out
    np.testing.assert_allclose(np.loadtxt(path / "test_results.tsv"), wanted, atol=1e-6)
    texts = [row["text_a"] for row in tiny.predictions(trained)]
    exports = path / "export", trained / "export_onnx"
    for opened in (bert.load(trained), *map(predictor.Predictor, map(str, exports))):
        np.testing.assert_allclose(shares(opened.predict(texts)), wanted, atol=1e-5)
    line = tiny.refuse("run_classifier", again, "--long_texts=truncate")
    assert "--long_texts=truncate: the model reads --long_texts=windows" in line
    line = tiny.refuse("run_classifier", again, "--explain=2")
    assert "label_map.json reads several; leave one of them out" in line
    # More training without the flag says what it does not read.
    more = f"--train_file={data}/train.tsv --do_train --num_train_epochs=1"
    other = f"--pretrained={trained} --output_dir={tmp_path}/more --max_seq_length=12"
    done = tiny.succeed("run_classifier", other, more)
    assert "was trained on windows, and this run cuts long texts" in done.out
    resumed = f"--output_dir={trained} --max_seq_length=12"
    line = tiny.refuse("run_classifier", f"--pretrained={model_dir}", resumed, more)
    assert "long_texts was 'windows' and is 'truncate'" in line


def network(kind, path):
    if kind == "elmo":  # whose tokens are rows of characters
        return tiny_elmo.write_model(path)
    if kind == "bert":
        return tiny.write_model(path, num_hidden_layers=1, hidden_act="relu")
    return tiny_family.write_model(path, kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("elmo", ""),
        ("roberta", ""),  # with a head of two layers
        ("albert", "--problem_type=multi_label"),
        ("deberta-v2", ""),
        ("bert", "--head=bilstm --bilstm_units=8"),
        ("bert", "--freeze_encoder --layer_mix=learned"),
        ("bert", "--mixed_precision=bfloat16"),
        ("bert", "--calibrate"),
    ],
)
def test_networks_and_heads_read_windows(kind, more, data, tmp_path):
    path = tmp_path / "run"
    done = run(network(kind, tmp_path / "model"), data, path, WINDOWS, more, epochs=1)
    assert ("features: windows are not kept" in done.out) == ("freeze" in more)
    wanted = np.loadtxt(path / "test_results.tsv")
    assert np.ptp(wanted, axis=0).max() > 10 * ROUNDING  # texts differ
    texts = [row["text_a"] for row in tiny.predictions(path)]
    opened = bert.load(path)
    atol = 0.02 if "bfloat16" in more else ROUNDING
    np.testing.assert_allclose(shares(opened.predict(texts)), wanted, atol=atol)
    served = predictor.Predictor(opened.export(tmp_path / "export"))
    np.testing.assert_allclose(shares(served.predict(texts)), wanted, atol=atol)


@pytest.mark.slow
def test_conversion_keeps_how_long_texts_are_read(trained, tmp_path):
    wanted = bert.load(trained).predict(TEXTS)
    source = trained
    for form in ("hugging_face", "google"):
        flags = f"--pretrained={source} --to={form} --output_dir={tmp_path / form}"
        tiny.succeed("convert_checkpoint", flags)
        source = tmp_path / form
        opened = bert.load(source)
        assert opened.max_seq_length == LENGTH
        assert opened.classes.windows.window_logits == "max"
        np.testing.assert_allclose(
            shares(opened.predict(TEXTS)), shares(wanted), atol=ROUNDING
        )


@pytest.mark.slow
def test_killed_run_goes_on_to_the_same_weights(trained, tmp_path):
    files = "test_results.tsv", "test_predictions.jsonl", "label_map.json"
    killed.assert_ends_as(trained, tmp_path, 60, files)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        "--gradient_accumulation_steps=2",
        "--jit_compile=true",
        "--recompute",
    ],
)
def test_weights_are_those_of_other_ways_to_compute(more, data, tmp_path, monkeypatch):
    monkeypatch.setattr(heads, "HEAD_DROPOUT", 0.0)  # drawn for each micro-batch
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = tiny.write_model(tmp_path / "model", num_hidden_layers=1, **none)
    paths = [tmp_path / "plain", tmp_path / "other"]
    for path, flags in zip(paths, ("", more), strict=True):
        # Batches of texts of one window beside those of twelve.
        run(model, data, path, WINDOWS, "--nogroup_by_length", flags, epochs=1)
    first, second = (whole_runs.variables(path, 6) for path in paths)
    for name, value in first.items():
        # Adam makes rounding of small gradients larger.
        np.testing.assert_allclose(second[name], value, atol=1e-3, err_msg=name)


@pytest.mark.slow
def test_windows_teach_a_student_that_reads_the_beginning(
    trained, model_dir, data, tmp_path
):
    more = f"--teacher={trained} --distill_weight=1"
    run(model_dir, data, tmp_path / "cut", more, epochs=1)
    run(model_dir, data, tmp_path / "whole", more, WINDOWS, epochs=20)
    assert tiny.eval_results(tmp_path / "whole")["eval_accuracy"] >= 0.95
    losses = [
        tiny.eval_results(tmp_path / each)["eval_soft_loss"]
        for each in ("cut", "whole")
    ]
    assert losses[1] < losses[0]


@pytest.mark.slow
def test_fit_trains_evaluates_and_exports_windows(model_dir, data, tmp_path, trained):
    made = bert.classifier(model_dir, max_seq_length=LENGTH)
    settings = {"train_batch_size": 10, "learning_rate": 3e-3, "num_train_epochs": 20}
    settings |= {"long_texts": "windows", "window_logits": "max"}
    made.fit(str(data / "train.tsv"), dev=str(data / "dev.tsv"), **settings)
    assert made.results["eval_accuracy"] == tiny.eval_results(trained)["eval_accuracy"]
    again = made.evaluate(str(data / "dev.tsv"))
    assert again["eval_accuracy"] == made.results["eval_accuracy"]
    wanted = shares(made.predict(TEXTS))
    served = predictor.Predictor(made.export(tmp_path / "export"))
    np.testing.assert_allclose(shares(served.predict(TEXTS)), wanted, atol=ROUNDING)
    made.save(tmp_path / "saved")
    opened = bert.classifier(tmp_path / "saved")
    np.testing.assert_allclose(shares(opened.predict(TEXTS)), wanted, atol=ROUNDING)
    assert (
        opened.evaluate(str(data / "dev.tsv"))["eval_accuracy"]
        == again["eval_accuracy"]
    )
    served = predictor.Predictor(opened.export(tmp_path / "again"))
    np.testing.assert_allclose(shares(served.predict(TEXTS)), wanted, atol=ROUNDING)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--explain=3 --do_eval", "--explain=3 is for texts in one sequence"),
        ("--write_projector --do_eval", "--write_projector is for"),
        ("--pack_sequences", "--pack_sequences is for texts in one sequence"),
        ("--lm_loss_weight=0.5", "--lm_loss_weight=0.5 is for texts in one"),
        ("--write_tf_records", "--write_tf_records is for texts in one"),
        ("--choice_columns=a,b", "--choice_columns=a,b is for texts in one"),
        ("--text_a_column=a --text_b_column=b", "--text_b_column=b is for texts"),
        ("--recipe=vectors", "--recipe=vectors reads texts in one sequence"),
        ("--pair_input=both_orders", "--pair_input=both_orders is for pairs"),
    ],
)
def test_what_reads_one_sequence_is_refused(more, words):
    flags = f"--train_file=a --do_train {WINDOWS} {more}".split()
    with refused(words):
        tiny.settings_of("run_classifier", *flags).check_rows()


def test_settings_of_windows_need_windows():
    for flag in ("--doc_stride=9", "--max_windows=3", "--window_logits=max"):
        settings = tiny.settings_of("run_classifier", flag)
        with refused(flag, "long_texts=windows"):
            fields.Settings.check(settings)
