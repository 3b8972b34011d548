"""Tests of serving/protocol/rest.py: what TensorFlow Serving's documentation shows."""

import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.protobuf import meta_graph_pb2

from serving.protocol import json_tensors, rest, servables


def definition(inputs, outputs):
    actual = meta_graph_pb2.SignatureDef(method_name="tensorflow/serving/predict")
    for tensors, specs in ((actual.inputs, inputs), (actual.outputs, outputs)):
        for name, (dtype, shape) in specs.items():
            tensors[name].name = f"{name}:0"
            tensors[name].dtype = dtype.as_datatype_enum
            tensors[name].tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    return actual


SIGNATURES = {
    "serving_default": definition(
        {"text": (tf.string, [None])},
        {"size": (tf.int32, [None]), "upper": (tf.string, [None])},
    ),
    "pair": definition(
        {"text_a": (tf.string, [None]), "text_b": (tf.string, [None])},
        {"joined": (tf.string, [None])},
    ),
    "number": definition({"x": (tf.float32, [None])}, {"y": (tf.float32, [None])}),
    "ids": definition({"ids": (tf.int32, [None, None])}, {"sums": (tf.int32, [None])}),
    "image": definition({"raw": (tf.string, [None])}, {"raw_bytes": (tf.string, None)}),
    "out_of_memory": definition({"x": (tf.float32, [None])}, {}),
    "__saved_model_init_op": definition({}, {}),
}


def call(signature, arrays):
    if signature == "serving_default":
        texts = arrays["text"]
        return {
            "size": np.array([len(text) for text in texts], np.int32),
            "upper": np.array([text.upper() for text in texts], object),
        }
    if signature == "pair":
        return {"joined": arrays["text_a"] + b"+" + arrays["text_b"]}
    if signature == "ids":
        return {"sums": arrays["ids"].sum(axis=1)}
    if signature == "image":
        return {"raw_bytes": arrays["raw"]}
    if signature == "out_of_memory":
        raise tf.errors.ResourceExhaustedError(None, None, "no room\n at Einsum")
    return {"y": arrays["x"] / 2 + 3}


MODEL = servables.Model(
    "half", {number: servables.Version(SIGNATURES, call) for number in (1, 12)}
)


MAX_ROWS = 1000


def answer(method, path, body=b"", model=None):
    """The status and text of a request, as serving/server makes them."""
    model = model or MODEL
    try:
        if method != "POST":
            return 200, rest.describe(model, method, path)
        prediction = rest.read(model, path, body, MAX_ROWS)
        outputs = prediction.version.predict(
            prediction.signature_name, prediction.arrays
        )
        return 200, prediction.write(outputs)
    except (tf.errors.OpError, RecursionError) as error:
        return rest.explain(error)


def ask(body, path="/v1/models/half:predict"):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, text = answer("POST", path, raw)
    return int(status), json.loads(text)


def test_rows_and_columns_answer_as_documented():
    numbers = {"signature_name": "number"}
    assert ask({**numbers, "instances": [1.0, 2.0, 5.0]}) == (
        200,
        {"predictions": [3.5, 4.0, 5.5]},
    )
    assert ask({**numbers, "inputs": [1.0, 2, 5.0]})[1] == {"outputs": [3.5, 4.0, 5.5]}
    by_name = {"instances": [{"text": "ab"}, {"text": "é"}]}
    rows = [{"size": 2, "upper": "AB"}, {"size": 2, "upper": "é"}]
    assert ask(by_name) == (200, {"predictions": rows})
    assert ask({"instances": ["ab", "é"]})[1] == {"predictions": rows}
    columns = {"size": [2, 2], "upper": ["AB", "é"]}
    for inputs in (["ab", "é"], {"text": ["ab", "é"], "other": 1}):
        assert ask({"inputs": inputs})[1] == {"outputs": columns}
    pair = {"signature_name": "pair"}
    rows = [{"text_a": "a", "text_b": "b"}, {"text_b": "d", "text_a": "c"}]
    assert ask({**pair, "instances": rows})[1] == {"predictions": ["a+b", "c+d"]}
    columns = {"text_a": ["a", "c"], "text_b": ["b", "d"]}
    assert ask({**pair, "inputs": columns})[1] == {"outputs": ["a+b", "c+d"]}
    values = ask(b'{"signature_name": "number", "inputs": [NaN, -Infinity, 1]}')[1]
    np.testing.assert_array_equal(values["outputs"], [np.nan, -np.inf, 3.5])
    ids = {"signature_name": "ids"}
    assert ask({**ids, "instances": [[1, 2], [3, 4]]})[1] == {"predictions": [3, 7]}


def test_version_and_percent_signs_of_the_path_count():
    body = {"instances": ["a"]}
    for path in ("half/versions/1", "half/versions/12", "%68alf"):
        assert ask(body, f"/v1/models/{path}:predict")[0] == 200
    assert ask(body, "/V1/Models/half:Predict")[0] == 200


def test_bytes_are_base64():
    raw = {"b64": "/wBh"}
    rows = {"signature_name": "image", "instances": [raw, {"b64": ""}]}
    assert ask(rows)[1] == {"predictions": [raw, {"b64": ""}]}
    columns = {"signature_name": "image", "inputs": {"raw": [raw]}}
    assert ask(columns)[1] == {"outputs": [raw]}
    # Of an output that holds text: what is not UTF-8 is replaced.
    assert ask({"instances": [raw]})[1]["predictions"][0]["upper"] == "\ufffd\0A"


def test_rows_above_the_limit_have_their_own_status():
    assert ask({"instances": ["a"] * MAX_ROWS})[0] == 200
    status, actual = ask({"instances": ["a"] * (MAX_ROWS + 1)})
    assert status == 413 and "1001 rows, the limit is 1000" in actual["error"]


def test_zero_rows_are_columns_of_none():
    assert ask({"inputs": {"text": []}})[1] == {"outputs": {"size": [], "upper": []}}
    status, actual = ask({"instances": []})
    assert status == 400 and "given as 'inputs'" in actual["error"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.2, "0.2"),
        (9000000.0, "9000000.0"),
        (1 / 3, "0.33333334"),
        (16777216.0, "16777216.0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_numbers_have_the_digits_of_float32(value, text):
    assert json_tensors.by_column({"y": np.array([value], np.float32)}) == f"[{text}]"
    scalar = {"b": np.float32(value), "a": np.array(True)}
    assert json.loads(json_tensors.by_column(scalar)).keys() == {"a", "b"}
    assert f'"b":{text}' in json_tensors.by_column(scalar).replace(" ", "")


WRONG = {
    b"": "JSON Parse error",
    b"{": "JSON Parse error",
    b"[1]": "Is not object",
    b'{"instances": ["\xff"]}': "byte 16 is not UTF-8",
    b'{"instances": ' + b"[" * 900 + b"]" * 900 + b"}": "nested too deep",
    b"{}": "Missing 'inputs' or 'instances' key",
    b'{"instances": ["a"], "inputs": ["a"]}': "expecting only one",
    b'{"instances": "a"}': "to be an list/array",
    b'{"instances": [1]}': "element: 0 of 'instances' list. Error: JSON Value: 1 Type: "
    "Number is not of expected type: string",
    b'{"instances": ["a", null]}': "element: 1",
    b'{"instances": [{"txt": "a"}]}': "keys must be equal to: text",
    b'{"instances": ["\\ud800"]}': "half of a surrogate pair",
    b'{"instances": [{"b64": "*"}]}': "base64",
    b'{"inputs": "a"}': "text has shape [], the model takes [-1]",
    b'{"inputs": {"txt": ["a"]}}': "Missing named input: text",
    b'{"inputs": [["a"], ["b", "c"]]}': "a list of 2 stands where a list of 1 has to",
    b'{"inputs": ["a"], "signature_name": 1}': "must be a string value",
    b'{"inputs": ["a"], "signature_name": "no"}': 'name: "no" not found in signature',
    b'{"signature_name": "pair", "instances": ["a"]}': "text_a, text_b",
    b'{"signature_name": "pair", "inputs": {"text_a": ["a"]}}': "input: text_b",
    b'{"signature_name": "number", "inputs": ["1"]}': "Type: String",
    b'{"signature_name": "number", "inputs": [true]}': "Type: True",
    b'{"signature_name": "number", "inputs": [16777217]}': "float32",
    b'{"signature_name": "number", "inputs": [1' + b"0" * 400 + b"]}": "float32",
    b'{"signature_name": "\\ud800", "inputs": ["a"]}': 'name: "\ud800" not found',
    b'{"inputs": ["a"], "beside": [NaN]}': "[NaN] has a number that is not JSON",
    b'{"signature_name": "ids", "inputs": [[1.0]]}': "int32",
    b'{"signature_name": "ids", "inputs": [[1' + b"0" * 5000 + b"]]}": "Parse error",
}


@pytest.mark.parametrize("body", WRONG, ids=lambda body: body[:40].decode("latin-1"))
def test_wrong_request_is_an_error_object_of_status_400(body):
    status, actual = ask(body)
    assert status == 400 and [*actual] == ["error"]
    assert WRONG[body] in actual["error"] and len(actual["error"]) < 300


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("POST", "no:predict", 404, "Servable not found for request: Latest(no)"),
        ("POST", "half/versions/3:predict", 404, "Specific(half, 3)"),
        ("GET", f"half/versions/{20 * '0'}{5000 * '9'}", 400, "convert version: 000"),
        ("POST", "half/labels/stable:predict", 400, "label: stable"),
        ("POST", "half:classify", 400, "are for :predict"),
        ("GET", "half:predict", 400, 'half:predict; to ask, POST {"instances": [...]'),
        ("DELETE", "half", 400, "Malformed request"),
        ("GET", "no", 404, "Latest(no)"),
    ],
)
def test_unknown_place_is_an_error_object(method, path, status, text):
    failing = {"signature_name": "out_of_memory", "inputs": [1.0]}
    assert ask(failing) == (429, {"error": "no room"})
    body = b'{"instances": ["a"]}'
    actual = answer(method, f"/v1/models/{path}", body)
    assert actual[0] == status and text in json.loads(actual[1])["error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=9,
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "signature_name": st.sampled_from([*SIGNATURES]) | JSON,
        "instances": JSON,
        "inputs": JSON,
    },
)
PATHS = st.from_regex(
    r"/v1/models/(half|[m%:/]{0,3})(/versions/[0-9]{0,30}|/labels/.{0,9})?"
    r"(:predict|/metadata)?",
    fullmatch=True,
)


@given(
    st.sampled_from(["GET", "POST", "HEAD"]),
    PATHS | st.text(),
    st.binary() | REQUESTS.map(lambda request: json.dumps(request).encode()),
)
def test_any_request_is_answered_in_json(method, path, body):
    status, text = answer(method, path, body)
    assert status in (200, 400, 404, 429)
    assert ("error" in json.loads(text)) == (status != 200)
