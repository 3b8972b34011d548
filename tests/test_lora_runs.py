"""Runs with LoRA of each task: resumed, predicted, and opened as adapter and base."""

import json
import shutil

import numpy as np
import pytest

import bert_reborn as bert
from tests import tiny, tiny_family, whole_runs

LORA = ("--lora_rank=2", "--lora_targets=all-linear", "--learning_rate=0.01")
LORA += ("--save_checkpoints_steps=2",)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = whole_runs.write(tmp_path_factory.mktemp("data"))
    path = directory / "distilbert"
    tiny_family.write_model(path, "distilbert", hidden_act="relu")
    return directory


def run(task, data, path, *more, steps=4, **model):
    flags = whole_runs.arguments(task, data, steps=steps, **model)
    script = whole_runs.SCRIPTS[task]
    return tiny.succeed(script, *flags, f"--output_dir={path}", *LORA, *more)


def files(path, *patterns):
    """{name: bytes} of what a run has written."""
    paths = (file for pattern in patterns for file in path.glob(pattern))
    return {file.name: file.read_bytes() for file in paths}


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    ["classification", "choice", "questions", "tagging", "vectors", "layers", "pairs"],
)
def test_run_goes_on_bit_for_bit_and_leaves_an_adapter(task, data, tmp_path):
    done = run(task, data, tmp_path / "whole")
    assert "LoRA of rank 2 in " in done.out
    written = ("adapter_*", "model.ckpt-4.data*", "test_*", "*predictions*")
    whole = files(tmp_path / "whole", *written)
    assert {"adapter_config.json", "adapter_model.safetensors"} < {*whole}
    first = shutil.copytree(tmp_path / "whole", tmp_path / "first")
    for path in [*first.glob("model.ckpt-4*"), *first.glob("adapter_*")]:
        path.unlink()
    (first / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-2"\n')
    run(task, data, first)
    assert files(first, *written) == whole
    (rank,) = {json.loads(whole["adapter_config.json"])["r"]}
    assert rank == 2


@pytest.mark.slow
def test_adapter_and_base_answer_as_the_run(data, tmp_path):
    path = tmp_path / "run"
    flags = ("--do_export", "--lora_alpha=64", "--mixed_precision=bfloat16")
    run("classification", data, path, *flags, model="distilbert", steps=6)
    alone = tmp_path / "adapter"
    alone.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(path / name, alone)
    settings = json.loads((alone / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == str(data / "distilbert")
    assert settings["modules_to_save"] == ["classifier", "pre_classifier"]
    texts = ["the great sea", "a film was awful and it was really okay"]

    def logits(directory):
        loaded = bert.load(directory, max_seq_length=16)
        return np.asarray(loaded.model(loaded.encode(texts))["logits"])

    np.testing.assert_allclose(logits(alone), logits(path), atol=1e-6)
    settings["lora_alpha"] = 32
    (alone / "adapter_config.json").write_text(json.dumps(settings))
    assert np.abs(logits(alone) - logits(path)).max() > 1e-3


@pytest.mark.slow
def test_what_a_rank_cannot_do_is_named(data, tmp_path):
    flags = whole_runs.arguments("classification", data, steps=2)
    out = f"--output_dir={tmp_path / 'run'}"
    line = tiny.refuse("run_classifier", *flags, out, "--lora_rank=500")
    assert "--lora_rank=500 exceeds the width of layers, 32, above which" in line
    path, (_, *others) = data / "model", flags
    files = (
        f"--bert_config_file={path}/bert_config.json",
        f"--vocab_file={path}/vocab.txt",
    )
    line = tiny.refuse("run_classifier", *files, *others, out, "--lora_rank=2")
    assert "--lora_rank=2 leaves the weights below heads as they are, and the" in line
    # The new adapter is for the sum of the weights and the first one.
    first, second = tmp_path / "first", tmp_path / "second"
    done = run("classification", data, first, model="distilbert", steps=2)
    assert "has an adapter" not in done.log
    flags = whole_runs.arguments("classification", data, model="distilbert", steps=2)
    flags = [flag.replace(str(data / "distilbert"), str(first)) for flag in flags]
    done = tiny.succeed("run_classifier", *flags, f"--output_dir={second}", *LORA)
    assert f"{first} has an adapter, and that of this run is for the wei" in done.log
    assert "at random values" not in done.log
    done = run("pairs", data, tmp_path / "pairs", steps=2)
    assert "--lora_rank=2 leaves what is new below heads at random values" in done.log
    assert "crossattention" in done.log.partition("at random values")[2]


@pytest.mark.slow
def test_replicas_processes_and_parts_train_the_same_adapter(
    data, forked_server, tmp_path
):
    """Of a network whose blocks are traced once."""
    flags = whole_runs.arguments("classification", data, model="deep", steps=6)
    flags += [*LORA, "--recompute"]
    still = {"constants": whole_runs.NO_HEAD_DROPOUT}
    paths = {kind: tmp_path / kind for kind in ("one", "two", "processes")}
    two = "--virtual_cpus=2", "--distribution_strategy=mirrored"
    more = {"one": ["--gradient_accumulation_steps=4"], "two": two, "processes": ()}
    for kind, path in paths.items():
        each = ["run_classifier", *flags, f"--output_dir={path}", *more[kind]]
        if kind == "processes":
            jobs = forked_server.start_workers(2, *each, **still)
        else:
            jobs = [forked_server.start(*each, **still)]
        for job in jobs:
            assert job.code() == 0, f"{kind}: {job.text()}"
    one, *others = (whole_runs.variables(path, 6) for path in paths.values())
    for other in others:
        assert whole_runs.largest_difference(other, one) < 1e-5
    up = "bert/encoder/layer_3/attention/self/value/kernel/lora_B"
    assert np.abs(one[up]).max() > 1e-2
    assert not np.array_equal(one[f"{up}/adam_v"], 0 * one[up])
