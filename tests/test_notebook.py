"""notebooks/fine_tune.ipynb: as it lies there it is whole, and it runs."""

import ast
import json
import pathlib
import re

import pytest

from terminal import native_log

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "notebooks" / "fine_tune.ipynb"
MAX_BYTES = 300_000


@pytest.fixture(scope="module")
def stored():
    return json.loads(NOTEBOOK.read_text("utf-8"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def texts(cell):
    actual = []
    for output in cell["outputs"]:
        lines = output.get("text") or output.get("data", {}).get("text/plain", "")
        actual.append("".join(lines))
    return "\n".join(actual)


def defects(notebook):
    actual = []
    for number, cell in enumerate(code_cells(notebook), start=1):
        source = "".join(cell["source"])
        try:
            ast.parse(source)
        except SyntaxError as error:
            actual.append(f"cell {number}: {error}")
        if cell["execution_count"] != number:
            actual.append(f"cell {number} was run as {cell['execution_count']}")
        if any(output["output_type"] == "error" for output in cell["outputs"]):
            actual.append(f"cell {number} ended with an error")
        if any(output.get("name") == "stderr" for output in cell["outputs"]):
            actual.append(f"cell {number} shows warnings or logs")
        if path := re.search(r"(?<![\w.])/(?:\w+/)+\w+", texts(cell)):
            actual.append(f"cell {number} names {path[0]}, a place of one machine")
    return actual


def test_notebook_is_whole_and_small(stored):
    assert NOTEBOOK.stat().st_size < MAX_BYTES
    assert defects(stored) == []
    links = [
        link
        for cell in stored["cells"]
        if cell["cell_type"] == "markdown"
        for link in re.findall(r"\]\(([^)#]+)", "".join(cell["source"]))
    ]
    assert links and all((NOTEBOOK.parent / link).is_file() for link in links)


@pytest.mark.slow
def test_notebook_runs_and_learns(stored, minilm_dir, tmp_path):
    import nbclient
    import nbformat

    copy = tmp_path / "checkout"
    copy.mkdir()
    for path in ROOT.iterdir():  # so that what it writes goes elsewhere
        if path.name not in ("output", "notebooks"):
            (copy / path.name).symlink_to(path)
    (copy / "notebooks").mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(copy / "notebooks")}},
    )
    client.execute()
    written = json.loads(nbformat.writes(notebook))
    assert native_log.has_gpu() or not [d for d in defects(written) if "logs" in d]
    trained = next(c for c in code_cells(notebook) if "model.fit(" in c["source"])
    *bars, last = texts(trained).splitlines()  # Keras' bars, an epoch each
    assert sum("Epoch" in line for line in bars) == 4
    scores = ast.literal_eval(last)
    assert scores["val_accuracy"] > 0.75
    answers = ast.literal_eval(texts(code_cells(notebook)[-1]).splitlines()[-1])
    assert answers == ["delivery", "billing", "praise"]
    assert (copy / "output" / "notebook" / "model" / "vocab.txt").is_file()
    for cell, other in zip(code_cells(notebook), code_cells(stored), strict=True):
        kinds = [output["output_type"] for output in cell["outputs"]]
        wanted = [output["output_type"] for output in other["outputs"]]
        assert [kind for kind in kinds if kind != "stream"] == [
            kind for kind in wanted if kind != "stream"
        ]
