"""Tests of training/run_directory.py."""

import dataclasses
import json
import types

import numpy as np
import pytest

from contract import errors
from loading import model_directory
from tests import tiny
from tests.training import steps
from training import checkpoints, run_directory

IDENTITY = {"data": "3 examples", "train_batch_size": 32, "seed": 1}


FILES = {"bert_config.json": "{}\n", "vocab.txt": "a\n"}


def begin(directory, identity=None, *, resumes=False, files=FILES, **changes):
    flags = {"learning_rate": 5e-5, "seeds": []}
    changes = {"flags": flags, "command": "python run.py --seed=1", **changes}
    run_directory.begin(
        steps.plan(directory, **changes),
        resumes=resumes,
        identity=IDENTITY if identity is None else identity,
        files=files,
    )


def resumes(directory, identity=IDENTITY, overwrite=False):
    return run_directory.resumes(str(directory), identity, overwrite=overwrite)


def test_a_tuple_is_the_list_of_run_json(tmp_path):
    begin(tmp_path, {"mask_proportions": (0.8, 0.1, 0.1)})
    assert not resumes(tmp_path, {"mask_proportions": (0.8, 0.1, 0.1)})
    with pytest.raises(
        ValueError, match=r"mask_proportions was .0\.8, 0\.1, 0\.1. and is"
    ):
        resumes(tmp_path, {"mask_proportions": (0.8, 0.2, 0.0)})


def test_run_json_says_what_trained(tmp_path):
    begin(tmp_path)
    before = (tmp_path / "run.json").read_text()
    begin(tmp_path, flags={"learning_rate": 1.0}, command="other", resumes=True)
    assert (tmp_path / "run.json").read_text() == before
    settings = types.SimpleNamespace(
        **{"output_dir": str(tmp_path), "flags": {"log_steps": 7}, "command": "longer"},
        **{"identity": {"seed": 5, "learning_rate": 2.0}, "writes": False},
    )
    run_directory.go_on(settings)
    assert (tmp_path / "run.json").read_text() == before
    settings.writes = True
    run_directory.go_on(settings)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["command"] == "longer" and record["flags"] == {"log_steps": 7}
    assert record["identity"] == {**IDENTITY, "learning_rate": 2.0}


def test_killed_command_does_not_export_the_same_again(tmp_path):
    def export():
        version = len(list(tmp_path.glob("export/*"))) + 1
        (tmp_path / "export" / str(version)).mkdir(parents=True)
        return str(tmp_path / "export" / str(version))

    def once(command="python run.py", step=6):
        settings = types.SimpleNamespace(output_dir=str(tmp_path), command=command)
        path = run_directory.export_once(settings, step, export)
        return settings, path.removeprefix(f"{tmp_path}/export/")

    (settings, first) = once()
    assert first == "1"
    assert once()[1] == "1"  # for it was killed before its end
    assert once(step=9)[1] == "2"  # other weights
    assert once(step=9, command="python run.py --top_k=3")[1] == "3"
    run_directory.end(settings)
    assert [once()[1] for _ in range(2)] == ["4", "4"]
    run_directory.end(settings)
    assert once()[1] == "5" and once()[1] == "5"
    assert (tmp_path / "exporting.json").exists()
    (tmp_path / "run.json").touch()
    run_directory.clear(str(tmp_path))
    assert not list(tmp_path.iterdir())


OWN = (
    "model.ckpt-5.index",
    "model.ckpt-5.data-00000-of-00001",
    "model.ckpt-5.json",
    "checkpoint",
    "model.ckpt-9.incomplete.index",
    "run.json",
    "eval_results.txt",
    "test_results.tsv",
    "test_predictions.jsonl",
    "test_predictions.csv",
    "train.tf_record",
    "label_map.json",
    "train/events.out.tfevents.1",
    "eval/events.out.tfevents.1",
    "train/plugins/profile/2026/vm.xplane.pb",
    "eval/projector_config.pbtxt",
    "eval/vectors.tsv",
    "export/1/saved_model.pb",
)
FOREIGN = (
    "train.tsv",
    "train/train.tsv",
    "eval/dev.tsv",
    "mine.tf_record",
    "export/notes.txt",
    "bert_model.ckpt.index",
    "notes.txt",
    "seed-1/run.json",
    "data/train.tf_record",
    "vocab.txt",
)


def fill(folder):
    for name in (*OWN, *FOREIGN):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def files(folder):
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_overwriting_clears_first_and_else_nothing_goes(tmp_path):
    fill(tmp_path)
    begin(tmp_path)
    assert files(tmp_path) == {*OWN, *FOREIGN, "bert_config.json"}
    run_directory.clear(str(tmp_path / "gone"))
    begin(tmp_path, overwrite=True)
    assert files(tmp_path) == {*FOREIGN, "bert_config.json", "run.json"}
    (tmp_path / "run.json").unlink()
    fill(tmp_path)
    (tmp_path / "run.json").unlink()
    before = files(tmp_path)
    run_directory.clear(str(tmp_path))
    assert files(tmp_path) == before


def test_overwriting_removes_files_that_the_new_run_has_not(tmp_path):
    """Such as the config of another network, which would be read with its weights."""
    old = {**FILES, "modules.json": "[]\n", "1_Pooling/config.json": "{}\n"}
    begin(tmp_path, files=old)
    (tmp_path / "mine.json").write_text("{}")
    begin(tmp_path, files={**FILES, "config.json": "{}\n"}, overwrite=True)
    assert files(tmp_path) == {*FILES, "config.json", "mine.json", "run.json"}
    assert not (tmp_path / "1_Pooling").exists()
    run_directory.go_on(steps.plan(tmp_path))
    with pytest.raises(errors.InputError, match=r"removes .*/config.json, which --de"):
        check(tmp_path, files=FILES, dev_file=f"{tmp_path}/config.json")
    # What a damaged run.json names elsewhere stays.
    record = json.loads((tmp_path / "run.json").read_text())
    names = ["../other", str(tmp_path / "mine.json"), "config.json"]
    (tmp_path / "run.json").write_text(json.dumps({**record, "files": names}))
    (tmp_path.parent / "other").write_text("")
    begin(tmp_path, overwrite=True)
    assert files(tmp_path) == {*FILES, "mine.json", "run.json"}
    assert (tmp_path.parent / "other").exists()


def check(directory, *, overwrite=True, files=(), **flags):
    plan = steps.plan(directory, overwrite=overwrite, flags=flags)
    run_directory.check(plan, dict(files))


def test_files_of_others_are_not_replaced(tmp_path):
    check(tmp_path, files={"vocab.txt": "a\n"})
    (tmp_path / "vocab.txt").write_text("b\n")
    check(tmp_path, files={"vocab.txt": "b\n"})
    for overwrite in (True, False):
        with pytest.raises(errors.InputError, match=r"another vocab\.txt.*choose"):
            check(tmp_path, overwrite=overwrite, files={"vocab.txt": "a\n"})
    (tmp_path / "run.json").write_text("{}")
    check(tmp_path, files={"vocab.txt": "a\n"})
    (tmp_path / "run.json").unlink()
    for name in ("report.html", "test_tags.tsv", "checkpoint"):
        (tmp_path / name).touch()
        with pytest.raises(errors.InputError, match=rf"another {name} and no run.json"):
            check(tmp_path, overwrite=False)
        (tmp_path / name).unlink()
    (tmp_path / "eval_results.txt").touch()
    (tmp_path / "model.ckpt-5.index").touch()
    check(tmp_path, overwrite=False)
    with pytest.raises(errors.InputError, match=r"another model\.ckpt-5 "):
        check(tmp_path)


def test_evaluation_replaces_results_of_commands_alone(tmp_path):
    evaluation = dataclasses.replace(
        steps.plan(tmp_path), trains=False, evaluates=True, command="run_x.py"
    )
    (tmp_path / "checkpoint").touch()  # which names weights of a release
    (tmp_path / "label_map.json").touch()
    run_directory.check(evaluation, {})
    (tmp_path / "test_results.tsv").touch()
    with pytest.raises(errors.InputError, match=r"another test_results.tsv and no run"):
        run_directory.check(evaluation, {})
    (tmp_path / "test_results.tsv").unlink()
    run_directory.mark(evaluation)
    (tmp_path / "test_results.tsv").touch()
    run_directory.check(evaluation, {})
    assert (tmp_path / ".evaluated").read_text() == "run_x.py\n"


@pytest.mark.parametrize(
    ("flag", "value", "lost"),
    [
        ("input_file", "{}/train.tf_record", "train.tf_record"),
        ("input_file", "{}/other.tf_record,{}/*.tf_record", "train.tf_record"),
        ("init_checkpoint", "{}/model.ckpt-5", "model.ckpt-5.index"),
        ("pretrained", "{}", "model.ckpt-5"),
        ("data_dir", "{}", ""),
        ("train_file", "{}/train.tsv", ""),
        ("train_file", "", ""),
    ],
)
def test_what_a_run_reads_is_not_removed(tmp_path, flag, value, lost):
    folder = tmp_path / ("run" if "*" in value else "run[1]")
    fill(folder)
    value = value.format(folder, folder)
    check(folder, overwrite=False, **{flag: value})
    if not lost:
        check(folder, **{flag: value})
        return
    with pytest.raises(errors.InputError, match=f"{lost}.*, which --{flag}="):
        check(folder, **{flag: value})


def test_a_directory_of_a_grid_is_one_although_it_has_commas(tmp_path):
    folder = tmp_path / "learning_rate=5e-05,train_batch_size=16"
    fill(folder)
    with pytest.raises(errors.InputError, match=r"model.ckpt-5.*, which --pre"):
        check(folder, pretrained=str(folder))


def test_names_with_brackets_stand_for_themselves(tmp_path):
    for name in ("x1", "x[1]"):
        (tmp_path / name).mkdir()
    (tmp_path / "x1/model.ckpt-5.index").touch()
    (tmp_path / "x1/run.json").touch()
    assert checkpoints.all_checkpoints(str(tmp_path / "x[1]")) == []
    run_directory.clear(str(tmp_path / "x[1]"))
    assert len(files(tmp_path)) == 2
    ours = tmp_path / "x[1]/model.ckpt-7"
    (tmp_path / "x[1]/model.ckpt-7.index").write_text("7")
    assert checkpoints.all_checkpoints(str(tmp_path / "x[1]")) == [str(ours)]
    assert checkpoints.identity(str(ours)) != checkpoints.identity(
        str(tmp_path / "x1/model.ckpt-5")
    )
    assert checkpoints.identity(str(ours))


def test_results_are_sorted_lines(tmp_path):
    path = tmp_path / "eval_results.txt"
    results = {
        "loss": np.float32(0.25),
        "eval_accuracy": np.float32(2 / 3),
        "global_step": 343,
    }
    run_directory.write_results(str(path), results)
    # run_classifier.py: "%s = %s\n" % (key, str(result[key])), sorted.
    assert path.read_text("utf-8") == (
        "eval_accuracy = 0.6666667\nglobal_step = 343\nloss = 0.25\n"
    )


@pytest.mark.parametrize(("step", "points"), [(5, 0), (10, 1), (15, 1)])
def test_scores_of_earlier_weights_add_no_point(tmp_path, step, points):
    """TensorBoard would drop what lies between."""
    for saved in (5, 10):
        (tmp_path / f"model.ckpt-{saved}.index").touch()
    settings = types.SimpleNamespace(writes=True, output_dir=str(tmp_path))
    run_directory.record(settings, step, {"loss": 0.5}, {"global_step": step})
    assert (tmp_path / "eval").exists() == bool(points)
    if points:
        assert tiny.events(tmp_path / "eval") == {"eval/loss": [(step, 0.5)]}
    assert tiny.eval_results(tmp_path) == {"global_step": step}


def test_flags_of_a_trained_directory_are_read(tmp_path):
    assert model_directory.read_run(str(tmp_path)).flags.get("max_seq_length") is None
    begin(tmp_path, flags={"max_seq_length": 48})
    assert model_directory.read_run(str(tmp_path)).flags.get("max_seq_length") == 48
    assert model_directory.read_run(str(tmp_path)).flags.get("another") is None
    (tmp_path / "run.json").write_text('{"flags": ')
    assert model_directory.read_run(str(tmp_path)).flags.get("max_seq_length") is None
