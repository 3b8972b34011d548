"""The installed wheel beside a user's own files: `bert_reborn` and the commands."""

import ast
import configparser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import bert_reborn
from tests import flags_page, tiny

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONFIGS = [*(ROOT / "configs").iterdir()]
FOLDERS = [path.parent.name for path in ROOT.glob("*/__init__.py")]
SCRIPTS = {path.stem for path in ROOT.glob("*.py")} - {"bert_reborn", "setup"}
LEFT_OUT = (
    ".git",
    ".venv",
    ".coverage*",
    ".*_cache",
    ".hypothesis",
    "build",
    "dist",
    "models",
    "output",
)
LEFT_OUT += ("*.egg-info", "__pycache__")


def build(source, kind, directory):
    """Path of what the build backend writes to an empty directory."""
    function = (
        "prepare_metadata_for_build_wheel" if kind == "metadata" else f"build_{kind}"
    )
    code = f"from setuptools import build_meta as b; b.{function}({str(directory)!r})"
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
    return next(path for path in directory.iterdir() if path.suffix != ".egg-info")


def files(root):
    """Those that no build writes, relative to root."""
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    built = re.compile(r"PKG-INFO|setup\.cfg|build/|bert_reborn\.egg-info/")
    return {name for name in names if not built.match(name)}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The files of the checkout: a build leaves files in its source."""
    copy = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns(*LEFT_OUT)
    return shutil.copytree(ROOT, copy, ignore=ignored, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def source(copy, tmp_path_factory):
    """The unpacked source archive."""
    directory = tmp_path_factory.mktemp("source")
    archive = build(copy, "sdist", tmp_path_factory.mktemp("archive"))
    shutil.unpack_archive(archive, directory, filter="data")
    return directory / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory):
    """Runs a command of the wheel, or Python, beside modules of the same names.

    A package `bert` is installed, too, as by bert-tensorflow.
    """
    installed = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--quiet", f"--target={installed}"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, wheel], check=True
    )
    (installed / "bert").mkdir()
    (installed / "bert" / "__init__.py").write_text("is_theirs = True")
    work = tmp_path_factory.mktemp("work")
    for name in [*FOLDERS, *SCRIPTS]:
        (work / f"{name}.py").write_text(f"raise SystemExit('{name}.py of a user')")

    def run(program, *arguments, library=installed):
        path = sys.executable if program == "python" else installed / "bin" / program
        environment = {**os.environ, "PYTHONPATH": str(library)}
        return subprocess.run(
            [path, *arguments],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


def test_wheel_has_one_package_and_rewritten_imports(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        sources = [archive.read(n).decode() for n in names if n.endswith(".py")]
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"bert_reborn"}
    own_names = "|".join([*FOLDERS, *SCRIPTS])
    own_import = re.compile(rf"^\s*(from|import) ({own_names})\b", re.MULTILINE)
    assert not [match for text in sources for match in own_import.findall(text)]
    expected = {f"bert_reborn/{path.relative_to(ROOT)}" for path in CONFIGS}
    expected |= {"bert_reborn/py.typed", "bert_reborn/run_squad.py"}
    expected |= {"bert_reborn/reports/pages/templates/base.html.jinja"}
    assert len(CONFIGS) > 10 and expected <= {*names}


def test_every_command_is_a_function_of_the_wheel(wheel):
    points, missing = configparser.ConfigParser(), []
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        points.read_string(archive.read(path).decode())
        commands = dict(points["console_scripts"])
        for command, place in commands.items():
            module, function = place.split(":")
            source = archive.read(f"{module.replace('.', '/')}.py")
            defined = [getattr(node, "name", "") for node in ast.parse(source).body]
            missing += [] if function in defined else [command]
    assert commands.keys() == flags_page.COMMANDS.keys() and len(commands) == 16
    assert missing == []


def test_editable_wheel_has_the_same_files(source, wheel, tmp_path):
    names = []
    for path in (wheel, build(source, "editable", tmp_path)):
        with zipfile.ZipFile(path) as archive:
            names.append({*archive.namelist()})
    assert names[0] == names[1]


def test_source_archive_has_every_file(copy, source):
    written = files(source)
    assert written == files(copy)
    assert {"tests/conftest.py", "Makefile", "docs/flags.md", ".ci/run"} < written


def test_links_lead_to_the_repository_where_one_is_named(copy, tmp_path):
    link, anchor, picture = "(docs/b.md#c)", "(#licence)", 'src="docs/a.png"'
    readme, project = copy / "README.md", copy / "pyproject.toml"
    lines = f"[a]{anchor} <img {picture}> [b](https://a.example/docs/b.md) [c]{link}\n"
    lines += "![d](docs/d.png)\n"
    readme.write_text(readme.read_text("utf-8") + lines)
    texts = []
    for name in ("without", "with"):
        if name == "with":
            address = '\n[project.urls]\nRepository = "https://a.example/bert/"\n'
            project.write_text(project.read_text("utf-8") + address)
        (tmp_path / name).mkdir()
        info = build(copy, "metadata", tmp_path / name)
        texts.append((info / "METADATA").read_text("utf-8"))
    tree = f"v{bert_reborn.__version__}/docs/"
    assert link in texts[0] and picture in texts[0] and "a.example/bert" not in texts[0]
    assert "](docs/" not in texts[1] and picture not in texts[1]
    assert f"(https://a.example/bert/blob/{tree}b.md#c)" in texts[1]
    assert f"(https://a.example/bert/raw/{tree}d.png)" in texts[1]
    assert f'src="https://a.example/bert/raw/{tree}a.png"' in texts[1]
    for text in texts:
        assert anchor in text and "(https://a.example/docs/b.md)" in text


def test_commands_begin_without_tensorflow(run):
    shown = run("bert-classify", "--help")
    assert "python -m bert_reborn.run_classifier --pretrained" in shown.stdout
    code = "import sys, bert_reborn as b; print(b.__version__, 'keras' in sys.modules)"
    started = run("python", "-c", code)
    assert started.stdout.split() == [bert_reborn.__version__, "False"]


def test_modules_of_a_user_and_bert_tensorflow_are_apart(run):
    code = (
        "import bert, bert_reborn; print(bert_reborn.load.__module__, bert.is_theirs)"
    )
    apart = run("python", "-c", code)
    assert apart.stdout.split() == ["bert_reborn.cli.library", "True"], apart.stderr
    beside = run("python", "-c", code.replace("bert, ", ""), library=ROOT)
    assert beside.returncode == 1 and "cli.py of a user" in beside.stderr


def test_a_model_is_trained_exported_and_asked(run, tmp_path):
    model = tiny.write_model(tmp_path / "model", max_position_embeddings=128)
    rows = tiny.write_tsv(tmp_path / "rows.tsv", ("text", "label"), tiny.rows(48))
    flags = [f"--pretrained={model}", "--do_train", "--do_eval", "--do_export"]
    flags += [f"--{split}_file={rows}" for split in ("train", "dev")]
    output = str(tmp_path / "out")
    flags += ["--max_seq_length=16", "--train_batch_size=8", "--num_train_epochs=1"]
    done = run("bert-classify", *flags, f"--output_dir={output}")
    assert done.returncode == 0, done.stderr
    assert "eval_accuracy" in (tmp_path / "out" / "eval_results.txt").read_text()
    asked = run("bert-predict", f"--export_dir={output}/export", "a film")
    code = (
        f"import bert_reborn as bert; print(bert.load({output!r}).predict(['a film']))"
    )
    answer = run("python", "-c", code)
    for label in ("bad", "fine", "good"):
        assert label in asked.stdout and label in answer.stdout


def test_configs_of_the_wheel_are_read_by_their_name(run, tmp_path):
    text, config = tmp_path / "text.txt", tmp_path / "bert_config.json"
    text.write_text("the film was great and the shop was bad\n" * 20)
    flags = [f"--input_file={text}", f"--output_file={tmp_path / 'vocab.txt'}"]
    flags += ["--base_config_file=configs/bert_tiny.json", "--vocab_size=200"]
    done = run("bert-vocab", *flags, f"--output_config_file={config}")
    assert done.returncode == 0, done.stderr
    written = json.loads(config.read_text())
    ours = json.loads((ROOT / "configs" / "bert_tiny.json").read_text())
    assert written == {**ours, "vocab_size": written["vocab_size"]}


def test_beam_workers_need_only_the_wheel(run, tmp_path):
    pytest.importorskip("apache_beam")
    model = tiny.write_model(tmp_path / "model", num_hidden_layers=1)
    text, length = tmp_path / "texts.txt", "--max_seq_length=16"
    text.write_text("the film was great\na shop\n\nawful sea\n" * 4)
    flags = ["--do_export", length, f"--output_dir={tmp_path / 'run'}"]
    exported = run("bert-pretrain", f"--pretrained={model}", *flags)
    assert exported.returncode == 0, exported.stderr
    records = [f"--vocab_file={model / 'vocab.txt'}", "--max_predictions_per_seq=3"]
    vectors = [f"--pretrained={model}", "--layers=-1", "--pooling=mean"]
    answers = [f"--export_dir={tmp_path / 'run' / 'export'}", "--signature=embed"]
    commands = {
        "bert-create-data": [*records, length],
        "bert-features": [*vectors, length, "--lines_per_shard=5"],
        "bert-predict": [*answers, "--input_format=lines", "--lines_per_shard=5"],
    }
    beam = ["--engine=beam", "--beam_option=--runner=DirectRunner"]
    beam += ["--beam_option=--direct_running_mode=multi_processing"]  # unpickles ours
    for command, flags in commands.items():
        written = {}
        for name, engine in {"local": [], "beam": beam}.items():
            output = tmp_path / command / name / "made.jsonl"
            output.parent.mkdir(parents=True)
            places = [f"--input_file={text}", f"--output_file={output}"]
            done = run(command, *flags, *engine, *places)
            assert done.returncode == 0, done.stderr
            paths = sorted(output.parent.glob("made*.jsonl"))
            written[name] = [path.read_bytes() for path in paths]
        assert written["beam"] == written["local"] and written["beam"]


def test_printed_commands_are_of_the_wheel(wheel):
    code = "from bert_reborn.contract import programs as p; print(p.command({!r}))"
    names = zipfile.ZipFile(wheel).namelist()
    for program in ("run_classifier", "run_predictor", "convert_checkpoint"):
        done = subprocess.run(
            [sys.executable, "-c", code.format(program)],
            env={**os.environ, "PYTHONPATH": str(wheel)},
            capture_output=True,
            text=True,
            cwd=wheel.parent,
        )
        module = f"bert_reborn.{program}"
        assert done.stdout == f"python -m {module}\n", done.stderr
        assert f"{module.replace('.', '/')}.py" in names


NOTEBOOK = """
import nbclient, nbformat
notebook = nbformat.read("NAME", as_version=4)
folder = {"metadata": {"path": "FOLDER"}}
nbclient.NotebookClient(notebook, timeout=600, resources=folder).execute()
print(notebook.cells[-1].outputs[-1]["data"]["text/plain"])
"""


def test_notebook_runs_with_the_wheel(run, minilm_dir, tmp_path):
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    code = NOTEBOOK.replace("NAME", str(ROOT / "notebooks" / "fine_tune.ipynb"))
    done = run("python", "-c", code.replace("FOLDER", str(tmp_path)))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "['delivery', 'billing', 'praise']"
