"""bert.classifier, tagger, reader and embedder: `fit` is the script's own training."""

import functools
import json
import pathlib

import numpy as np
import pytest

import bert_reborn as bert
from contract import errors
from tests import tiny, tiny_questions, tiny_tags


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    return tiny.write_model(path, num_hidden_layers=1, hidden_act="relu")


ROWS = tiny.rows(24)
TEXTS, LABELS = zip(*ROWS, strict=True)
SHORT = {"num_train_epochs": 1, "train_batch_size": 12, "write_report": False}
SHORT |= {"max_seq_length": 32, "learning_rate": 1e-3}


def settings(name):
    return {**SHORT, **({"max_query_length": 8} if name == "reader" else {})}


def write_classifier(path):
    return tiny.write_tsv(path / "train.tsv", ("text", "label"), ROWS)


def write_tagger(path):
    return tiny_tags.write_conll(path / "train.conll", tiny_tags.sentences(24))


def write_reader(path):
    return tiny_questions.version_1(path / "train.json", 24)


PAIRS = [(text, f"{label} {text}", str(i % 6)) for i, (text, label) in enumerate(ROWS)]


def write_embedder(path):
    columns = "text_a", "text_b", "score"
    return tiny.write_tsv(path / "train.tsv", columns, PAIRS)


def questions(count):
    """Rows of questions as the library `datasets` has them."""
    for number in range(count):
        (record,) = (paragraph := tiny_questions.question(number))["qas"]
        (answer,) = record.pop("answers")
        answers = {name: [value] for name, value in answer.items()}
        yield {"context": paragraph["context"], **record, "answers": answers}


def script_of(name):
    scripts = {"reader": "squad", "embedder": "embedding"}
    return f"run_{scripts.get(name, name)}"


FITTED = {
    "classifier": (write_classifier, (TEXTS, LABELS)),
    "tagger": (write_tagger, tuple(zip(*tiny_tags.sentences(24), strict=True))),
    "reader": (write_reader, (list(questions(24)),)),
    "embedder": (write_embedder, ([(a, b, float(c)) for a, b, c in PAIRS],)),
}


@functools.cache
def fitted(name, model_dir, seed=1):
    return getattr(bert, name)(model_dir).fit(
        *FITTED[name][1], seed=seed, **settings(name)
    )


def stored(directory):
    """{name: value} of the checkpoint of 2 steps, moments and all."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(f"{directory}/model.ckpt-2")
    return {n: reader.get_tensor(n) for n in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("name", FITTED)
def test_fit_is_the_training_of_the_script(name, model_dir, tmp_path):
    write, rows = FITTED[name]
    table, script = write(tmp_path), script_of(name)
    output = tmp_path / "script"
    arguments = f"--do_train --train_file={table} --pretrained={model_dir}"
    more = [f"--{k}={str(v).lower()}" for k, v in settings(name).items()]
    tiny.succeed(script, *more, f"{arguments} --output_dir={output}")
    made = fitted(name, model_dir)
    wanted, actual = stored(output), stored(made.output_dir)
    assert wanted.keys() == actual.keys() and len(wanted) > 60
    for variable, value in wanted.items():
        assert np.array_equal(value, actual[variable]), variable
    by_path = {v.path.split("/", 1)[1]: v.numpy() for v in made.model.variables}
    script_model = getattr(bert, name)(output).loaded.model
    for variable in script_model.variables:
        value = by_path[variable.path.split("/", 1)[1]]
        assert np.array_equal(value, variable), variable.path
    # As the same run: in the script's directory nothing is left to do.
    record = json.loads((output / "run.json").read_text())
    again = json.loads(pathlib.Path(made.output_dir, "run.json").read_text())
    assert record["identity"] == again["identity"]


@pytest.mark.parametrize("name", FITTED)
def test_another_seed_gives_other_weights(name, model_dir):
    one, two = (stored(fitted(name, model_dir, n).output_dir) for n in (1, 2))
    assert not all(np.array_equal(value, two[key]) for key, value in one.items())


DEV = {
    "classifier": tiny.rows(12, 24),
    "tagger": tiny_tags.sentences(12, 24),
    "reader": [*questions(30)][24:],
    "embedder": [(f"{a} the", b, float(c)) for a, b, c in PAIRS[:12]],
}


def write_dev(name, path):
    if name == "classifier":
        return tiny.write_tsv(path / "dev.tsv", ("text", "label"), DEV[name])
    if name == "tagger":
        return tiny_tags.write_conll(path / "dev.conll", DEV[name])
    if name == "reader":
        return tiny_questions.version_1(path / "dev.json", 6, 24)
    columns = "text_a", "text_b", "score"
    return tiny.write_tsv(path / "dev.tsv", columns, DEV[name])


@pytest.mark.parametrize("name", FITTED)
def test_evaluation_is_that_of_the_script(name, model_dir, tmp_path):
    made, table = fitted(name, model_dir), write_dev(name, tmp_path)
    evaluation = made.evaluate(DEV[name])
    kind = ("predict", "predict") if name == "reader" else ("eval", "dev")
    more = [f"--{k}={str(v).lower()}" for k, v in settings(name).items()]
    arguments = f"--do_{kind[0]} --{kind[1]}_file={table} --pretrained={model_dir}"
    tiny.succeed(script_of(name), *more, f"{arguments} --output_dir={made.output_dir}")
    wanted = tiny.eval_results(made.output_dir)
    assert int(wanted.pop("global_step")) == 2 and wanted
    assert {k: float(str(v)) for k, v in evaluation.results.items()} == wanted
    first = min(wanted)
    assert f"{first} = " in repr(evaluation) and evaluation[first] == pytest.approx(
        wanted[first]
    )
    shown = repr(evaluation) + repr(made)
    assert not any(word in shown for word in ("film", "shop", "great", "really"))
    assert made.evaluate(table).results == evaluation.results


def test_matrix_classes_and_errors_of_an_evaluation(model_dir):
    made = fitted("classifier", model_dir)
    evaluation = made.evaluate(*zip(*DEV["classifier"], strict=True))
    predicted = [
        answer["label"] for answer in made.predict([t for t, _ in DEV["classifier"]])
    ]
    wanted = np.zeros((3, 3), int)
    for guess, (_, label) in zip(predicted, DEV["classifier"], strict=True):
        wanted[tiny.LABELS.index(label), tiny.LABELS.index(guess)] += 1
    assert evaluation.confusion.tolist() == wanted.tolist()
    right = np.trace(wanted)
    assert evaluation["eval_accuracy"] == pytest.approx(right / 12) and right < 12
    assert [row["rows"] for row in evaluation.classes] == [4, 4, 4]
    errors_shown = evaluation.errors
    losses = [row["loss"] for row in errors_shown]
    assert len(errors_shown) == 12 - right and losses == sorted(losses, reverse=True)
    texts = dict(DEV["classifier"])
    assert all(texts[row["texts"][0]] == row["expected"] for row in errors_shown)
    numbers = fitted("embedder", model_dir).evaluate(DEV["embedder"])
    assert numbers.errors == []
    for shown in ("classes", "confusion"):
        with pytest.raises(errors.InputError, match="no classes; see results"):
            getattr(numbers, shown)


def test_predictions_are_those_of_the_export(model_dir, tmp_path):
    words = " ".join(tiny_tags.sentence(3)[0])
    context = tiny_questions.context(3)[0]
    calls = {
        "classifier": [["the film was great", "awful"]],
        "tagger": [[words, "the shop"]],
        "reader": [["was it"], [context]],
    }
    for name, texts in calls.items():
        made = fitted(name, model_dir)
        answers = made.predict(*texts)
        path = made.export(tmp_path / name)
        assert path == f"{tmp_path / name}/1"
        served = bert.Predictor(path).predict(*texts)
        assert [a.keys() for a in answers] == [s.keys() for s in served]
        for answer, other in zip(answers, served, strict=True):
            for key, value in other.items():
                if key in ("label", "tags", "answer", "words"):
                    assert answer[key] == value
                elif key == "probabilities" and name == "classifier":
                    assert answer[key] == pytest.approx(value, abs=2e-6)
                else:
                    np.testing.assert_allclose(answer[key], value, atol=1e-5)
        empty = [[] for _ in texts]
        assert made.predict(*empty) == []
    vectors = fitted("embedder", model_dir)
    made = vectors.export(tmp_path / "embedder")
    served = bert.Predictor(made, "embed").predict(["the film"])[0]["vector"]
    np.testing.assert_allclose(vectors.embed(["the film"])[0], served, atol=1e-5)


@pytest.mark.parametrize("name", FITTED)
def test_what_is_saved_opens_as_the_same_kind(name, model_dir, tmp_path):
    made = fitted(name, model_dir)
    made.save(tmp_path / "saved")
    settings = {"max_seq_length": 32}
    again = getattr(bert, name)(tmp_path / "saved", **settings)
    wanted = {
        v.path.split("/", 1)[1]: v.numpy() for v in made.model.trainable_variables
    }
    for variable in again.model.trainable_variables:
        np.testing.assert_array_equal(wanted[variable.path.split("/", 1)[1]], variable)
    if name != "reader":  # whose limits are flags of a run
        assert again.evaluate(DEV[name]).results == made.evaluate(DEV[name]).results
