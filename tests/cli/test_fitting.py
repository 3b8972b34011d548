"""bert.classifier, tagger, reader and embedder: `fit` is the script's own training."""

import copy
import functools
import json
import pathlib
import pickle
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

import bert_reborn as bert
from cli import argument_names, fitting
from contract import errors
from tasks.settings import fields
from tests import daily, no_texts, tiny, tiny_questions, tiny_tags

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


ONE_DAILY = daily.params(FITTED, lambda name: name == "classifier")


@functools.cache
def fitted(name, model_dir, seed=1):
    model = getattr(bert, name)(model_dir)
    given = model.settings_class(**settings(name))
    return model.fit(*FITTED[name][1], settings=given, seed=seed)


def stored(directory):
    """{name: value} of the checkpoint of 2 steps, moments and all."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(f"{directory}/model.ckpt-2")
    return {n: reader.get_tensor(n) for n in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("name", ONE_DAILY)
def test_fit_is_the_training_of_the_script(name, model_dir, tmp_path):
    table, script = FITTED[name][0](tmp_path), script_of(name)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_DAILY)
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


@pytest.mark.parametrize("name", ONE_DAILY)
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
    numbers = bert.embedder(model_dir, max_seq_length=32).evaluate(DEV["embedder"])
    assert numbers.errors == []
    for shown in ("classes", "confusion"):
        with pytest.raises(errors.InputError, match="no classes; see results"):
            getattr(numbers, shown)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("tagger", [[" ".join(tiny_tags.sentence(3)[0]), "the shop"]]),
        ("reader", [["was it"], [tiny_questions.context(3)[0]]]),
    ],
)
def test_predictions_are_those_of_the_export(name, texts, model_dir, tmp_path):
    made = fitted(name, model_dir)
    answers, path = made.predict(*texts), made.export(tmp_path / "export")
    assert path == f"{tmp_path}/export/1"
    served = bert.Predictor(path).predict(*texts)
    for answer, other in zip(answers, served, strict=True):
        assert answer.keys() == other.keys() and answer
        for key, value in other.items():
            if key in ("tags", "answer", "words"):
                assert answer[key] == value
            else:
                np.testing.assert_allclose(answer[key], value, atol=1e-5)
    assert made.predict(*[[] for _ in texts]) == []
    argument = "question" if name == "reader" else "text"
    no_texts.refused(argument, lambda each: made.predict(each, *texts[1:]))
    (one,) = made.predict(*[column[0] for column in texts])
    shown = "answer" if name == "reader" else "tags"
    assert one[shown] == answers[0][shown]


@pytest.mark.parametrize(
    "file_format", [pytest.param("google", marks=pytest.mark.slow), "hugging_face"]
)
def test_pairs_and_their_length_are_saved_and_converted(
    model_dir, tmp_path, file_format
):
    pairs = [(text, "the shop", label) for text, label in ROWS]
    made = bert.classifier(model_dir).fit(pairs, **SHORT)
    texts = ["a film " * 20], ["the shop"]
    wanted = made.predict(*texts)
    made.save(tmp_path / "saved", file_format)
    files = f"--input={tmp_path}/saved", f"--output_dir={tmp_path}/converted"
    tiny.succeed("convert_checkpoint", *files, f"--to={file_format}")
    for name in ("saved", "converted"):
        again = bert.load(tmp_path / name)
        assert (again.num_texts, again.max_seq_length) == (2, 32)
        assert again.predict(*texts) == wanted
        with pytest.raises(ValueError, match="made for pairs"):
            bert.classifier(tmp_path / name).predict(texts[0])
    longer = bert.load(tmp_path / "saved", max_seq_length=40)
    assert longer.predict(*texts) != wanted


@pytest.mark.slow
def test_pairs_are_exported_as_pairs(model_dir, tmp_path):
    """A single text in the place of a pair has an answer, too, and another one."""
    pairs = [(text, "the shop", label) for text, label in ROWS]
    fitted_to = bert.classifier(model_dir).fit(pairs, **SHORT)
    (wanted,) = fitted_to.predict(["a film"], ["the shop"])
    served = bert.Predictor(fitted_to.export(tmp_path / "pairs"))
    (answer,) = served.predict(["a film"], ["the shop"])
    assert served.text_names == ["text_a", "text_b"]
    assert answer["probabilities"] == pytest.approx(wanted["probabilities"], abs=1e-5)


@pytest.mark.slow
def test_static_int8_is_calibrated_on_rows_of_each_kind(model_dir, tmp_path):
    pairs = [(text, "the shop", label) for text, label in ROWS]
    settings = {"export_format": "onnx", "quantization": "static_int8"}
    models = {name: (fitted(name, model_dir), DEV[name]) for name in DEV}
    models["pairs"] = bert.classifier(model_dir).fit(pairs, **SHORT), pairs
    for name, (made, rows) in models.items():
        path = made.export(tmp_path / name, rows=rows, **settings)
        served = bert.Predictor(path)
        assert served.predict(*[["a film"] for _ in served.text_names])
        with pytest.raises(ValueError, match=r'^quantization="static_int8" calibrates'):
            made.export(tmp_path / "none", **settings)


@pytest.mark.parametrize("name", ONE_DAILY)
def test_what_is_saved_opens_as_the_same_kind(name, model_dir, tmp_path):
    made = fitted(name, model_dir)
    made.save(tmp_path / "saved")
    length = {} if name in ("classifier", "tagger") else {"max_seq_length": 32}
    again = getattr(bert, name)(tmp_path / "saved", **length)
    wanted = {
        v.path.split("/", 1)[1]: v.numpy() for v in made.model.trainable_variables
    }
    for variable in again.model.trainable_variables:
        np.testing.assert_array_equal(wanted[variable.path.split("/", 1)[1]], variable)
    if name != "reader":  # whose limits are flags of a run
        assert again.evaluate(DEV[name]).results == made.evaluate(DEV[name]).results


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.fit([]), "^rows: is empty; give it one row per example$"),
        (
            lambda c: c.fit(["a", "b"], ["x"]),
            "^text: 2, label: 1; give one for each$",
        ),
        (lambda c: c.fit({"a": 1}), "^rows: a dict is no list of rows; give a list"),
        (lambda c: c.fit("a", "x"), "^text: a str has no order of rows; give a list$"),
        (lambda c: c.fit({"a", "b"}, [0, 1]), "^text: a set has no order of rows"),
        (lambda c: c.fit(ROWS, batch_size=1), "^batch_size is train_batch_size here$"),
        (lambda c: c.fit(ROWS, lr=1), "^lr is learning_rate here$"),
        (lambda c: c.fit(ROWS, fp16=True), '^fp16 is mixed_precision="float16" here$'),
        (lambda c: c.fit(ROWS, dev_file="a"), "^dev_file is dev here$"),
        (lambda c: c.fit(ROWS, explain=3), "^explain explains .*; add dev=rows$"),
        (lambda c: c.fit(ROWS, write_projector=True), "^write.* rows; add dev=rows$"),
        (lambda c: c.fit(ROWS, task_name="CoLA"), "^task_name is no argument here; "),
        (
            lambda c: c.fit(TEXTS, LABELS, labels="x,y"),
            "^labels: those of the rows are the second .* to bert.classifier",
        ),
        (
            lambda c: c.fit(ROWS, class_weights="balance", train_batch_size=4),
            '^class_weights="balance" has 1 number for 3 classes; give balanced, or ',
        ),
        (lambda c: c.fit([(b"\xff", "x")]), "^rows:1: text: .* is not UTF-8; decode"),
        (lambda c: c.fit([("a", "x", 1, 2)]), r"^rows:1: .* has 4 values; give 1 or 2"),
        (
            lambda c: c.fit([{"body": "a", "label": "x"}]),
            "^rows: .*; pass text_a_column",
        ),
        (lambda c: c.fit(ROWS, dev=[("a", "x")]), "^dev:1: label 'x' .*'bad'"),
        (lambda c: c.fit("nowhere.tsv"), '^rows="nowhere.tsv": no such file'),
        (
            lambda c: c.fit("nowhere.parquet"),
            "^nowhere.parquet: no such file; check the path$",
        ),
        (
            lambda c: c.fit(ROWS, learning_rat=1),
            "^learning_rat is no setting of run_classifier; did you mean learning_rat",
        ),
        (lambda c: c.fit(ROWS, zzz=1), "^zzz is no setting of .*; see docs/flags.md$"),
        (lambda c: c.fit(ROWS, learning_rate="x"), "^learning_rate='x' is no number$"),
        (
            lambda c: c.fit(ROWS, learning_rate=-1),
            "^learning_rate=-1 is below 0; give another number$",
        ),
        (
            lambda c: c.fit(ROWS, write_report="no"),
            "^write_report='no' is neither True nor False$",
        ),
        (
            lambda c: c.fit(ROWS, optimizer="adamw"),
            '^optimizer="adamw" is none of adam, lamb, ',
        ),
        (
            lambda c: c.fit(ROWS, settings=bert.TaggerSettings()),
            "^settings: a TaggerSettings; give a ClassifierSettings$",
        ),
        (
            lambda c: c.fit(ROWS, settings=bert.ClassifierSettings(seed=2), seed=3),
            "^seed is in settings, too; give it once$",
        ),
        (
            lambda c: c.fit(ROWS, settings=bert.ClassifierSettings(do_eval=True)),
            "^do_eval is no argument here; run",
        ),
        (lambda c: c.fit(ROWS, do_eval=True), "^do_eval is no argument here; run"),
        (
            lambda c: c.fit(ROWS, seeds=[1, 2]),
            "^seeds is no .* run_classifier.py with it$",
        ),
        (lambda c: c.fit(ROWS, train_batch_size=99), "of train_batch_size=99; lower"),
        (lambda c: c.evaluate(ROWS), "has no classifier yet; call fit, or pass labels"),
        (lambda c: c.predict("a"), "has no classifier yet; call fit, or pass labels"),
        (lambda c: c.report("r.html"), r"^report: there is none yet; call fit\(rows"),
        (lambda c: c.report(5), "^path is of type int; give a path as text$"),
        (lambda c: c.fit(ROWS, output_dir=b"x"), "^output_dir is of type bytes; give"),
        (lambda c: c.fit(no_texts.EACH[0][0], LABELS), "^text: a Frame has columns; "),
        (lambda c: c.fit(TEXTS, {"a": 1}), "^label: a dict has columns; give one of"),
        (lambda c: c.fit([1, 2]), "^rows:1 is of type int; give a list$"),
        (lambda c: c.fit([{"a", "b"}]), "^rows:1: a set has no order of rows; give"),
        (
            lambda c: c.fit(ROWS, class_weights={"good": 2}),
            "^class_weights: a dict has no order; give a list$",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_line(model_dir, call, message):
    made = bert.classifier(model_dir, max_seq_length=16)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
        call(made)
    assert "\n" not in str(caught.value) and "--" not in str(caught.value)
    assert "TEXTS" not in repr(made) and str(model_dir) in repr(made)


def test_notes_on_rows_name_arguments(model_dir, capsys):
    rows = [*ROWS, ("the film", "-")]
    made = bert.classifier(model_dir, max_seq_length=16)
    made.read({"train": rows})
    made.fit(rows, **SHORT)
    lines = capsys.readouterr().out.splitlines()
    notes = [line for line in lines if "left out 1 row without a label" in line]
    assert [note.partition("; ")[2] for note in notes] == [
        "for a class of that name, name all with labels"
    ] * 2


def test_words_of_other_libraries_lead_to_settings():
    known = fields.rows(bert.ClassifierSettings)
    for name, here in fitting._ELSEWHERE.items():
        setting = here.partition("=")[0]
        assert setting in (*known, *fitting._ROWS)
        assert name not in known or not known[name].rules.in_python


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labels": ["a", "a"]}, "^labels: 'a' is named more than once"),
        ({"labels": ["", "a"]}, r"^labels=\['', 'a'\]: one is empty; name or remove"),
        (
            {"labels": ["good"]},
            "^classification needs 2 labels or more, not .* labels$",
        ),
        (
            {"labels": ["a"], "problem_type": "regression"},
            "^regression has no .*labels",
        ),
    ],
)
def test_labels_are_checked_before_fit(model_dir, settings, message):
    with pytest.raises(errors.InputError, match=message):
        bert.classifier(model_dir, **settings)
    one = {"labels": ["a"], "max_seq_length": 16}
    for more in ({"problem_type": "multi_label"}, {"label_column": ["a"]}):
        assert bert.classifier(model_dir, **one, **more)


class Dataset(list):
    """Rows as the library `datasets` has them."""

    column_names = ("text", "label")
    features = {"label": type("ClassLabel", (), {"names": tiny.LABELS})}  # noqa: RUF012

    def to_dict(self):
        raise AssertionError("returns columns")


def rows_of(kind, path):
    ids = [{"text": text, "label": tiny.LABELS.index(name)} for text, name in ROWS]
    if kind == "dataset":
        return Dataset(ids)
    if kind == "generator":
        return iter(ROWS)
    if kind == "path":
        return write_classifier(path)
    if kind == "bytes":
        return [(text.encode(), np.array(label.encode())) for text, label in ROWS]
    if kind == "tensors":
        return tf.data.Dataset.from_tensor_slices((list(TEXTS), list(LABELS)))
    from pyarrow import Table, parquet

    columns = {"text": list(TEXTS), "label": list(LABELS)}
    if kind == "arrow":
        return Table.from_pydict(columns)
    parquet.write_table(Table.from_pydict(columns), path / "rows.parquet")
    return path / "rows.parquet"


KINDS = ["dataset", "generator", "path", "parquet", "arrow", "bytes", "tensors"]


@pytest.mark.slow
def test_rows_of_any_kind_are_the_same(model_dir, tmp_path):
    made = fitted("classifier", model_dir)
    wanted = made.evaluate(ROWS).results
    for kind in KINDS:
        assert made.evaluate(rows_of(kind, tmp_path)).results == wanted, kind
    other = [(text, tiny.LABELS[i % 2]) for i, text in enumerate(TEXTS)]
    assert made.evaluate(other).results != wanted


def test_an_encoding_is_that_of_files_and_not_of_rows_in_memory(model_dir, tmp_path):
    rows, path = [("Größe süß", "good"), ("bäh €", "bad")], tmp_path / "t.tsv"
    lines = "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows])
    path.write_bytes(lines.encode("cp1252"))
    made = bert.classifier(model_dir, labels=["good", "bad"], encoding="cp1252")
    given = {"train_file": (path, None), "dev_file": (rows, None)}
    values = {**SHORT, "output_dir": str(tmp_path), "do_train": True}
    values |= {"train_batch_size": 2, "max_seq_length": 8}
    with made._prepared({**values, "do_eval": True}, given) as (task, _):
        read = [task.data[split].table.text_a for split in ("train", "dev")]
    assert read == [["Größe süß", "bäh €"]] * 2
    assert made.read({"train": path}).splits["train"].table.text_a == read[0]
    for encoding, message in (
        ("cp0", '^encoding="cp0" is no encoding of text; give'),
        (None, r"t\.tsv:2: .*, or pass encoding, such as cp1252"),
    ):
        made = bert.classifier(model_dir, encoding=encoding)
        with (
            pytest.raises(ValueError, match=message),
            made._prepared(values, {"train_file": (path, None)}),
        ):
            pass


class Table(list):
    """A DataFrame of pandas."""

    columns = "text", "label", "number"

    def __iter__(self):
        return iter(self.columns)

    def to_dict(self, orient):
        assert orient == "records"
        return [*super().__iter__()]


def test_predictions_of_a_table_are_those_of_its_texts(model_dir, tmp_path):
    """By the columns of `fit`; the names of the columns are no texts."""
    made = fitted("classifier", model_dir)
    wanted = made.predict(TEXTS)
    dicts = [{"number": i, "text": text} for i, text in enumerate(TEXTS)]
    for rows in (
        Table(dicts),
        dicts,
        *(rows_of(k, None) for k in ("dataset", "arrow")),
    ):
        assert made.predict(rows) == wanted
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in dicts))
    assert made.predict(path) == made.predict(str(path)) == wanted
    for given in (path, str(path)):
        with pytest.raises(errors.InputError, match=r"^texts"):
            made.predict(given, TEXTS)
    marked = [{**row, "label": "good", "answer": "reject"} for row in dicts]
    path.write_text("".join(json.dumps(row) + "\n" for row in marked))
    assert made.predict(path) == wanted
    with pytest.raises(errors.InputError, match=r"rows\.jsonl is a file; give a list"):
        bert.load(made.output_dir).predict(str(path))
    loaded = bert.load(made.output_dir)
    for predict in (made.predict, loaded.predict, loaded.embed):
        with pytest.raises(
            errors.InputError, match=r"nowhere\.tsv: there is no such fi"
        ):
            predict("nowhere.tsv")
    assert made.predict("see rows.tsv") and made.predict(["nowhere.tsv"])
    assert made.predict([]) == made.predict(Table()) == []
    own = bert.classifier(made.output_dir, text_a_column="body", label_column="topic")
    others = [{"text": "a", "body": text} for text in TEXTS]
    assert own.predict(others) == wanted
    with pytest.raises(errors.InputError, match=r"^rows: no column 'body' .*text_a"):
        own.predict(dicts)
    with pytest.raises(
        errors.InputError, match=r"^texts: a Table has columns; give one"
    ):
        made.predict(Table(dicts), TEXTS)
    with pytest.raises(
        errors.InputError, match=r"^texts: a Table has columns; give one"
    ):
        bert.load(made.output_dir).predict(Table(dicts))
    for kind in ("set", "dict"):
        with pytest.raises(errors.InputError, match=f"^texts: a {kind} has "):
            made.predict({"set": {"a"}, "dict": {"text": TEXTS}}[kind])


def test_predictions_of_rows_that_are_left_out_are_refused(model_dir, monkeypatch):
    from data_pipeline.tables import labelled

    made, whole = fitted("classifier", model_dir), labelled.Open.read
    monkeypatch.setattr(
        *(labelled.Open, "read"),
        lambda *each: labelled.take(whole(*each), np.arange(3) > 0),
    )
    with pytest.raises(
        errors.InputError, match=r"^rows: 1 of 3 are left out, .*; remove them$"
    ):
        made.predict([{"text": text} for text in TEXTS[:3]])


def decided(answers, threshold):
    """Whether they have the labels of such a probability; some rows have several."""
    for answer in answers:
        shares = answer["probabilities"].items()
        assert answer["labels"] == [n for n, share in shares if share >= threshold]
    return [",".join(answer["labels"]) for answer in answers]


@pytest.mark.slow
def test_threshold_of_a_run_is_that_of_its_predictions(model_dir, tmp_path):
    """And of its evaluation; without a number on record it is 0.5."""
    rows = [(text, [label]) for text, label in ROWS[:12]]
    kind = {"problem_type": "multi_label"}
    made = bert.classifier(model_dir, labels=tiny.LABELS, max_seq_length=16, **kind)
    tiny.as_trained(made)
    made.save(tmp_path)
    shares = [[*a["probabilities"].values()] for a in made.predict(TEXTS[:12])]
    middle = float(np.median(shares))
    for value, wanted in (("odd", 0.5), (middle, middle)):
        run = {"flags": {"multi_label_threshold": value, "max_seq_length": 16}}
        (tmp_path / "run.json").write_text(json.dumps(run))
        for names in ((), tiny.LABELS):
            assert bert.load(tmp_path, labels=names).threshold == wanted
    opened = bert.classifier(tmp_path, **kind)
    answers = opened.predict(TEXTS[:12])
    predicted = decided(answers, middle)
    assert opened.evaluate(rows).rows.predicted == predicted and len({*predicted}) > 1
    assert predicted != decided(made.predict(TEXTS[:12]), 0.5)


@pytest.mark.slow
def test_threshold_of_a_fit_is_that_of_its_predictions(model_dir, tmp_path):
    rows = [(text, [label]) for text, label in ROWS]
    made = bert.classifier(model_dir, problem_type="multi_label")
    path = tmp_path / "run"
    settings = bert.ClassifierSettings(**SHORT, output_dir=path)
    made.fit(rows, multi_label_threshold=0.2, settings=settings)
    assert made.output_dir == str(path) and (path / "run.json").exists()
    answers = made.predict(TEXTS)
    predicted = decided(answers, 0.2)
    assert made.evaluate(rows).rows.predicted == predicted
    opened = bert.classifier(tmp_path / "run", problem_type="multi_label")
    for again in (bert.load(tmp_path / "run"), opened, copy.deepcopy(made)):
        assert again.threshold == 0.2 and again.predict(TEXTS) == answers
    assert opened.evaluate(rows).results == made.evaluate(rows).results
    made.save(tmp_path / "saved")  # which has no run.json
    again = bert.load(tmp_path / "saved")
    assert again.threshold == 0.2 and decided(again.predict(TEXTS), 0.2) == predicted


class Series(list):
    """A column or DataFrame of pandas with an index of letters."""

    class Index(str):
        equals = str.__eq__

    index = Index("abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{}:2: label 'x'", "rows:2 (index b): label 'x'"),
        ("{}: 1 row, line 3; see", "rows: 1 row, line 3 (index c); see"),
        (
            "{}: 9 rows, lines 1, 4 and 7 more",
            "rows: 9 rows, lines 1, 4 (index a, d) and ",
        ),
        ("dev: 3 of {}, line 3", "dev: 3 of rows, line 3"),
        ("other.tsv: 1 'null', line 3", "other.tsv: 1 'null', line 3"),
    ],
)
def test_lines_of_messages_have_the_index_of_the_rows(text, wanted):
    path = "/tmp/bert-1/rows/a.jsonl"
    shown = argument_names.of_rows(text.format(path), {path: ("rows", Series())})
    assert shown.startswith(wanted) and shown.count("index") == wanted.count("index")


def test_messages_on_rows_in_memory_have_their_index(model_dir, capfd):
    made = fitted("classifier", model_dir)
    rows = Series({"text": text, "label": label} for text, label in ROWS)
    rows[3] = {"text": rows[3]["text"], "label": float("nan")}
    rows[5] = {"text": rows[5]["text"], "label": None}
    made.evaluate(rows)
    out, err = capfd.readouterr()
    assert "rows: reads 'text' (text_a), 'label'\n" in out
    assert (
        "rows: left out 2 rows without a label (NaN 2), lines 4, 6 (index d, f)" in out
    )
    assert "dev: 22 examples from rows, " in out
    assert "jsonl" not in out + err and "null" not in out + err
    made.evaluate([*rows])
    out = capfd.readouterr().out
    assert "without a label (None 2), lines 4, 6;" in out and "index" not in out
    rows[5]["label"] = "other"
    with pytest.raises(
        errors.InputError, match=r"^rows:6 \(index f\): label 'other' is"
    ):
        made.evaluate(rows)
    rows[2]["text"] = 7
    for call in (made.evaluate, made.predict, lambda each: made.read({"train": each})):
        with pytest.raises(
            errors.InputError, match=r":3 \(index c\): text_a is 7; write"
        ):
            call(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", daily.params(["classifier", "embedder"], "classifier".__eq__)
)
def test_texts_and_labels_are_paired_after_columns_were_named(model_dir, name):
    """Names of columns are for tables; two lists, and tuples, have none."""
    is_vectors = name == "embedder"
    place = model_dir if is_vectors else fitted(name, model_dir).output_dir
    plain, own = {"max_seq_length": 32}, {"label_column": "topic"}
    made = getattr(bert, name)(place, text_a_column="body", **plain, **own)
    other = bert.embedder(place, **plain) if is_vectors else fitted(name, model_dir)
    wanted = other.evaluate(TEXTS, LABELS).results
    assert made.evaluate(TEXTS, LABELS).results == wanted
    dicts = [{"body": text, "text": "a", "topic": label} for text, label in ROWS]
    if name == "classifier":
        assert made.evaluate(ROWS).results == wanted
        assert made.evaluate(dicts).results == wanted
        texts = made.read({"train": ROWS}).splits["train"].table.text_a
        assert texts == [*TEXTS]


@pytest.mark.parametrize(
    "names", daily.params(["a,b,c", "good,bad"], "good,bad".__eq__)
)
def test_head_of_other_labels_answers_once_it_is_trained(model_dir, names, tmp_path):
    names, place = names.split(","), fitted("classifier", model_dir).output_dir
    message = r"^{}: the head for \[.*\] is random, for the weights .*; call fit"
    loaded = bert.load(place, labels=names)
    made = bert.classifier(place, labels=names, max_seq_length=32)
    for action, call in (
        ("predict", lambda m: m.predict(TEXTS)),
        ("rerank", lambda m: m.rerank("a", TEXTS, label=names[0])),
    ):
        for model in (loaded, made):
            with pytest.raises(errors.InputError, match=message.format(action)):
                call(model)
    for model in (loaded, made):
        with pytest.raises(errors.InputError, match=message.format("export")):
            model.export(tmp_path / "export")
    assert not (tmp_path / "export").exists()
    for variable in loaded.model.trainable_variables:
        variable.assign(variable * 1.5)
    assert {answer["label"] for answer in loaded.predict(TEXTS)} <= {*names}


@pytest.mark.slow
def test_head_of_other_labels_is_trained_by_keras(model_dir):
    place = fitted("classifier", model_dir).output_dir
    made = bert.classifier(place, labels=["a", "b"], max_seq_length=32)
    made.model.compile("adam")
    made.model.fit(made.encode(["a", "b"]), np.array([0, 1]), verbose=0)
    assert len(made.predict(TEXTS)) == len(TEXTS)
    kept = bert.load(place, labels=["Good", "fine", "bad"]).predict(TEXTS)
    wanted = fitted("classifier", model_dir).predict(TEXTS)
    for answer, other in zip(kept, wanted, strict=True):
        assert answer["probabilities"]["Good"] == other["probabilities"]["good"]


@pytest.mark.slow
def test_questions_of_a_short_reader_may_have_half_of_its_tokens(model_dir, tmp_path):
    rows = [*questions(24)]
    made = bert.reader(model_dir, max_seq_length=32).fit(
        rows, num_train_epochs=1, train_batch_size=12, write_report=False
    )
    texts = [row["question"] for row in rows], [row["context"] for row in rows]
    wanted = made.predict(*texts)
    for length, more in ((32, {}), (32, {"max_query_length": 14})):
        again = bert.reader(made.output_dir, max_seq_length=length, **more)
        assert again.predict(*texts) == wanted
    with pytest.raises(
        errors.InputError, match=r"^max_query_length=64 is outside 0..28"
    ):
        bert.reader(made.output_dir, max_query_length=64).predict(*texts)


@pytest.mark.slow
def test_table_of_pairs_or_choices_is_predicted(model_dir):
    rows = [
        {"text_a": text, "text_b": label, "label": "ab"[i % 2]}
        for i, (text, label) in enumerate(ROWS)
    ]
    made = bert.classifier(model_dir).fit(rows, **SHORT)
    assert made.predict(rows) == made.predict(TEXTS, LABELS)
    assert made.predict(rows[::-1]) == made.predict(TEXTS, LABELS)[::-1]


def pickled(model):
    return pickle.loads(pickle.dumps(model))


@pytest.mark.slow
@pytest.mark.parametrize(
    "copied", daily.params([pickled, copy.deepcopy], lambda copied: copied is pickled)
)
def test_copy_of_a_fitted_model_answers_and_is_scored_as_it(model_dir, copied):
    made = fitted("classifier", model_dir)
    again = copied(made)
    assert again.predict(TEXTS) == made.predict(TEXTS)
    assert again.output_dir is None and pathlib.Path(made.output_dir).is_dir()
    assert again.results == made.results and again.classes == made.classes
    assert again.evaluate(ROWS).results == made.evaluate(ROWS).results


@pytest.mark.slow
def test_dev_rows_may_be_texts_and_labels(model_dir):
    made = bert.classifier(model_dir)
    made.fit(ROWS, dev=(list(TEXTS), list(LABELS)), **SHORT)
    assert made.results | {"global_step": 0} == made.evaluate(ROWS).results | {
        "global_step": 0
    }


@pytest.mark.slow
def test_report_and_dev_rows_and_labels_in_their_order(model_dir, tmp_path):
    made = bert.classifier(model_dir, labels=["good", "bad", "fine"])
    output = tmp_path / "run"
    run = {**SHORT, "write_report": True, "output_dir": output}
    assert made.fit(ROWS, dev=DEV["classifier"], **run) is made
    assert made.classes.names == ("good", "bad", "fine")
    assert (
        made.results["eval_accuracy"]
        == made.evaluate(DEV["classifier"])["eval_accuracy"]
    )
    page = made.report(tmp_path / "new" / "report.html")
    assert "eval_accuracy" in pathlib.Path(page).read_text("utf-8")
    command = json.loads((output / "run.json").read_text())["command"]
    assert command.startswith("python run_classifier.py ") and "/rows/" in command
    before = stored(output)
    done = tiny.run_again(output)
    assert done.code == 0 and "nothing to train" in done.out
    assert before.keys() == stored(output).keys()
    with pytest.raises(errors.InputError, match="overwrite_output_dir=True to replace"):
        made.fit(DEV["classifier"], **run)


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        ("Classifier", "learning_rat", "did you mean learning_rate[?]$"),
        (
            "Tagger",
            "layer_mixes",
            "^layer_mixes is no setting of run_tagger; .*r_mix[?]",
        ),
        ("Squad", "doc_strides", "did you mean doc_stride[?]$"),
        ("Embedding", "zzz", "^zzz is no setting of run_embedding; see docs/flags.md$"),
    ],
)
def test_misspelled_setting_is_refused_with_the_nearest_name(kind, wrong, message):
    with pytest.raises(errors.InputError, match=message):
        getattr(bert, f"{kind}Settings")(**{wrong: 1})


@pytest.mark.parametrize("action", daily.params(["evaluate", "fit"], "evaluate".__eq__))
def test_threads_disturb_no_flags_of_another(model_dir, monkeypatch, action):
    """Three of them, beside one that defines and reads flags of its own."""
    from absl import flags

    before, line = {*flags.FLAGS}, ["own.py", "--learning_rate=own"]
    monkeypatch.setattr(sys, "argv", [*line])
    own, seen, made, is_done = flags.FLAGS, [], {}, threading.Event()
    usual = fitted("classifier", model_dir)

    def read():
        flags.DEFINE_string("learning_rate", "usual", "of a program of the user")
        own([*line])
        while not is_done.wait(1e-3):
            seen.append((own.learning_rate, sys.argv == line, {*own} - before))

    def work(rate):
        if action == "evaluate":
            made[rate] = usual.evaluate(ROWS).results
        else:
            given = {**SHORT, "learning_rate": rate, "seed": 1}
            model = bert.classifier(model_dir).fit(TEXTS, LABELS, **given)
            made[rate] = {k: v.tolist() for k, v in stored(model.output_dir).items()}

    reader = threading.Thread(target=read)
    rates = 1e-3, 2e-3, 3e-3
    workers = [threading.Thread(target=work, args=(rate,)) for rate in rates]
    try:
        for thread in (reader, *workers):
            thread.start()
        for thread in workers:
            thread.join()
        is_done.set()
        reader.join()
    finally:
        is_done.set()
        delattr(own, "learning_rate")
    assert len(seen) > 50
    assert all(each == ("own", True, {"learning_rate"}) for each in seen)
    wanted = {k: v.tolist() for k, v in stored(usual.output_dir).items()}
    wanted = usual.evaluate(ROWS).results if action == "evaluate" else wanted
    equal = [made[rate] == wanted for rate in rates]
    assert equal == [True, *[action == "evaluate"] * 2]


def test_numbers_in_words_of_the_user_are_no_lines_of_a_frame():
    index = type("Index", (list,), {"equals": None})("abc")
    frame = type("Frame", (), {"index": index})()
    text = "/d/x.jsonl:2: 'see line 500' is no label; lines 1, 3; lines 3, 4"
    assert argument_names.of_rows(text, {"/d/x.jsonl": ("dev", frame)}) == (
        "dev:2 (index b): 'see line 500' is no label; lines 1, 3 (index a, c); "
        "lines 3, 4"
    )


def test_interrupted_fit_says_where_it_goes_on(model_dir, tmp_path, monkeypatch):
    import signal

    from training import driver

    def stop(task, settings):
        raise errors.Stopped(signal.SIGINT)

    monkeypatch.setattr(driver, "run_once", stop)
    made = bert.classifier(model_dir)
    output = tmp_path / "run"
    with pytest.raises(
        KeyboardInterrupt, match=f"^saved in {output}; the same fit goes"
    ):
        made.fit(ROWS, output_dir=output, **SHORT)
    with pytest.raises(
        KeyboardInterrupt, match=r"^nothing is kept; with an output_dir"
    ):
        made.fit(ROWS, **SHORT)
    assert made.output_dir is None and (output / "rows").is_dir()


def test_classes_of_tags_and_rows_of_labels(model_dir):
    """Rows in memory with a label each train vectors; labels of no row are refused."""
    tagger = bert.tagger(model_dir, labels=["O", "B-good"], max_seq_length=16)
    assert tagger.classes.names == ("O", "B-good")
    assert tagger.model.num_classes == 2
    for action in (lambda: tagger.predict("a film"), lambda: tagger.evaluate([], [])):
        with pytest.raises(
            errors.InputError, match=r"lacks .* call fit of bert.tagger"
        ):
            action()
    tiny.as_trained(tagger)
    with pytest.raises(errors.InputError, match=r"^rows:1: .*'B-bad'"):
        tagger.evaluate([["film", "bad"]], [["O", "B-bad"]])
    embedder = bert.embedder(model_dir, max_seq_length=16)
    scores = embedder.evaluate(TEXTS, LABELS)
    assert [*scores.results] == ["eval_neighbour_accuracy"]
    vectors = embedder.embed(list(TEXTS))
    cosines = vectors @ vectors.T - 9 * np.eye(len(TEXTS))
    nearest = np.array(LABELS)[cosines.argmax(axis=1)]
    assert scores["eval_neighbour_accuracy"] == np.mean(nearest == LABELS)
    with pytest.raises(errors.InputError, match="has no head of answers; call fit"):
        bert.reader(model_dir).predict("a", "b")
