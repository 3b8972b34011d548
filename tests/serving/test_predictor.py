"""Tests of serving/predictor.py as a program: a stream of lines, and over HTTP."""

import json
import pathlib
import shutil

import pytest
import tensorflow as tf

from contract import errors, file_names
from serving import export, predictor
from serving.protocol import servables
from tasks import prediction
from tasks import serving as serving_task
from tasks.settings import server
from tests import no_texts

ROOT = pathlib.Path(export.__file__).parents[1]
SERVER = server.Server(port=0, access_log="none")


def save(folder, short="short", long="long"):
    """Exports a classifier that says how long a text is, in these words."""

    def classify(text):
        size = tf.strings.length(text)
        longer = tf.cast(size > 3, tf.float32)
        best = tf.gather(tf.constant([short, long]), tf.cast(longer, tf.int32))
        return {"probabilities": tf.stack([1 - longer, longer], -1), "label": best}

    function = export.text_function(classify, "text")
    module = export.ServedModel([], serving_default=function)
    files = {file_names.LABEL_MAP: json.dumps({"0": short, "1": long})}
    return export.save(module, str(folder), files)


@pytest.fixture(scope="module")
def export_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes") / "export"
    save(folder)
    return str(folder)


LONG = {"label": "long", "probabilities": {"short": 0.0, "long": 1.0}}
SHORT = {"label": "short", "probabilities": {"short": 1.0, "long": 0.0}}


def written(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_file_is_answered_line_by_line(export_dir, tmp_path, capsys):
    lines_file, answers = tmp_path / "in.jsonl", tmp_path / "new" / "out.jsonl"
    lines_file.write_bytes(
        b'{"id": 1, "text": "a"}\n"\xc3\xa9 long"\nnone\n"b\\u0000"\n'
    )
    prediction.answer_file(export_dir, str(lines_file), "jsonl", str(answers))
    actual = written(answers)
    assert actual[:2] == [{"id": 1, "text": "a", **SHORT}, {"text": "é long", **LONG}]
    assert actual[2]["line"] == 3 and "not JSON" in actual[2]["error"]
    assert actual[3] == {"text": "b\0", **SHORT}
    assert [*answers.parent.iterdir()] == [answers]
    out, err = capsys.readouterr()
    assert out == f"answered: {answers}, 4 lines\n"
    assert err.startswith("lines with an error: 1; line 3: not JSON")


def test_plain_lines_go_to_standard_output(export_dir, tmp_path, capsys):
    model = predictor.Predictor(export_dir)
    assert model.predict("longer") == model.predict(["longer"]) == [LONG]
    assert model.predict([]) == []
    lines_file = tmp_path / "in.txt"
    lines_file.write_text("a\n\nlonger")
    prediction.answer_file(export_dir, str(lines_file), "lines")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["label"] for row in rows] == ["short", "short", "long"]


def fails_on(monkeypatch, text, error):
    """Makes the model raise an error for batches with this text."""
    before = servables.Version.predict

    def predict(self, name, arrays):
        if text in arrays["text"]:
            raise error
        return before(self, name, arrays)

    monkeypatch.setattr(servables.Version, "predict", predict)


def test_model_that_has_no_room_says_so_in_the_line(export_dir, tmp_path, monkeypatch):
    lines_file, answers = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines_file.write_text('"a"\n"huge"\n"b"\n')
    no_room = tf.errors.ResourceExhaustedError(None, None, "no room [Op:X]\n at")
    fails_on(monkeypatch, "huge", no_room)
    prediction.answer_file(export_dir, str(lines_file), "jsonl", str(answers))
    actual = written(answers)
    assert actual[1] == {"error": "no room", "line": 2}
    assert [actual[0]["text"], actual[2]["text"]] == ["a", "b"]


def test_wrong_place_is_one_line_before_the_work(export_dir, monkeypatch, capsys):
    for change, text in (
        ({"export_dir": "/nowhere"}, "--export_dir=/nowhere: no SavedModel there"),
        ({"input_file": str(ROOT)}, f"{ROOT}: cannot be read"),
        ({"output_file": str(ROOT)}, "is a directory; name the file"),
        ({"output_file": "/dev/null/x"}, "/dev/null/x: cannot be written"),
    ):
        places = {"export_dir": export_dir, "input_file": __file__, **change}
        with pytest.raises((ValueError, OSError), match=text) as caught:
            prediction.answer_file(**places)
        assert "\n" not in str(caught.value) and capsys.readouterr().out == ""
    fails_on(monkeypatch, "huge", tf.errors.InternalError(None, None, "bad graph"))
    with pytest.raises(errors.InputError, match=r"^bad graph$"):
        prediction.answer_texts(export_dir, ["huge"])


DATA = "variables/variables.data-00000-of-00001"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("saved_model.pb", lambda raw: raw[: len(raw) // 2]),
        # The name of an operation that the graph uses.
        ("saved_model.pb", lambda raw: raw.replace(b"GatherV2", b"GetherV2")),
        (DATA, lambda raw: raw[: len(raw) // 2]),
        ("variables/variables.index", lambda raw: raw[: len(raw) // 2]),
        ("model.tflite", lambda raw: b"broken"),
    ],
)
def test_damaged_export_is_one_line(name, change, export_dir, tmp_path, capsys):
    version = shutil.copytree(f"{export_dir}/1", tmp_path / "1")
    damaged = version / name
    damaged.write_bytes(change(damaged.read_bytes() if damaged.exists() else b""))
    lines_file = tmp_path / "in.jsonl"
    lines_file.write_text('"a"\n')
    for answer in (
        lambda: prediction.answer_texts(str(tmp_path), ["text"]),
        lambda: prediction.answer_file(str(tmp_path), str(lines_file)),
        lambda: serving_task.serve_export(SERVER, str(tmp_path), "sizes"),
    ):
        with pytest.raises(errors.InputError) as caught:
            answer()
        text = str(caught.value)
        # Files for another runtime have checksums, but for those of earlier versions.
        named = version if name == "model.tflite" else damaged
        assert text.startswith(f"{named}: cannot be loaded (") and "\n" not in text
        assert text.endswith(f"); copy {version} again, or export the model again")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"cannot be read \(Expecting value: line 1 column 1"),
        ('{"labels": ["x"]}', "it is no object of texts"),
        ('{"0": "a", "2": "b"}', r'its keys are not "0", "1", \.\.\. in this order'),
        ('{"0": "a", "1": "b", "2": "c"}', "names 3 labels, the model has 2"),
    ],
)
def test_label_map_of_another_model_is_refused(text, message, tmp_path):
    save(tmp_path)
    path = tmp_path / "1" / "assets.extra" / "label_map.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        predictor.Predictor(str(tmp_path))
    assert str(path) in str(caught.value)
    remedy = "; copy it from the run's output directory, or remove it"
    assert str(caught.value).endswith(remedy)


def test_label_comes_from_the_model_where_no_file_names_it(tmp_path, capsys):
    save(tmp_path)
    (tmp_path / "1" / "assets.extra" / "label_map.json").unlink()
    actual = predictor.Predictor(str(tmp_path)).predict(["a", "longer"])
    assert [answer["label"] for answer in actual] == ["short", "long"]
    assert actual[1]["probabilities"] == {"0": 0.0, "1": 1.0}
    prediction.answer_texts(str(tmp_path), ["longer"])
    assert capsys.readouterr().out == "longer\n    long 1.000\n"


def test_what_is_no_list_of_texts_is_refused(export_dir):
    model = predictor.Predictor(export_dir)
    assert model.predict([b"a", "longer"]) == [SHORT, LONG]
    assert model.predict(text for text in ("a", "longer")) == [SHORT, LONG]
    no_texts.refused("text", model.predict)
    with pytest.raises(
        errors.InputError, match=r"^text: nan is no string; give one for each text"
    ):
        model.predict(["a", float("nan")])


def test_batch_without_choices_has_no_answers(tmp_path):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="context"),
            tf.TensorSpec([None, 2], tf.string, name="choices"),
        ]
    )
    def choose(context, choices):
        sizes = tf.strings.length(choices) + tf.strings.length(context)[:, None]
        return {"probabilities": tf.cast(sizes, tf.float32)}

    export.save(export.ServedModel([], serving_default=choose), str(tmp_path), {})
    model = predictor.Predictor(str(tmp_path))
    assert model.text_names == ["context", "choices", "choices"]
    assert model.predict(["a"], ["b"], ["cd"]) == [{"scores": [2.0, 3.0]}]
    assert model.predict([], [], []) == []
    with pytest.raises(errors.InputError, match=r"^1 and 0 and 0 texts given for cont"):
        model.predict(["a"], [], [])


def test_every_number_of_a_model_is_printed(tmp_path, capsys):
    def rate(text):
        size = tf.cast(tf.strings.length(text), tf.float32)
        return {"probabilities": tf.stack([size, -size / 2], axis=-1)}

    function = export.text_function(rate, "text")
    export.save(export.ServedModel([], serving_default=function), str(tmp_path), {})
    actual = predictor.Predictor(str(tmp_path)).predict(["abc", "d"])
    assert actual == [{"scores": [3.0, -1.5]}, {"scores": [1.0, -0.5]}]
    prediction.answer_texts(str(tmp_path), ["abc"], as_json=True)
    prediction.answer_texts(str(tmp_path), ["abc"])
    assert capsys.readouterr().out == (
        '{"text": "abc", "scores": [3.0, -1.5]}\n3.000 -1.500  abc\n'
    )
