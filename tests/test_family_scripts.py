"""BERT's relatives in the scripts, from text to the answers of an export."""

import itertools
import json

import numpy as np
import pytest

import bert_reborn as bert
from serving import predictor
from tests import tiny, tiny_family, whole_runs

NETWORKS = (
    *("distilbert", "roberta", "electra", "albert"),
    *("deberta-v2", "modernbert", "mpnet", "nomic_bert"),
)
# Float32 rounding; two graphs multiply matrices of different padding.
ROUNDING = 1e-5
TEXTS = ["the great sea", "a film was awful and it was really okay"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The texts of whole_runs, and a directory of each relative beside them."""
    directory = tmp_path_factory.mktemp("data")
    whole_runs.write_texts(directory)
    for network in NETWORKS:
        # XLA, which the gelu of training needs, takes its time.
        path = directory / network
        tiny_family.write_model(path, network, "pretraining", hidden_act="relu")
    return directory


def run(name, network, data, path, *more, steps=2):
    """A run of whole_runs with a relative for its BERT."""
    flags = whole_runs.arguments(name, data, model=network, steps=steps)
    script = whole_runs.SCRIPTS[name]
    return tiny.succeed(script, *flags, f"--output_dir={path}", *more)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_classifier_is_trained_loaded_and_exported(network, data, tmp_path):
    done = run("classification", network, data, tmp_path, "--do_export", steps=6)
    assert "classifier" in done.out.split("newly initialised: ")[1]
    rows = tiny.predictions(tmp_path)
    loaded = bert.load(tmp_path)
    assert loaded.model.config.model_type == network
    texts = [row["text_a"] for row in rows]
    served = predictor.Predictor(str(tmp_path / "export")).predict(texts)
    for row, here, there in zip(rows, loaded.predict(texts), served, strict=True):
        for answer in (here, there):
            assert answer["label"] == row["label"]
            assert answer["probabilities"] == pytest.approx(
                row["probabilities"], abs=ROUNDING
            )
    assert len({row["probabilities"][row["label"]] for row in rows}) > len(rows) / 2


def predictions(path):
    """The predicted rows of a run, with rounded numbers, or the vectors of texts."""
    if (path / "test_vectors.npz").exists():
        with np.load(path / "test_vectors.npz") as arrays:
            return arrays["vectors"]
    if (path / "nbest_predictions.json").exists():
        answers = json.loads((path / "nbest_predictions.json").read_text())
        return [entry["probability"] for key in answers for entry in answers[key]]
    rows = tiny.predictions(path)
    if "tags" in rows[0]:
        return [share for row in rows for share in row["probabilities"]]
    return [share for row in rows for share in row["probabilities"].values()]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["choice", "questions", "tagging", "layers"])
@pytest.mark.parametrize("network", NETWORKS)
def test_converted_model_of_each_task_predicts_the_same(network, task, data, tmp_path):
    """From a directory of Hugging Face, which has the head under its names there."""
    run(task, network, data, tmp_path / "run", steps=8)
    expected = predictions(tmp_path / "run")
    assert np.std(expected) > 20 * ROUNDING
    path = tmp_path / "hugging_face"
    tiny.succeed(
        "convert_checkpoint",
        f"--input={tmp_path / 'run'} --to=hugging_face --output_dir={path}",
    )
    more = f"--nodo_train --pretrained={path}"
    run(task, network, data, tmp_path / "again", more)
    actual = predictions(tmp_path / "again")
    np.testing.assert_allclose(actual, expected, atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_export_of_tags_and_answers_has_those_of_the_files(network, data, tmp_path):
    run("tagging", network, data, tmp_path / "tags", "--do_export")
    rows = tiny.predictions(tmp_path / "tags")
    exported = predictor.Predictor(str(tmp_path / "tags" / "export"))
    for row in rows:
        (served,) = exported.predict(" ".join(row["words"]))
        assert served["words"] == row["words"] and served["tags"] == row["tags"]
        np.testing.assert_allclose(
            served["probabilities"], row["probabilities"], atol=ROUNDING
        )
    run("questions", network, data, tmp_path / "answers", "--do_export")
    answers = json.loads((tmp_path / "answers" / "predictions.json").read_text())
    exported = predictor.Predictor(str(tmp_path / "answers" / "export"))
    paragraphs = json.loads((data / "dev.json").read_text())["data"]
    for paragraph in (part for page in paragraphs for part in page["paragraphs"]):
        (question,) = paragraph["qas"]
        texts = [question["question"]], [paragraph["context"]]
        (served,) = exported.predict(*texts)
        assert served["answer"] == answers[question["id"]]


@pytest.mark.slow
@pytest.mark.parametrize("export_format", ["onnx", "litert"])
@pytest.mark.parametrize("network", NETWORKS)
def test_other_runtimes_have_the_answers_of_the_model(
    network, export_format, data, tmp_path
):
    run("classification", network, data, tmp_path, steps=6)
    rows = tiny.predictions(tmp_path)
    shares = np.array([[*row["probabilities"].values()] for row in rows])
    texts = [row["text_a"] for row in rows]
    kinds = {"none": ROUNDING, "dynamic_int8": 0.03}
    if export_format == "onnx":
        kinds["static_int8"] = 0.03
    for quantization, limit in kinds.items():
        tiny.run_again(
            tmp_path,
            f"--nodo_train --do_export --export_format={export_format}",
            f"--quantization={quantization}",
        )
        path = tmp_path / f"export_{export_format}"
        served = predictor.Predictor(str(path)).predict(texts)
        actual = np.array([[*row["probabilities"].values()] for row in served])
        distance = np.abs(actual - shares).max()
        assert distance < limit
        assert quantization == "none" or distance > ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_vectors_of_texts_are_the_same_everywhere(network, data, tmp_path):
    run("vectors", network, data, tmp_path / "run", "--do_export")
    with np.load(tmp_path / "run" / "test_vectors.npz") as arrays:
        trained = arrays["vectors"].reshape(-1, 32)
    lines = (data / "near.tsv").read_text().splitlines()[1:]
    sources = [text for line in lines for text in line.split("\t")]
    exported = predictor.Predictor(str(tmp_path / "run" / "export"))
    served = [row["vector"] for row in exported.predict(sources)]
    np.testing.assert_allclose(served, trained, atol=ROUNDING)
    np.testing.assert_allclose(
        bert.load(tmp_path / "run").embed(sources), trained, atol=ROUNDING
    )
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{text}\n" for text in TEXTS))
    tiny.succeed(
        "extract_features",
        f"--pretrained={data / network} --input_file={lines}",
        f"--output_file={tmp_path / 'vectors.npz'} --output_format=npz",
        "--layers=-1 --pooling=mean --max_seq_length=48",
    )
    loaded = bert.load(data / network, head="none", max_seq_length=48)
    features = loaded.encode(TEXTS)
    hidden = loaded.model(features)["sequence_output"].numpy()
    mask = np.asarray(features["input_mask"])[:, :, None]
    expected = (hidden * mask).sum(1) / mask.sum(1)
    with np.load(tmp_path / "vectors.npz") as arrays:
        vectors = arrays["values"][:, 0]
    np.testing.assert_allclose(vectors, expected, atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_masked_words_are_learned(network, data, tmp_path):
    """Records with a second sentence, which is not counted where no head reads it."""
    text = tmp_path / "text.txt"
    lines = [line for line, _ in tiny.rows(60)]
    text.write_text("".join(f"{a}\n{b}\n\n" for a, b in itertools.pairwise(lines)))
    vocab = "tokenizer.json" if network == "roberta" else "vocab.txt"
    tiny.succeed(
        "create_pretraining_data",
        f"--input_file={text} --output_file={tmp_path / 'records.tfrecord'}",
        f"--vocab_file={data / network / vocab} --num_workers=1 --dupe_factor=2",
        "--max_seq_length=32 --max_predictions_per_seq=4",
    )
    flags = f"--pretrained={data / network} --do_train --do_eval --do_export"
    flags += f" --input_file={tmp_path / 'records.tfrecord'} --max_seq_length=32"
    flags += " --max_predictions_per_seq=4 --train_batch_size=16 --learning_rate=1e-3"
    flags += " --num_train_steps=500 --num_warmup_steps=20"
    path = tmp_path / "run"
    tiny.succeed("run_pretraining", flags, f"--output_dir={path}")
    scores = tiny.eval_results(path)
    assert ("next_sentence_accuracy" in scores) == (network == "albert")
    # How often each word comes gives a tenth to BERT's words, a sixth to RoBERTa's.
    assert scores["masked_lm_accuracy"] > 0.2
    mask = {"roberta": "<mask>", "mpnet": " <mask>"}.get(network, " [MASK]")
    exported = predictor.Predictor(str(path / "export"))
    (served,) = exported.predict(f"the{mask} sea")
    assert len(served["masks"][0]["tokens"]) == 5
    shares = served["masks"][0]["probabilities"]
    assert shares == sorted(shares, reverse=True) and shares[0] > 2 * shares[-1]
    # The tokens of a text are those before padding, whatever ends them.
    texts = predictor.Predictor(str(path / "export"), "embed_tokens").predict(TEXTS)
    ids = bert.load(path, max_seq_length=32).encode(TEXTS)["input_mask"]
    counts = np.sum(np.asarray(ids), axis=1).tolist()
    assert [len(each["tokens"]) for each in texts] == counts
    assert [len(each["vectors"]) for each in texts] == counts


@pytest.mark.slow
@pytest.mark.parametrize(
    "teacher, student", [("roberta", "distilbert"), *[("albert",) * 2]]
)
def test_relatives_teach_each_other(teacher, student, data, tmp_path):
    run("classification", teacher, data, tmp_path / "teacher", steps=12)
    run(
        *("classification", student, data, tmp_path / "student"),
        f"--teacher={tmp_path / 'teacher'} --distill_temperature=2",
        steps=12,
    )
    assert tiny.eval_results(tmp_path / "student")["eval_accuracy"] > 0
