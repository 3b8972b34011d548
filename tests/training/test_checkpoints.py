"""Tests of training/checkpoints.py."""

import re

import numpy as np
import pytest
import tensorflow as tf

from contract import errors
from modeling.checkpoints import checkpoint, google
from tests import killed
from training import checkpoints
from training.optimizers import bert_adam


@pytest.fixture
def parts(build_classifier):
    def build(value=0.0, **changes):
        model, adam = build_classifier(**changes), bert_adam.BertAdam()
        adam.build(model.trainable_variables)
        for variable, mean, square in adam.slots():
            variable.assign(np.full(variable.shape, value))
            mean.assign(np.full(variable.shape, value + 0.25))
            square.assign(np.full(variable.shape, value + 0.5))
        return model, adam

    return build


def saver(directory, model, adam, keep=5, **changes):
    return checkpoints.RunCheckpoints(
        str(directory),
        google.variables(model),
        adam,
        max_to_keep=keep,
        **changes,
    )


def names(directory):
    return [path.rsplit("/", 1)[1] for path in checkpoints.all_checkpoints(directory)]


def first_values(adam):
    return [float(np.ravel(part)[0]) for part in adam.slots()[0]]


def test_checkpoint_has_the_originals_names(parts, tmp_path):
    model, adam = parts()
    prefix = saver(tmp_path, model, adam).save(7, {})
    assert prefix == str(tmp_path / "model.ckpt-7")
    shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    weights = google.variables(model)
    expected = {"global_step": []}
    for name, variable in weights.items():
        for suffix in ("", "/adam_m", "/adam_v"):
            expected[name + suffix] = list(variable.shape)
    assert shapes == expected
    assert {"output_weights/adam_m", "bert/pooler/dense/kernel/adam_v"} <= set(shapes)
    assert checkpoint.load(model, prefix).global_step == 7


@pytest.mark.slow
def test_contents_of_weights_count_and_not_their_place(parts, tmp_path):
    for place, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        (tmp_path / place).mkdir()
        saver(tmp_path / place, *parts(value)).save(7, {})
    first, same, other = (
        checkpoints.identity(f"{tmp_path}/{place}/model.ckpt-7")
        for place in ("a", "b", "c")
    )
    assert first == same != other
    assert re.fullmatch("digest [0-9a-f]{8}", first["init_checkpoint"])
    for path in ("a", "a/model.ckpt-7.index"):
        assert checkpoints.identity(f"{tmp_path}/{path}") == first
    # A directory as released has no file `checkpoint`, and more than weights.
    (tmp_path / "a" / "checkpoint").unlink()
    assert checkpoints.identity(str(tmp_path / "a")) == first
    (tmp_path / "a" / "README.md").write_text("downloaded later")
    assert checkpoints.identity(str(tmp_path / "a")) == first
    with pytest.raises(errors.InputError, match=r"--init_checkpoint=.*/gone: no weigh"):
        checkpoints.identity(str(tmp_path / "gone"))
    assert checkpoints.identity("") == {"init_checkpoint": "random weights"}


def test_contents_of_one_file_are_its_ends_and_its_size(tmp_path):
    path = tmp_path / "model.safetensors"
    size = 1 << 18
    data = bytearray(size)
    path.write_bytes(data)
    before = checkpoints.identity(str(tmp_path))
    for place in (0, 65535, size - 65536, size - 1):
        data[place] = 1
        path.write_bytes(data)
        assert checkpoints.identity(str(tmp_path)) != before
        data[place] = 0
    path.write_bytes(data + b"0")
    assert checkpoints.identity(str(tmp_path)) != before
    path.write_bytes(data)
    assert checkpoints.identity(str(path)) == before


def test_newest_and_best_are_kept(parts, tmp_path):
    run = saver(tmp_path, *parts(), keep=2)
    for step in (2, 4, 6, 8, 10):
        run.save(step, {"best_step": 4, "best_score": 0.5} if step >= 4 else {})
    assert names(tmp_path) == ["model.ckpt-4", "model.ckpt-8", "model.ckpt-10"]
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        "model.ckpt-10.json",
        "model.ckpt-4.json",
        "model.ckpt-8.json",
    ]
    # TensorFlow's tools use the best; a resumed run goes on from the newest.
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-4")
    assert run.restore()[0] == 10


def test_checkpoint_file_names_the_newest(parts, tmp_path):
    run = saver(tmp_path, *parts())
    for step in (9, 10):
        run.save(step, {})
    assert (tmp_path / "checkpoint").read_text("utf-8") == (
        'model_checkpoint_path: "model.ckpt-10"\n'
        'all_model_checkpoint_paths: "model.ckpt-9"\n'
        'all_model_checkpoint_paths: "model.ckpt-10"\n'
    )
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-10")


def half(raw):
    return raw[: len(raw) // 2]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("index", half),
        ("json", lambda raw: b""),
        pytest.param(
            "data-00000-of-00001",
            lambda raw: bytes([raw[0] ^ 8]) + raw[1:],
            marks=pytest.mark.slow,
        ),
        pytest.param("data-00000-of-00001", half, marks=pytest.mark.slow),
        pytest.param("json", lambda raw: b"[]", marks=pytest.mark.slow),
        pytest.param(
            "json", lambda raw: b'{"loss_scale": null}', marks=pytest.mark.slow
        ),
        pytest.param("json", lambda raw: b'{"a":' * 50_000, marks=pytest.mark.slow),
    ],
)
def test_damaged_newest_is_passed_over(parts, tmp_path, file, content, caplog):
    for value, step in ((1.0, 5), (2.0, 10)):
        saver(tmp_path, *parts(value)).save(step, {"best_score": value})
    path = tmp_path / f"model.ckpt-10.{file}"
    path.write_bytes(content(path.read_bytes()))
    model, adam = parts(9.0)
    assert saver(tmp_path, model, adam).restore() == (5, {"best_score": 1.0})
    assert first_values(adam) == [1.0, 1.25, 1.5]
    assert f"{tmp_path}/model.ckpt-10 cannot be read (" in caplog.text
    assert "; trying the one before" in caplog.text
    (tmp_path / "model.ckpt-5.index").write_bytes(b"\0" * 100)
    with pytest.raises(ValueError, match="none of 2 checkpoints can be read; start"):
        saver(tmp_path, model, adam).restore()


@pytest.mark.slow
def test_process_that_does_not_write_only_reads(parts, tmp_path):
    silent = saver(tmp_path, *parts(2.0), writes=False)
    assert silent.save(5, {"best_step": 5, "best_score": 0.5}) == str(
        tmp_path / "model.ckpt-5"
    )
    assert list(tmp_path.iterdir()) == []
    saver(tmp_path, *parts(1.0)).save(5, {"best_step": 5, "best_score": 0.5})
    half = tmp_path / "model.ckpt-10.incomplete.index"
    half.touch()  # of a chief that is just saving
    before = sorted(tmp_path.iterdir())
    assert silent.restore() == (5, {"best_step": 5, "best_score": 0.5})
    assert sorted(tmp_path.iterdir()) == before
    saver(tmp_path, *parts(1.0)).restore()
    assert not half.exists()


def test_other_models_checkpoint_is_refused(parts, tmp_path):
    saver(tmp_path, *parts()).save(5, {})
    model, adam = parts(9.0, vocab_size=31)
    with pytest.raises(ValueError) as caught:
        saver(tmp_path, model, adam).restore()
    text = str(caught.value)
    assert "word_embeddings" in text and "[30, 8], this run wants [31, 8]" in text
    assert "choose another --output_dir or add --overwrite_output_dir" in text
    assert first_values(adam)[0] == 9.0  # nothing was assigned


def test_killed_saving_leaves_the_one_before(parts, tmp_path):
    model, adam = parts(1.0)
    run = saver(tmp_path, model, adam)
    run.save(5, {})
    # The state is whole, the weights have no name yet.
    with killed.at_call(tf.io.gfile, "rename", number=1):
        run.save(10, {})
    assert names(tmp_path) == ["model.ckpt-5"]
    assert list(tmp_path.glob("*.incomplete*"))
    assert run.restore()[0] == 5
    assert not list(tmp_path.glob("*.incomplete*"))
