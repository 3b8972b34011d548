"""examples/compare_networks.py: its commands, equal networks, and a tiny run."""

import pathlib
import re
import subprocess
import sys

import pytest

from examples import compare_networks
from loading import model_directory
from modeling import pretrainers
from modeling.networks.elmo import objective
from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture
def commands(tmp_path):
    squad = "--squad_flags=--train_file=a --predict_file=b --do_predict --doc_stride=64"
    given = "--output_dir=x", "--steps=100", f"{squad} --answer_aligner=words"
    settings = tiny.settings_of("examples.compare_networks", *given)
    learned = list(compare_networks.corpus_commands(settings, tmp_path))
    pretrain = [
        compare_networks.pretraining_command(settings, network, tmp_path)
        for network in compare_networks.NETWORKS
    ]
    tasks = [
        compare_networks.task_command(settings, network, task, tmp_path)
        for network in compare_networks.NETWORKS
        for task in compare_networks.SCORES
    ]
    return learned, pretrain, tasks


def parsed(command):
    script, *arguments = command
    assert all(argument.startswith("--") for argument in arguments)
    return tiny.settings_of(script.removesuffix(".py"), *arguments).values()


def test_scripts_take_all_commands_and_read_equally_many_tokens(commands):
    learned, pretrain, tasks = commands
    assert len(learned) == 4 and len(tasks) == 9
    outputs = [parsed(command)["output_file"] for command in learned]
    outputs += [parsed(command)["output_dir"] for command in tasks]
    assert len(set(outputs)) == 13
    bert, gpt, elmo = map(parsed, pretrain)
    assert bert["num_train_steps"] == gpt["num_train_steps"] == 100
    words = elmo["num_train_steps"] * elmo["train_batch_size"] * elmo["unroll_steps"]
    assert words == 100 * bert["train_batch_size"] * bert["max_seq_length"] == 102_400


def test_tasks_differ_in_nothing_but_what_defines_a_network(commands):
    bert, gpt = (
        parsed(command)
        for command in commands[2]
        if command[0] == "run_tagger.py" and "ELMo" not in command[-1]
    )
    differing = {name for name in bert if bert[name] != gpt[name]}
    expected = {"pretrained", "output_dir", "optimizer", "learning_rate_schedule"}
    assert differing == expected


@pytest.mark.parametrize(
    ("name", "make", "tables"),
    [
        ("bert", pretrainers.BertPretrainer, 5000 * 128),
        ("gpt", pretrainers.LanguageModel, 5000 * 128),
        ("elmo", objective.BidirectionalLM, 5000 * 65),
    ],
)
def test_networks_are_equal_beside_their_tables(name, make, tables):
    config = model_directory.read_config(
        str(ROOT / "configs" / f"{name}_compared.json")
    )
    model = make(config.with_vocab_size(5000) if name == "elmo" else config)
    model.build()
    shapes = [variable.value.shape for variable in model.trainable_variables]
    count = sum(shape.num_elements() for shape in shapes) - tables
    assert count == pytest.approx(451_720, rel=0.01)


@pytest.mark.slow
def test_comparison_runs_and_runs_again(tmp_path):
    command = [sys.executable, "-m", "examples.compare_networks", "--steps=8"]
    command += ["--num_train_epochs=0.2", "--seeds=1,2", f"--output_dir={tmp_path}/x"]
    tables = []
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        tables.append(done.stdout)
    assert tables[0] == tables[1]
    titles, *rows = (re.split(r" {2,}", line) for line in tables[0].splitlines())
    assert titles == ["", "classifier: eval_accuracy", "tagger: eval_f1"]
    assert [row[0] for row in rows] == ["BERT", "GPT", "ELMo"]
    cells = [cell for row in rows for cell in row[1:]]
    assert len(cells) == 6 and all(re.fullmatch(r"[\d.]+ ± [\d.e-]+", c) for c in cells)
