"""Rules of STYLE.md that neither ruff, mypy nor import-linter can check.

Each rule is a function from the root of a tree to a list of complaints. It must find
none in the checkout, and one in a tree with a planted mistake.
"""

import ast
import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("cli", "contract", "data_pipeline", "loading", "modeling", "reports")
PACKAGES += ("serving", "tasks", "terminal", "training")
LIBRARY = "bert_reborn.py"
SKIPPED_DIRS = {"__pycache__", "build", "dist", "models", "output"}
# Somebody's home or workplace, and where packages come from: both differ elsewhere.
PLACES = re.compile(
    r"(?<![\w.)}>-])/(?:work|root|home)/"
    r"|\b(?:pypi\.org|pythonhosted\.org|conda\.anaconda\.org|index[-_]url)\b"
)
DIFFERENCE = re.compile(
    r"Differs from google-research/bert:(.*?)(?:\n\s*\n|\Z)", re.DOTALL
)


def files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED_DIRS
            and not name.endswith(".egg-info")
            and (name in {".ci", ".github"} or not name.startswith("."))
        )
        yield from (
            pathlib.Path(folder, name) for name in sorted(names) if name != ".git"
        )


def sources(root):
    """(path relative to root, text) of every Python file outside tests/."""
    for path in files(root):
        relative = path.relative_to(root).as_posix()
        if path.suffix == ".py" and not relative.startswith("tests/"):
            yield relative, path.read_text(encoding="utf-8")


def imported_scripts(root):
    """Scripts that another file imports; bert_reborn.py is the library."""
    scripts = "|".join(p.stem for p in root.glob("*.py") if p.name != LIBRARY)
    pattern = rf"^ *(?:import|from) ({scripts})\b"
    return [
        f"{path} imports the script {name}"
        for path, text in sources(root)
        for name in re.findall(pattern, text, re.MULTILINE)
        if scripts
    ]


def busy_inits(root):
    """Files __init__.py that are more or less than a docstring."""
    return [
        path
        for path, text in sources(root)
        if path.endswith("__init__.py") and path.split("/")[0] in PACKAGES
        if not (ast.get_docstring(tree := ast.parse(text)) and len(tree.body) == 1)
    ]


def flags_outside_of_the_command_line(root):
    """Programs take settings, and packages values: command_line.py alone has flags."""
    return [
        f"{path}:{node.lineno} imports absl.flags"
        for path, text in sources(root)
        if path != "cli/command_line.py"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if re.match(r"\.?absl\.flags\b", f"{getattr(node, 'module', '')}.{alias.name}")
    ]


def named_places(root):
    complaints = []
    for path in files(root):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # not text
            continue
        for number, line in enumerate(lines, start=1):
            if match := PLACES.search(line):
                complaints.append(f"{path.relative_to(root)}:{number} names {match[0]}")
    return complaints


def unlisted_differences(root):
    """`Differs from` paragraphs of docstrings that docs/differences.md lacks."""
    listing = root / "docs" / "differences.md"
    listed = listing.read_text(encoding="utf-8") if listing.exists() else ""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    paragraphs = {
        " ".join(paragraph.split()): path
        for path, text in sources(root)
        if "Differs from google-research/bert" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented)
        for paragraph in DIFFERENCE.findall(ast.get_docstring(node) or "")
    }
    listed = " ".join(listed.split())
    return [f"{path}: {p}" for p, path in paragraphs.items() if p not in listed]


def vague_names(root):
    """Variables and arguments that are named after no content."""
    return [
        f"{path}:{node.lineno} names {name}"
        for path, text in sources(root)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.arg | ast.Name)
        and not isinstance(getattr(node, "ctx", None), ast.Load)
        if (name := getattr(node, "id", "") or getattr(node, "arg", ""))
        in ("found", "result")
    ]


# {rule: trees of path to text, in each of which it must find something}
PLANTED = {
    imported_scripts: [
        {"training/loop.py": "def f():\n    import run_squad", "run_squad.py": ""}
    ],
    flags_outside_of_the_command_line: [
        {"training/a.py": "def f():\n    from absl import app, flags"},
        {"tasks/settings/a.py": "from absl.flags import FLAGS"},
        {"cli/a.py": "import absl.flags as f"},
        {"run_a.py": "from absl import flags"},
    ],
    busy_inits: [{"modeling/__init__.py": '"""Network."""\n\nimport modeling'}],
    named_places: [
        {"docs/a.md": "see " + "pypi" + ".org"},
        {".ci/run": "cat " + "/".join(["", "work", "x"])},
    ],
    unlisted_differences: [
        {
            "modeling/a.py": '"""\nDiffers from google-research/bert: all\nof it"""',
            "docs/differences.md": "* most of it",
        }
    ],
    vague_names: [
        {"training/a.py": "def f():\n    result = 1\n    return result"},
        {"training/a.py": "def f(found):\n    return found"},
        {"cli/a.py": "b = [result for result in range(3)]"},
    ],
}
# No rule complains about these.
INNOCENT = {
    "modeling/__init__.py": '"""The network."""',
    "run_squad.py": "import bert\nfrom modeling import heads",
    "cli/command_line.py": "from absl import flags\nfrom absl.flags import FLAGS",
    "tests/a.py": "from absl import flags",
    "tasks/a.py": "from absl import logging\nfrom tasks import flags",
    "tests/test_a.py": "import run_squad\nfrom modeling import heads",
    "modeling/b.py": '"""B.\n\nDiffers from google-research/bert: one\nline.\n"""',
    "docs/differences.md": "* B: one line.\n* " + "/".join(["docs", "home", "a"]),
    "modeling/c.py": "results = future.result(found=1)",
    "output/a.py": "import run_squad",
}


def plant(tree, root):
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.__name__)
def test_checkout_keeps_the_rule(rule, tmp_path):
    assert rule(ROOT) == []
    assert rule(plant(INNOCENT, tmp_path / "innocent")) == []
    for number, tree in enumerate(PLANTED[rule]):
        assert rule(plant(tree, tmp_path / str(number)))
