"""The installed wheel beside a user's own files: `bert_reborn` and the commands."""

import configparser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import bert_reborn
from tests import flags_page, tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONFIGS = [*(ROOT / "configs").iterdir()]
FOLDERS = [path.parent.name for path in ROOT.glob("*/__init__.py")]
SCRIPTS = {path.stem for path in ROOT.glob("*.py")} - {"bert_reborn", "setup"}
LEFT_OUT = (".*", "build", "dist", "docs", "models", "output", "tests", "__pycache__")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of the checkout: a build leaves files in its source."""
    path = tmp_path_factory.mktemp("checkout") / "source"
    shutil.copytree(ROOT, path, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return path


@pytest.fixture(scope="module")
def archive(source, tmp_path_factory):
    """Path of the source archive, from which the wheel is built."""
    directory = tmp_path_factory.mktemp("archive")
    options = ["--quiet", "sdist", f"--dist-dir={directory}"]
    subprocess.run([sys.executable, "setup.py", *options], cwd=source, check=True)
    (path,) = directory.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    directory = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet"]
    options += [f"--wheel-dir={directory}", archive]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options], check=True)
    (path,) = directory.iterdir()
    return path


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


def test_every_command_is_an_entry_point(wheel):
    points = configparser.ConfigParser()
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        points.read_string(archive.read(path).decode())
    assert len(flags_page.COMMANDS) == 15
    assert dict(points["console_scripts"]) == {
        command: f"bert_reborn.cli.commands:{name}"
        for command, name in flags_page.COMMANDS.items()
    }


def test_archive_has_no_part_of_the_tests(archive):
    with tarfile.open(archive) as file:
        names = file.getnames()
    assert not [name for name in names if "/tests/" in name]
    assert any(name.endswith("configs/bert_base.json") for name in names)


@pytest.mark.slow
def test_editable_wheel_has_the_same_files(source, wheel, tmp_path):
    code = (
        f"from setuptools import build_meta as b; b.build_editable({str(tmp_path)!r})"
    )
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True)
    (path,) = tmp_path.iterdir()
    with zipfile.ZipFile(path) as editable, zipfile.ZipFile(wheel) as usual:
        assert {*editable.namelist()} == {*usual.namelist()}


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_beam_workers_need_only_the_wheel(run, tmp_path):
    pytest.importorskip("apache_beam")
    text = tmp_path / "text.txt"
    text.write_text("the film was great\nand the shop was bad\n\n" * 20)
    model = tiny.write_model(tmp_path / "model", num_hidden_layers=1)
    flags = [f"--input_file={text}", f"--vocab_file={model / 'vocab.txt'}"]
    flags += ["--max_seq_length=16", "--max_predictions_per_seq=3"]
    mode = "--direct_running_mode=multi_processing"  # unpickles our functions
    beam = ["--engine=beam", "--beam_option=--runner=DirectRunner"]
    made = {}
    for name, engine in {
        "local": ["--num_workers=1"],
        "beam": [*beam, f"--beam_option={mode}"],
    }.items():
        path = tmp_path / f"{name}.tfrecord"
        done = run("bert-create-data", *flags, *engine, f"--output_file={path}")
        assert done.returncode == 0, done.stderr
        made[name] = path.read_bytes()
    assert made["beam"] == made["local"]


@pytest.mark.slow
def test_beam_workers_of_shards_need_only_the_wheel(run, tmp_path):
    pytest.importorskip("apache_beam")
    (tmp_path / "texts.txt").write_text("the film was great\na shop\nawful sea\n" * 4)
    model = tiny.write_model(tmp_path / "model", num_hidden_layers=1)
    exported = run(
        "bert-pretrain",
        f"--pretrained={model}",
        "--do_export",
        "--max_seq_length=16",
        f"--output_dir={tmp_path / 'run'}",
    )
    assert exported.returncode == 0, exported.stderr
    beam = ["--engine=beam", "--beam_option=--runner=DirectRunner"]
    beam += ["--beam_option=--direct_running_mode=multi_processing"]
    commands = {
        "bert-features": [f"--pretrained={model}", "--layers=-1", "--pooling=mean"],
        "bert-predict": [f"--export_dir={tmp_path / 'run' / 'export'}"],
    }
    commands["bert-features"] += ["--max_seq_length=16"]
    commands["bert-predict"] += ["--signature=embed", "--input_format=lines"]
    for command, flags in commands.items():
        shards = {}
        for name, engine in {"local": [], "beam": beam}.items():
            output = tmp_path / command / f"{name}.jsonl"
            done = run(
                command,
                *flags,
                *engine,
                f"--input_file={tmp_path / 'texts.txt'}",
                f"--output_file={output}",
                "--lines_per_shard=5",
            )
            assert done.returncode == 0, done.stderr
            paths = sorted(output.parent.glob(f"{name}-*-of-00003.jsonl"))
            shards[name] = [path.read_bytes() for path in paths]
        assert shards["beam"] == shards["local"] and len(shards["beam"]) == 3
