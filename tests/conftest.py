"""Shared by all tests: a quiet, bounded TensorFlow, and files that may be absent."""

import contextlib
import gc
import os
import pathlib
import signal

import hypothesis
import pytest

from cli import environment
from tests import forked, tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]


def _bound_tensorflow():
    """Settings that TensorFlow and Keras read on import; subprocesses inherit them."""
    os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever ~/.keras/keras.json says
    environment.prepare()
    # Workers that each take every core slow one another down.
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    threads = max(1, (os.cpu_count() or 1) // workers)
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(name, str(threads))


_bound_tensorflow()
# The same inputs in each run, of which a change to the code alone makes one fail.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None
)
hypothesis.settings.load_profile("repeatable")
# A shell ignores it for what it starts in the background, and the tests with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Tracing makes objects by the million; looking for cycles among them took a tenth.
gc.set_threshold(20_000, 20, 20)


NOT_PUBLISHED = "recorded on data that cannot be published (CONTRIBUTING.md)"
# The files that take longest, the longest first; together a third of the time.
BEGIN_WITH = (
    "test_python_page.py",
    "cli/test_fitting.py",
    "modeling/networks/test_bert_family.py",
    "test_run_embedding.py",
    "test_run_classifier.py",
    "test_bert.py",
    "training/test_run.py",
    "test_label_order.py",
    "modeling/checkpoints/test_sentence_transformers.py",
    "serving/test_search.py",
    "serving/test_reranking.py",
    "serving/server/test_attacks.py",
    "test_convert_checkpoint.py",
    "data_pipeline/pretraining/test_batches.py",
    "test_run_seq2seq.py",
    "training/optimizers/test_optimizers.py",
)


def pytest_collection_modifyitems(items):
    """Puts long files first, so that all processes end at about the same time."""
    places = {ROOT / "tests" / name: place for place, name in enumerate(BEGIN_WITH)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Keeps modules and caches of a finished file out of later searches for cycles.

    The full search after each run of a script would take longer from file to file.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


@pytest.fixture(scope="session")
def shared_file():
    """A function from a path such as "golden/gpt" to it: in tests/, or in `shared`.

    `shared` lies beside the checkout, with recordings on public data sets, which cannot
    be published here. Without it the test is skipped; tests/golden/README.md. In
    continuous integration (CI=true) a folder that lacks the file is a mistake, and a
    test that skips itself would hide it: there the test fails.
    """

    def find(relative):
        if (path := ROOT / "tests" / relative).exists():
            return path
        shared = ROOT.parent / "shared"
        if not shared.is_dir():
            pytest.skip(NOT_PUBLISHED)
        path = shared / relative
        if not path.exists():
            stop = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            stop(f"there is no {path}")
        return path

    return find


def pytest_terminal_summary(terminalreporter):
    """Counts the tests that need what cannot be published."""
    skipped = terminalreporter.stats.get("skipped", [])
    if count := sum(NOT_PUBLISHED in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"{count} tests did not run: {NOT_PUBLISHED}")


@pytest.fixture(scope="session")
def forked_server(tmp_path_factory):
    """Scripts as processes of their own: a forked.Server."""
    with contextlib.closing(forked.Server(tmp_path_factory.mktemp("logs"))) as server:
        yield server


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    """A tiny BERT as tiny.write_model makes it; tests must not change its files."""
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    # XLA, which the gelu of training needs, takes its time.
    return tiny.write_model(path, num_hidden_layers=1, hidden_act="relu")


@pytest.fixture(scope="session")
def minilm_dir():
    """Real weights: config.json, vocab.txt, model.safetensors of all-MiniLM-L6-v2."""
    path = ROOT / "models" / "minilm"
    if not (path / "model.safetensors").exists():
        pytest.skip(f"there is no {path}; make setup brings it")
    return path
