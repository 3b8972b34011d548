"""Tests of contract.export_formats: what a run has exported, and what a format has."""

from contract import export_formats


def test_exports_of_a_run_are_listed_with_their_formats(tmp_path):
    for name in ("export/2", "export_onnx/1", "export_litert/incomplete", "other/1"):
        (tmp_path / name).mkdir(parents=True)
    assert export_formats.of_run(str(tmp_path)) == [
        ("export", "saved_model"),
        ("export_onnx", "onnx"),
    ]
    assert export_formats.of_run(str(tmp_path / "none")) == []
