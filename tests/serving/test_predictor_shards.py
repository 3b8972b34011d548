"""run_predictor.py with --lines_per_shard: the bytes of one file."""

import gzip
import json
import shutil
import time

import pytest
import tensorflow as tf

from contract import errors
from data_pipeline.tables import text_rows
from serving.protocol import servables
from tasks import prediction
from tests import tiny_export

BEAM = ("--runner=DirectRunner",)


@pytest.fixture(scope="module")
def export_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes") / "export"
    tiny_export.write(folder, "short", "long")
    return str(folder)


@pytest.fixture
def answer(export_dir, tmp_path):
    """Answers a text; returns the bytes of the output files."""

    def call(name, text, lines_per_shard=0, *, input_format="lines", **options):
        path = tmp_path / ("in.gz" if options.pop("packed", False) else "in")
        path.write_bytes(gzip.compress(text, mtime=0) if path.suffix else text)
        prediction.answer_file(
            options.pop("export_dir", export_dir),
            str(path),
            input_format,
            str(tmp_path / name),
            lines_per_shard=lines_per_shard,
            **options,
        )
        return outputs(tmp_path / name)

    return call


def outputs(path):
    shards = sorted(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}"))
    return [file.read_bytes() for file in shards or [path]]


LINES = b"\xef\xbb\xbfa\nlong one\r\n\n\xff wrong\nb\tc\nthe last one"


def test_shards_have_the_bytes_and_line_numbers_of_one_file(answer, capsys):
    (whole,) = answer("whole.jsonl", LINES)
    rows = [json.loads(line) for line in whole.splitlines()]
    assert [row.get("text") for row in rows] == [
        *("a", "long one", "", None, None, "the last one")
    ]
    assert [row.get("line") for row in rows] == [None, None, None, 4, 5, None]
    capsys.readouterr()
    shards = answer("cut.jsonl", LINES, 2)
    assert b"".join(shards) == whole
    assert [shard.count(b"\n") for shard in shards] == [2, 2, 2]
    printed = capsys.readouterr()
    assert "cut-*-of-00003.jsonl, 0 of them finished" in printed.out
    assert "lines with an error: 1; line 5: 2 texts; give text" in printed.err
    assert answer("cut1.jsonl", LINES, 1, packed=True) == whole.splitlines(True)
    assert answer("packed.jsonl", LINES, packed=True) == [whole]
    objects = b'"a"\n{"text": "long one", "id": 7}\nnone\n'
    (whole,) = answer("objects.jsonl", objects, input_format="jsonl")
    assert b'"id": 7' in whole and b'"line": 3' in whole
    shards = answer("objects2.jsonl", objects, 2, input_format="jsonl")
    assert b"".join(shards) == whole and len(shards) == 2


def test_empty_file_has_an_empty_output(answer):
    assert answer("whole.jsonl", b"") == [b""]
    assert answer("cut.jsonl", b"", 3) == [b""]


def test_batches_do_not_depend_on_the_speed_of_reading(answer, monkeypatch):
    """Whole shards are looked ahead; without shards, a pause ends a look-ahead."""
    sizes = []
    predict = servables.Version.predict

    def counted(self, name, arrays):
        sizes.append(len(arrays["text"]))
        return predict(self, name, arrays)

    def slow_reader(path, part=text_rows.WHOLE, **_):
        lines = b"".join(text_rows.blocks(path, part)).splitlines(True)

        def read():
            time.sleep(0.1)
            return lines.pop(0) if lines else b""

        return read

    monkeypatch.setattr(servables.Version, "predict", counted)
    monkeypatch.setattr(prediction, "_reader", slow_reader)
    text = b"a\nb\nc\nd\ne\nf\n"
    answer("cut.jsonl", text, 3)
    assert sizes == [3, 3]
    sizes.clear()
    answer("whole.jsonl", text)
    assert sum(sizes) == 6 and len(sizes) > 2


def test_another_export_or_format_is_another_job(answer, tmp_path):
    answer("v.jsonl", b"a\nb\n", 1)
    other = tmp_path / "other"
    tiny_export.write(other, "brief", "long")
    with pytest.raises(errors.InputError, match=r"export was '\w{8}' and is '\w{8}'; "):
        answer("v.jsonl", b"a\nb\n", 1, export_dir=str(other))
    with pytest.raises(errors.InputError, match="input_format was 'lines' and is 'js"):
        answer("v.jsonl", b"a\nb\n", 1, input_format="jsonl")
    assert answer("v.jsonl", b"a\nb\n", 1) == answer("w.jsonl", b"a\nb\n", 1)


@pytest.mark.slow
@pytest.mark.parametrize("beam_options", [None, BEAM])
def test_new_model_in_the_same_place_is_opened(
    answer, tmp_path, monkeypatch, beam_options
):
    if beam_options:
        pytest.importorskip("apache_beam")
    place = {"export_dir": str(tmp_path / "new" / "1"), "beam_options": beam_options}
    uncached = tf.saved_model.load.__wrapped__  # conftest.py keeps what it loads
    monkeypatch.setattr(tf.saved_model, "load", uncached)
    labels = []
    for name in ("brief", "short"):
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        tiny_export.write(tmp_path / "new", name, "long")
        (shard,) = answer(f"{name}.jsonl", b"a", 2, **place)
        labels.append(json.loads(shard)["label"])
    assert labels == ["brief", "short"]


@pytest.mark.slow
def test_beam_writes_the_same_bytes(answer):
    pytest.importorskip("apache_beam")
    wanted = answer("local.jsonl", LINES, 2)
    assert answer("beam.jsonl", LINES, 2, beam_options=BEAM) == wanted


@pytest.mark.slow
def test_two_processes_of_beam_write_the_same_bytes(answer):
    pytest.importorskip("apache_beam")
    workers = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
    wanted = answer("local.jsonl", LINES, 1)
    assert answer("beam.jsonl", LINES, 1, beam_options=(*BEAM, *workers)) == wanted
