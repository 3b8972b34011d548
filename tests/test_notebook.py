"""notebooks/: as they lie there they are whole, and they run."""

import ast
import importlib.util
import json
import pathlib
import re

import pytest

import bert_reborn as bert
from terminal import native_log

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXPLAINED = ("bert_explained.ipynb", "bert_explained.zh.ipynb")
MAX_BYTES = 300_000


@pytest.fixture(scope="module")
def stored():
    return {path.name: json.loads(path.read_text("utf-8")) for path in NOTEBOOKS}


def sources(notebook, cell_type):
    cells = notebook["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == cell_type]


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


def links(notebook):
    text = "\n".join(sources(notebook, "markdown"))
    return [each for each in re.findall(r"\]\(([^)#]+)", text) if ":" not in each]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_whole_and_small(stored, path):
    notebook = stored[path.name]
    assert path.stat().st_size < MAX_BYTES
    assert defects(notebook) == []
    local = links(notebook)
    assert local and all((path.parent / link).is_file() for link in local)
    assert any(cell["outputs"] for cell in code_cells(notebook))


def test_languages_differ_in_their_texts_alone(stored):
    english, chinese = (stored[name] for name in EXPLAINED)
    columns = ["cell_type", "id"]
    for one, other in zip(english["cells"], chinese["cells"], strict=True):
        assert [one[name] for name in columns] == [other[name] for name in columns]
    assert sources(english, "code") == sources(chinese, "code")
    for text in sources(english, "markdown"):
        assert not re.search("[\u4e00-\u9fff]", text.replace("中文版", ""))
    for text in sources(chinese, "markdown"):
        assert re.search("[\u4e00-\u9fff]", text), text
    pages = ({*links(each)} - {*EXPLAINED} for each in (english, chinese))
    assert next(pages) == next(pages)


def unknown_names(code, flags):
    """What a notebook uses and the project, its pages or Python do not have."""
    actual, tree = [], ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module]
        else:
            modules = []
        actual += [name for name in modules if not importlib.util.find_spec(name)]
    used = {*re.findall(r"\bbert\.(\w+)\(", code)}
    actual += sorted(used - {*dir(bert)})
    actual += [
        flag
        for flag in re.findall(r"--(\w+)\b(?!-)", code)
        if f"`--{flag}`" not in flags
    ]
    paths = re.findall(r"\b(?:sample_data|configs|models)/[\w/.]+", code)
    paths += re.findall(r"\b\w+\.py\b", code)
    return actual + [path for path in paths if not (ROOT / path).exists()]


def test_names_of_notebooks_exist(stored):
    flags = (ROOT / "docs" / "flags.md").read_text("utf-8")
    for notebook in stored.values():
        assert unknown_names("\n".join(sources(notebook, "code")), flags) == []
    wrong = (
        'import nothing_here\nbert.lod("x")\nrun("run_x.py --no_flag=configs/x.json")'
    )
    actual = unknown_names(wrong, flags)
    wanted = ["nothing_here", "lod", "no_flag", "configs/x.json", "run_x.py"]
    assert actual == wanted


def execute(name, directory):
    """Runs a copy in a checkout of links; the notebook with what its cells show."""
    import nbclient
    import nbformat

    copy = directory / "checkout"
    copy.mkdir()
    for path in ROOT.iterdir():  # so that what it writes goes elsewhere
        if path.name not in ("output", "notebooks"):
            (copy / path.name).symlink_to(path)
    (copy / "notebooks").mkdir()
    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    nbclient.NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(copy / "notebooks")}},
    ).execute()
    return json.loads(nbformat.writes(notebook)), copy


def shown_kinds(notebook):
    """The kinds of outputs of each cell, but for what it prints."""
    return [
        [each["output_type"] for each in cell["outputs"] if "text" not in each]
        for cell in code_cells(notebook)
    ]


def check_executed(notebook, stored):
    logs = [defect for defect in defects(notebook) if "logs" in defect]
    assert native_log.has_gpu() or not logs
    assert shown_kinds(notebook) == shown_kinds(stored)


@pytest.mark.slow
def test_fine_tuning_runs_and_learns(stored, minilm_dir, tmp_path):
    notebook, copy = execute("fine_tune.ipynb", tmp_path)
    check_executed(notebook, stored["fine_tune.ipynb"])
    trained = next(
        c for c in code_cells(notebook) if "model.fit(" in "".join(c["source"])
    )
    *bars, last = texts(trained).splitlines()  # Keras' bars, an epoch each
    assert sum("Epoch" in line for line in bars) == 4
    scores = ast.literal_eval(last)
    assert scores["val_accuracy"] > 0.75
    answers = ast.literal_eval(texts(code_cells(notebook)[-1]).splitlines()[-1])
    assert answers == ["delivery", "billing", "praise"]
    assert (copy / "output" / "notebook" / "model" / "vocab.txt").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPLAINED)
def test_explanation_runs_and_shows_what_it_explains(
    stored, minilm_dir, tmp_path, name
):
    notebook, _ = execute(name, tmp_path)
    check_executed(notebook, stored[name])
    shown = "\n".join(texts(cell) for cell in code_cells(notebook))
    learned, other = (
        int(re.search(rf"{rows}: (\d+)% of the hidden words", shown)[1])
        for rows in ("training", "kept back")
    )
    assert learned > 80 > 40 > other
    assert float(re.search(r"eval_accuracy = (\S+)'", shown)[1]) > 0.75
    assert float(re.search(r"eval_f1 = (\S+)'", shown)[1]) > 0.75
    # BERT sees all of 7 words, GPT and the halves of ELMo 28 of the 49 pairs.
    shares = re.findall(r"'([\w, ]+)': '(\d+)% of all pairs'", shown)
    assert [share for _, share in shares] == ["100", "57", "57", "57"]
