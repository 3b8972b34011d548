"""The installed wheel, outside the checkout: `bert`, `bert_reborn` and the commands."""

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

from tests import flags_page, tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONFIGS = [*(ROOT / "configs").iterdir()]
LEFT_OUT = (".*", "build", "dist", "docs", "models", "output", "tests", "__pycache__")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Path of the wheel, built from a copy: a build leaves files in its source."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*LEFT_OUT))
    options = ["--no-deps", "--no-build-isolation", "--quiet"]
    options += [f"--wheel-dir={directory}"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True)
    (path,) = directory.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory):
    """Runs a command of the wheel, or Python, in an empty directory."""
    installed = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--quiet", f"--target={installed}"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, wheel], check=True
    )
    work = tmp_path_factory.mktemp("work")
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def run(program, *arguments):
        path = sys.executable if program == "python" else installed / "bin" / program
        return subprocess.run(
            [path, *arguments],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


def test_wheel_has_two_packages_and_rewritten_imports(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        sources = [archive.read(n).decode() for n in names if n.endswith(".py")]
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"bert", "bert_reborn"}
    folders = [path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()]
    any_folder = "|".join(folders)
    own_import = re.compile(rf"^\s*(from|import) ({any_folder})\b", re.MULTILINE)
    assert not [match for text in sources for match in own_import.findall(text)]
    expected = {f"bert_reborn/{path.relative_to(ROOT)}" for path in CONFIGS}
    expected |= {"bert/py.typed", "bert_reborn/py.typed", "bert_reborn/run_squad.py"}
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


@pytest.mark.slow
def test_help_and_version(run):
    shown = run("bert-classify", "--help")
    assert "python -m bert_reborn.run_classifier --pretrained" in shown.stdout
    code = "import sys, bert; print(bert.__version__, 'modeling' in sys.modules)"
    assert run("python", "-c", code).stdout.split() == ["0.2.0", "False"]


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
    code = f"import bert; print(bert.load({output!r}).predict(['a film']))"
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


def test_printed_commands_are_of_the_wheel(wheel):
    code = "from bert_reborn.contract import programs as p; print(p.command({!r}))"
    names = zipfile.ZipFile(wheel).namelist()
    for program in ("run_classifier", "serving.predictor", "convert_checkpoint"):
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
