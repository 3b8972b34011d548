"""Command lines of a comparison, and networks of one size."""

import pytest
from absl import flags

from experiments import (
    commands,
    compare,
    comparison,
    preparation,
    shapes,
    systems,
    tasks,
)
from modeling import pretrainers
from modeling.configs import config as config_lib
from modeling.elmo import objective
from tests import tiny

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(995))]


@pytest.fixture(scope="module")
def bert():
    return config_lib.BertConfig.from_json_file(compare.DEFAULT_CONFIG)


@pytest.fixture
def lines(tmp_path, bert):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("a text\n")
    corpus = preparation.Corpus(
        str(tmp_path / "corpus"),
        f"{tmp_path}/*.txt",
        f"{tmp_path}/b.txt",
        vocab_size=1000,
        max_seq_length=128,
    )
    settings = commands.Settings(
        directory=str(tmp_path),
        data_dir="data",
        bert=bert,
        systems=[],
        tasks=[],
        seeds=(1, 2, 3),
        steps=80,
        num_train_epochs=1.5,
        vocab_size=1000,
        train_batch_size=16,
        max_seq_length=128,
        learning_rate=1e-3,
        task_learning_rate=5e-4,
        feature_learning_rate=2e-3,
        layers=True,
        curves=True,
        jobs=1,
        threads=1,
    )
    configs = shapes.equal_sized(bert, VOCAB, 900)
    paths = shapes.write(configs, str(tmp_path / "configs"))
    return commands.Commands(settings, corpus, paths)


def parsed(stage):
    script, *arguments = stage.command
    with tiny.flags_of(script.removesuffix(".py")) as names:
        assert flags.FLAGS([script, *arguments]) == [script]
        return {name: flags.FLAGS[name].value for name in names}


def test_scripts_take_all_command_lines(lines):
    stages = [
        *lines.corpus.stages([*preparation.CORPORA, preparation.TEXTS]),
        *(
            lines.pretraining(n, comparison.TRIAL_STEPS)
            for n in systems.NETWORKS.values()
        ),
        lines.encoder_of_pair(),
        *(
            lines.task(system, task)
            for system in (*systems.SYSTEMS.values(), *systems.layer_systems(4))
            for task in tasks.TASKS.values()
        ),
    ]
    for stage in stages:
        assert parsed(stage)
    assert len({stage.directory for stage in stages}) == len(stages)


def test_runs_differ_in_nothing_but_their_system(lines):
    first, second = (
        parsed(lines.task(systems.SYSTEMS[name], tasks.TASKS["wnut17"]))
        for name in ("bert", "left_to_right_bilstm")
    )
    differing = {name for name in first if first[name] != second[name]}
    expected = {"pretrained", "output_dir", "head", "bilstm_layers", "bilstm_units"}
    assert differing == expected
    masked, plain = (
        parsed(lines.pretraining(systems.NETWORKS[name], 80))
        for name in ("no_nsp", "left_to_right")
    )
    differing = {name for name in masked if masked[name] != plain[name]}
    expected = {"objective", "bert_config_file", "output_dir"}
    assert differing == {*expected, "max_predictions_per_seq"}
    assert masked["max_predictions_per_seq"] == 19
    assert masked["save_checkpoints_steps"] == 20


@pytest.mark.parametrize(
    ("shape", "make", "more"),
    [
        ("bert", pretrainers.BertPretrainer, 2 * 128 + 2),  # the second sentence
        ("gpt", pretrainers.LanguageModel, 0),
        ("elmo", objective.BidirectionalLM, 0),
        ("encoder_decoder", pretrainers.HEADS["seq2seq"], 0),
    ],
)
def test_weights_are_those_of_the_built_network(bert, shape, make, more):
    config = shapes.equal_sized(bert, VOCAB, 900)[shape]
    model = make(config)
    model.build()
    variables = model.trainable_variables
    built = sum(variable.value.shape.num_elements() for variable in variables)
    counted = shapes.num_weights(config) + shapes.table_weights(config) + more
    assert counted == built


def test_networks_read_as_many_tokens_as_the_first():
    tokens = {"a": 1000.0, "b": 2000.0, "c": 1e9}
    assert comparison.equal_steps(1000, tokens) == {"a": 1000, "b": 496, "c": 8}
