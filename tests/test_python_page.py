"""docs/python.md: its blocks run in their order, and give what the page says."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import bert_reborn as bert
from data_pipeline.batches import batching
from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
# Blocks that only the slow tests run.
OTHER_TASKS, OWN_TASK = "bert.tagger(", "class Similarity"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    return tiny.write_model(
        path,
        tiny.LETTERS,
        num_hidden_layers=1,
        max_position_embeddings=128,
        hidden_act="relu",
        initializer_range=0.3,
    )


@pytest.fixture(scope="module")
def run(model_dir, tmp_path_factory):
    output = tmp_path_factory.mktemp("output")

    def run(block, scope):
        code = block.replace('"models/minilm', f'"{model_dir}')
        code = code.replace('"output/', f'"{output}/')
        code = code.replace("learning_rate=1e-4", "learning_rate=1e-3")
        # XLA compiles for each length, which takes its time.
        code = code.replace("batch_size=32)", "batch_size=32, pad_to=64)")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(ROOT)
            exec(compile(code, "docs/python.md", "exec"), scope)
        return scope

    return run


@pytest.fixture(scope="module")
def names(run):
    names: dict = {"__name__": "page"}
    for block in BLOCKS:
        if not any(task in block for task in (OWN_TASK, OTHER_TASKS)):
            run(block, names)
    return names


@pytest.mark.slow
def test_other_tasks_are_trained(run):
    (block,) = (each for each in BLOCKS if OTHER_TASKS in each)
    assert run(block, {"bert": bert})["pairs"]


@pytest.mark.slow
def test_task_of_ones_own_is_learned(names, run):
    (block,) = (each for each in BLOCKS if OWN_TASK in each)
    learned = run(block, names.copy())["learned"]  # takes names of other blocks
    assert learned[-1] < learned[0]


def logits(model, features):
    actual = model(features)
    return np.asarray(actual["logits"] if isinstance(actual, dict) else actual)


@pytest.mark.slow
def test_blocks_leave_what_the_page_prints(names):
    loaded = names["loaded"]
    assert loaded.tokens("a b", "c") == ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"]
    assert "1 layers x 32" in repr(loaded) and "23 of 23 variables" in repr(loaded)
    assert names["embedded"].shape == (3, 32) and names["similarity"].shape == (3, 3)
    np.testing.assert_allclose(np.diag(names["similarity"]), 1.0, atol=1e-6)
    left = {path.split("/")[2] for path in names["trained"]}
    assert left == {"block_0", "pooler", "logits"}
    maps = names["maps"]
    assert maps.shape == (1, 2, len(names["tokens"]), len(names["tokens"]))
    np.testing.assert_allclose(maps.sum(axis=-1), 1.0, atol=1e-6)


@pytest.mark.slow
def test_fit_learns_and_evaluates(names):
    losses, scores = names["history"].history["loss"], names["scores"]
    assert losses[-1] < losses[0]
    best = max(names["history"].history["val_accuracy"])
    assert 1 / 6 < scores["accuracy"] <= best
    actual = names["model"].predict(names["dev"], verbose=0)["logits"].argmax(-1)
    right = np.mean(actual == names["data"].splits["dev"].label_ids)
    assert scores["accuracy"] == pytest.approx(right)


@pytest.mark.slow
def test_what_is_saved_gives_equal_outputs(names):
    classifier = names["classifier"]
    features = classifier.encode(["Where is my parcel?", "Love the shoes!"])
    wanted = logits(classifier.model, features)
    assert np.ptp(wanted) > 1e-2
    for model in (names["again"].model, names["whole"]):
        np.testing.assert_allclose(logits(model, features), wanted, atol=1e-6)
    assert names["again"].classes == classifier.classes
    np.testing.assert_allclose(
        logits(names["own"], features), logits(names["loaded_own"], features), atol=1e-6
    )
    steps = int(names["whole"].optimizer.iterations)
    assert steps == int(classifier.model.optimizer.iterations) > 0


@pytest.mark.slow
def test_answers_are_those_of_the_model_and_of_the_export(names):
    answers, served = names["answers"], names["served"]
    features = names["classifier"].encode(["Where is my parcel?"])
    exact = np.exp(logits(names["model"], features)[0])
    exact /= exact.sum()
    for actual in (answers[0], served[0]):
        shares = list(actual["probabilities"].values())
        np.testing.assert_allclose(shares, exact, atol=1e-5)
        assert list(actual["probabilities"])[exact.argmax()] == actual["label"]
    assert answers[0]["probabilities"] != answers[1]["probabilities"]


LATE = """
import json, os, sys, types, warnings
for name in [name for name in os.environ if name.startswith("TF_")]:
    del os.environ[name]
if sys.argv[1] == "late":
    sys.modules["tensorflow"] = types.ModuleType("tensorflow")
if sys.argv[1] == "own":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
from cli import environment
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    set_now = environment.prepare_notebook()
of_command = environment.prepare(is_quiet=False)
print(json.dumps([[str(w.message) for w in caught], set_now, of_command]))
"""


@pytest.mark.parametrize("when", ["early", "late", "own"])
def test_settings_that_come_too_late_are_named(when):
    done = subprocess.run(
        [sys.executable, "-c", LATE, when], capture_output=True, text=True, cwd=ROOT
    )
    warned, settings, of_command = json.loads(done.stdout)
    assert settings["TF_CPU_ALLOCATOR_USE_BFC"] == "1"
    # A command, whose package sets them first, replaces all but the ones of a user.
    levels = [each["TF_CPP_MIN_LOG_LEVEL"] for each in (settings, of_command)]
    assert levels[0] in ("2", "3") or when == "own"
    assert levels[1] == ("1" if when == "own" else "0")
    assert len(warned) == (when == "late")
    for message in warned:
        assert "too late for" in message and "TF_CPU_ALLOCATOR_USE_BFC=1" in message


@pytest.mark.slow
def test_epochs_differ_and_follow_from_the_seed(names):
    examples = names["data"].examples("train")

    def epochs(seed):
        dataset = batching.keras_training(examples, 32, seed=seed).take(2)
        return [[y.numpy().tolist() for _, y in dataset] for _ in range(2)]

    first = epochs(1)
    assert first[0] != first[1] and first == epochs(1) and first != epochs(2)
    with pytest.raises(ValueError, match="batch_size=541 exceeds 540"):
        batching.keras_training(examples, 541)
