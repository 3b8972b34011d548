"""extract_features.py with --lines_per_shard: the bytes of one file."""

import gzip
import json

import numpy as np
import pytest

from data_pipeline.extraction import lines as input_lines
from modeling.features import vectors
from tasks import extraction
from tests import tiny

BEAM = ("--engine=beam", "--beam_option=--runner=DirectRunner")
POOLED = ("--layers=-1", "--pooling=mean")
TEXTS = [text for text, _ in tiny.rows(21)]


@pytest.fixture
def extract(model_dir, tmp_path):
    """Runs the script on a text; returns the bytes of its output files, by name."""

    def call(name, text, *arguments, packed=False):
        content = text if isinstance(text, bytes) else text.encode()
        path = tmp_path / ("input.txt.gz" if packed else "input.txt")
        path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
        done = tiny.run_script(
            "extract_features",
            f"--pretrained={model_dir} --input_file={path} --max_seq_length=16",
            f"--output_file={tmp_path / name}",
            *arguments,
        )
        assert done.code == 0, done.err
        return outputs(tmp_path / name)

    return call


def outputs(path):
    """The file, or its shards in their order."""
    shards = sorted(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}"))
    return [file.read_bytes() for file in shards or [path]]


@pytest.mark.slow
def test_shards_have_the_bytes_of_one_file(extract, monkeypatch):
    monkeypatch.setattr(input_lines, "_CHUNK_LINES", 4)  # equal batches
    text = "\n".join(["", *TEXTS, "", "the sea ||| a film", "  "])
    (whole,) = extract("whole.jsonl", text, "--layers=-1")
    shards = extract("cut.jsonl", text, "--lines_per_shard=8 --layers=-1")
    assert [shard.count(b"\n") for shard in shards] == [8, 8, 8, 1]
    assert b"".join(shards) == whole
    assert json.loads(shards[1].splitlines()[0])["linex_index"] == 8
    assert (
        extract("cut2.jsonl", text, "--lines_per_shard=8 --layers=-1", packed=True)
        == shards
    )
    windows = text.replace("\n", "\r\n")
    assert extract("cut3.jsonl", windows, "--lines_per_shard=8 --layers=-1") == shards
    assert (
        extract("cut4.jsonl", f"{text}\n", "--lines_per_shard=8 --layers=-1") == shards
    )
    assert extract("one.jsonl", text, "--lines_per_shard=99 --layers=-1") == [whole]


@pytest.mark.slow
def test_other_batches_change_the_last_digits_alone(extract):
    text = "\n".join(TEXTS)
    (whole,) = map(bytes.splitlines, extract("whole.jsonl", text, "--layers=-1"))
    shards = extract(
        "cut.jsonl", text, "--lines_per_shard=5 --layers=-1", "--batch_size=3"
    )
    lines = [line for shard in shards for line in shard.splitlines()]
    assert len(lines) == len(whole) == 21
    for number, (actual, wanted) in enumerate(
        zip(map(json.loads, lines), map(json.loads, whole), strict=True)
    ):
        assert actual["linex_index"] == wanted["linex_index"] == number
        tokens = [
            [token["token"] for token in line["features"]] for line in (actual, wanted)
        ]
        assert tokens[0] == tokens[1]
        values = [
            [layer["values"] for token in line["features"] for layer in token["layers"]]
            for line in (actual, wanted)
        ]
        np.testing.assert_allclose(*values, atol=1e-6 + 0.5e-6)  # as printed


@pytest.mark.slow
def test_every_format_has_numbers_and_values_of_the_whole(extract, tmp_path):
    text = "\n".join(TEXTS)
    cut = (*POOLED, "--lines_per_shard=9")
    extract("whole.npz", text, *POOLED, "--output_format=npz")
    wanted = np.load(tmp_path / "whole.npz")["values"]
    assert len({row.tobytes() for row in wanted}) > 15

    def files(name):
        extract(name, text, *cut, f"--output_format={name.partition('.')[2]}")
        stem, _, ending = name.partition(".")
        paths = sorted(tmp_path.glob(f"{stem}-*.{ending}"))
        assert len(paths) == 3
        return paths

    actual = [np.load(path)["values"] for path in files("cut.npz")]
    np.testing.assert_allclose(np.concatenate(actual), wanted, atol=1e-6)


def test_finished_job_opens_no_model(extract, monkeypatch):
    wanted = extract("cut.jsonl", "\n".join(TEXTS), *POOLED, "--lines_per_shard=5")
    monkeypatch.setattr(extraction.Extractor, "__init__", None)
    again = extract("cut.jsonl", "\n".join(TEXTS), *POOLED, "--lines_per_shard=5")
    assert again == wanted and len(wanted) == 5


# Another value of a flag, and the difference that is named.
DIFFERENCES = {
    "--layers=0": "choice was {'is_left_to_right': False, 'is_normalized': False",
    "--normalize": "'is_normalized': True, ",
    "--batch_size=4": "batch_size was 32 and is 4; give its flags",
    "--max_seq_length=9": "max_seq_length was 16 and is 9; give its flags",
    "--mixed_precision=bfloat16": "dtype_policy was 'float32' and is 'mixed_bf",
    "--output_format=npz": "output_format was 'jsonl' and is 'npz'; give",
    "--lines_per_shard=20": "lines_per_shard was 11 and is 20; give its flags",
    "--nodo_lower_case --nocheck_case": "vocabulary was '",
}


@pytest.mark.slow
def test_other_settings_are_another_job(model_dir, tmp_path):
    (tmp_path / "input.txt").write_text("\n".join(TEXTS))
    command = [
        "extract_features",
        f"--pretrained={model_dir} --input_file={tmp_path}/input.txt",
        f"--output_file={tmp_path}/v.jsonl --max_seq_length=16 --lines_per_shard=11",
        *POOLED,
    ]
    tiny.succeed(*command)
    before = tiny.listing(tmp_path)
    for flag, difference in DIFFERENCES.items():
        line = tiny.refuse(*command, flag)
        assert "v.jsonl.plan.json is the plan of another job: " in line
        assert difference in line
    assert tiny.listing(tmp_path) == before


@pytest.mark.slow
def test_other_weights_and_input_are_another_job(extract, tmp_path):
    text = "\n".join(TEXTS)
    extract("v.jsonl", text, *POOLED, "--lines_per_shard=10")
    plan = json.loads((tmp_path / "v.jsonl.plan.json").read_text())
    assert plan["carry_states"] is False  # a plan of an earlier version goes on
    with pytest.raises(AssertionError, match="input_sha256 was '"):
        extract("v.jsonl", f"{text}.", *POOLED, "--lines_per_shard=10")
    other = tiny.write_model(tmp_path / "other", num_hidden_layers=1, hidden_size=16)
    with pytest.raises(
        AssertionError, match=r"init_checkpoint was 'digest .*; config "
    ):
        extract(
            "v.jsonl", text, *POOLED, "--lines_per_shard=10", f"--pretrained={other}"
        )


# Text of the input, flags, and words of the error.
REFUSED = {
    "Beam without shards": ("a", [*BEAM], "add --lines_per_shard=16384, for example"),
    "TPU": ("a", [*BEAM, "--lines_per_shard=1 --use_tpu"], "does not run on TPU; lea"),
    "empty": ("", ["--lines_per_shard=1"], "input.txt: is empty; give a file with"),
    "not UTF-8": ("a\nb\n\xff", ["--lines_per_shard=1"], "input.txt:3: byte 0xff"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_refused_before_the_plan(model_dir, tmp_path, case):
    text, arguments, words = REFUSED[case]
    (tmp_path / "input.txt").write_bytes(text.encode("latin-1"))
    line = tiny.refuse(
        "extract_features",
        f"--pretrained={model_dir} --input_file={tmp_path}/input.txt",
        f"--output_file={tmp_path}/v.jsonl --max_seq_length=16 --layers=-1",
        *arguments,
    )
    assert words in line
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


@pytest.mark.slow
def test_beam_writes_the_same_bytes(extract, tmp_path):
    pytest.importorskip("apache_beam")
    text = "\n".join(TEXTS)
    cut = (*POOLED, "--lines_per_shard=4")
    wanted = extract("local.jsonl", text, *cut)
    assert extract("beam.jsonl", text, *cut, *BEAM) == wanted and len(wanted) == 6
    plans = [tmp_path / f"{name}.jsonl.plan.json" for name in ("local", "beam")]
    assert plans[0].read_bytes() == plans[1].read_bytes()
    # Either engine goes on where the other one ended.
    path = tmp_path / "local-00002-of-00006.jsonl"
    path.unlink()
    assert extract("local.jsonl", text, *cut, *BEAM) == wanted


def test_work_goes_to_another_process():
    """Fields are plain values: what a worker unpickles is equal and hashable."""
    import pickle

    spec = vectors.VectorSpec(
        names=(-1,), width=4, states=(2,), merge="separate", weights=(1.0,),
        pooling="mean", is_normalized=True,
    )  # fmt: skip
    files = extraction.model_directory.ModelFiles("c", "v", "w", True)
    work = extraction.Work("in", files, spec, 16, 32, "npz", "float32", False)
    assert pickle.loads(pickle.dumps(work)) == work
    assert hash(work) == hash(work._replace(input_file="in"))


@pytest.mark.slow
def test_two_processes_of_beam_write_the_same_bytes(extract):
    pytest.importorskip("apache_beam")
    text = "\n".join(TEXTS)
    cut = (*POOLED, "--lines_per_shard=4")
    workers = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")
    options = [f"--beam_option={option}" for option in workers]
    wanted = extract("local.jsonl", text, *cut)
    assert extract("beam.jsonl", text, *cut, *BEAM, *options) == wanted
