"""What pyproject.toml, the workflows and the other files of a release state agrees."""

import ast
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from packaging import requirements, specifiers

import bert_reborn

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
OURS = {path.parent.name for path in ROOT.glob("*/__init__.py")}
OURS |= {path.stem for path in ROOT.glob("*.py")}
# Imported at the top, by modules that only a command of the extra imports.
OF_EXTRAS = {
    "serving/onnx_graph.py": {"onnx"},
    "serving/server/": {"h11", "prometheus-client", "starlette", "uvicorn"},
}
NO_LIBRARY = {"setup.py", "benchmarks", "examples", "notebooks", "tests"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def named(texts):
    return {normal(requirements.Requirement(text).name) for text in texts}


DECLARED = named(PROJECT["project"]["dependencies"])
EXTRAS = PROJECT["project"]["optional-dependencies"]
OPTIONAL = named(text for name in EXTRAS if name != "dev" for text in EXTRAS[name])


def imports(text):
    """(name, whether its import is conditional) of each absolute import of a source."""
    tree = ast.parse(text)
    tops = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module]
        for module in modules:
            yield module.split(".")[0], id(node) not in tops


def undeclared(texts, distributions):
    """Imports of {path: source} without a requirement, and requirements without one."""
    complaints, used = [], set()
    for path, text in texts.items():
        for name, is_conditional in imports(text):
            if name in OURS or name in sys.stdlib_module_names:
                continue
            homes = set(map(normal, distributions.get(name, [name])))
            used |= homes
            allowed = DECLARED.union(*(OF_EXTRAS[n] for n in OF_EXTRAS if n in path))
            allowed |= OPTIONAL if is_conditional else set()
            if not homes & allowed:
                complaints.append(f"{path} imports {name}")
    return complaints, DECLARED - used


def library():
    paths = [*ROOT.glob("*.py"), *ROOT.glob("*/**/*.py")]
    relative = {path.relative_to(ROOT): path for path in paths}
    return {
        str(name): path.read_text("utf-8")
        for name, path in relative.items()
        if name.parts[0] in OURS | {name.name} and name.parts[0] not in NO_LIBRARY
    }


def test_imports_are_declared_and_nothing_else():
    installed = importlib.metadata.packages_distributions()
    texts = library()
    assert len(texts) > 200
    complaints, unused = undeclared(texts, installed)
    assert not complaints and not unused
    assert len(DECLARED) <= 18


def test_import_without_a_declaration_is_seen():
    planted = {"cli/a.py": "import markupsafe\nfrom sacrebleu import x\nimport numpy"}
    complaints, unused = undeclared(planted, {})
    assert complaints == ["cli/a.py imports markupsafe", "cli/a.py imports sacrebleu"]
    assert "keras" in unused and "numpy" not in unused
    assert undeclared({"a.py": "def f():\n    import sacrebleu"}, {})[0] == []


def test_python_versions_are_those_of_every_file():
    bounds = specifiers.SpecifierSet(PROJECT["project"]["requires-python"])
    versions = [f"3.{minor}" for minor in range(20) if f"3.{minor}" in bounds]
    named_in = "Programming Language :: Python :: "
    classifiers = PROJECT["project"]["classifiers"]
    assert [
        name.removeprefix(named_in) for name in classifiers if named_in in name
    ] == [
        "3 :: Only",
        *versions,
    ]
    assert f"      {'|'.join(versions)})" in (ROOT / "Makefile").read_text("utf-8")
    matrices = [
        job["strategy"]["matrix"]["python"]
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values()
        if "python" in job.get("strategy", {}).get("matrix", {})
    ]
    assert matrices == [versions] * len(matrices) and len(matrices) >= 2


def test_version_stands_once():
    """In bert_reborn.py alone, beside the changelog."""
    version = re.escape(bert_reborn.__version__)
    pattern = re.compile(rf"(?:bert|version)[^\n]{{0,14}}(?<![\w.]){version}\b", re.I)
    assert pattern.search(f"bert_reborn-{bert_reborn.__version__}-py3-none-any.whl")
    assert pattern.search(f"version: {bert_reborn.__version__}")
    suffixes = {".md", ".yml", ".yaml", ".cff", ".toml", ".ipynb", ".py", ""}
    places = [
        path.relative_to(ROOT).as_posix()
        for folder in ("*", "docs/**/*", "examples/**/*", "notebooks/*", "serving/**/*")
        for path in ROOT.glob(folder)
        if path.is_file()
        and path.suffix in suffixes
        and path.name not in {"CHANGELOG.md", "PKG-INFO"}
        if pattern.search(path.read_text("utf-8"))
    ]
    assert places == ["bert_reborn.py"]


def test_changelog_has_the_version():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(
        r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE
    )
    released = [name for name, date in headings if date]
    assert headings[0] == ("Unreleased", "")
    assert bert_reborn.__version__ == released[0]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_pin_actions_and_keep_no_credentials(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    jobs = workflow["jobs"].values()
    steps = [step for job in jobs for step in job.get("steps", ())]
    used = re.findall(r"uses: (.*)", path.read_text("utf-8"))
    assert used
    for line in used:
        if line.startswith("./"):
            assert (ROOT / line).is_file()
            continue
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    checkouts = [s for s in steps if s.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert all({"timeout-minutes", "uses"} & {*job} for job in jobs)


@pytest.mark.slow
def test_release_check_refuses_what_is_not_ready(tmp_path):
    def check():
        script = ["sh", ROOT / ".github" / "release_check.sh", sys.executable]
        done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1
        return done.stdout + done.stderr

    def git(*words):
        author = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
        subprocess.run(["git", *author, *words], cwd=tmp_path, check=True)

    git("init", "-q")
    notes = "# Changelog\n\n## [Unreleased]\n\n{}## [0.2.0] - 2026-11-25\n\n* a line\n"
    library, changes = '__version__ = "0.3.0"\n', "### Added\n\n* another\n\n"
    (tmp_path / "bert_reborn.py").write_text(library)
    (tmp_path / "CHANGELOG.md").write_text(notes.format(""))
    assert "git status" in check()
    git("add", ".")
    git("commit", "-qm", "a version")
    assert "release is 0.2.0 and bert_reborn.py has 0.3.0" in check()
    (tmp_path / "bert_reborn.py").write_text(library.replace("3", "2"))
    (tmp_path / "CHANGELOG.md").write_text(notes.format(changes))
    git("commit", "-qam", "a line")
    assert "move them under [0.2.0]" in check()
    (tmp_path / "CHANGELOG.md").write_text(notes.format(""))
    git("commit", "-qam", "no line")
    git("tag", "v0.1.0")
    assert "has the tag v0.1.0, not v0.2.0" in check()
    git("tag", "-d", "v0.1.0")
    git("tag", "v0.2.0", "HEAD~1")
    assert "v0.2.0 is another commit" in check()
    git("tag", "-d", "v0.2.0")
    assert "archive of the sources" in check()  # goes on to the build
