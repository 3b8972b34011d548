"""Tests of contract.export_formats: what a run has exported, and what a format has."""

import pytest

from contract import errors, export_formats


def test_exports_of_a_run_are_listed_with_their_formats(tmp_path):
    for name in ("export/2", "export_onnx/1", "export_litert/incomplete", "other/1"):
        (tmp_path / name).mkdir(parents=True)
    assert export_formats.of_run(str(tmp_path)) == [
        ("export", "saved_model"),
        ("export_onnx", "onnx"),
    ]
    assert export_formats.of_run(str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("export_format", "quantization", "message"),
    [
        ("tflite", "none", "--export_format=tflite is not one of saved_model, lite"),
        ("litert", "int8", "--quantization=int8 is not one of none, dynamic_int8, sta"),
        ("onnx", "int8", "--quantization=int8 is not one of none, dynamic_int8, stat"),
        ("saved_model", "float16", "add --export_format=litert or onnx"),
        ("onnx", "float16", "ONNX exports have --quantization=dynamic_int8 and sta"),
        ("litert", "static_int8", "static_int8 is for ONNX exports; add --export_form"),
        ("saved_model", "static_int8", "static_int8 is for ONNX exports; add --export"),
    ],
)
def test_formats_and_weights_that_do_not_exist(export_format, quantization, message):
    with pytest.raises(errors.InputError, match=message):
        export_formats.check(export_format, quantization)
    with pytest.raises(errors.InputError, match="calibrates scales on rows; give some"):
        export_formats.check("onnx", "static_int8", has_rows=False)
    with pytest.raises(errors.InputError, match="calibrates no scales on rows; leave"):
        export_formats.check("onnx", "none", has_rows=True)
    export_formats.check("onnx", "static_int8", has_rows=True)
    for existing in (("onnx", "static_int8"), ("litert", "float16")):
        export_formats.check(*existing)
