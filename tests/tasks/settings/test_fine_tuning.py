"""Settings of fine-tuning: the splits of actions, grids, and how tables are cut."""

import tracemalloc

import pytest

from contract import remote_files
from tests import tiny
from tests.refusals import refused


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("--do_train", ["train"]),
        ("--do_train --evaluate_steps=5", ["train", "dev"]),
        ("--do_train --grid=learning_rate=1", ["train", "dev"]),
        ("--evaluate_steps=5", []),
        ("--do_eval --do_predict", ["dev", "test"]),
    ],
)
def test_splits_are_those_that_the_actions_need(arguments, wanted):
    assert tiny.settings_of("run_tagger", *arguments.split()).wanted_splits == wanted


def test_combinations_are_in_the_order_of_names_and_then_of_values():
    grid = "--grid= train_batch_size=16, 8; --learning_rate=1e-3,2e-3"
    settings = tiny.settings_of("run_squad", grid)
    assert settings.combinations() == [
        {"learning_rate": rate, "train_batch_size": size}
        for rate in (1e-3, 2e-3)
        for size in (16, 8)
    ]
    assert tiny.settings_of("run_squad").combinations() == []
    own = tiny.settings_of("run_squad", "--grid=adam_bias_correction=true,False")
    assert [*map(dict.popitem, own.combinations())] == [
        ("adam_bias_correction", True),
        ("adam_bias_correction", False),
    ]


def test_combinations_vary_nothing_that_is_not_read():
    read = "--grid=lora_rank=1,2;lora_alpha=4,8"
    assert len(tiny.settings_of("run_tagger", read).combinations()) == 4
    for grid in ("lora_alpha=4,8", "lora_rank=1,0;lora_alpha=4,8"):
        settings = tiny.settings_of("run_tagger", f"--grid={grid}")
        with refused(f"--grid={grid}: --lora_alpha=4.0 is read with --lora_rank; add"):
            settings.combinations()


def test_short_runs_have_points_more_often():
    plain = tiny.settings_of("run_classifier")
    assert [*map(plain.steps_between_logs, (3, 28, 399, 10_000))] == [1, 1, 19, 20]
    own = tiny.settings_of("run_classifier", "--log_steps=20")
    assert own.steps_between_logs(28) == 20


@pytest.mark.parametrize("script", ["run_classifier", "run_embedding", "run_seq2seq"])
def test_every_reader_of_tables_gets_delimiter_and_quote(script):
    arguments = "--delimiter=; --quote=none --has_header=false --encoding=cp1252"
    given = tiny.settings_of(script, *arguments.split()).layout()
    assert (given.delimiter, given.quote, given.has_header) == (";", "none", False)
    assert given.encoding == "cp1252"
    usual = tiny.settings_of(script).layout()
    assert (usual.delimiter, usual.quote, usual.has_header) == (None,) * 3
    assert usual.encoding == "utf-8"
    assert tiny.settings_of(script, "--has_header=true").layout().has_header is True


def trained_on(path):
    """Flags of a training on a table."""
    folder = path.parent
    files = f"--pretrained={folder} --output_dir={folder}/o --train_file={path}"
    return ["--do_train", *files.split()]


@pytest.fixture
def opened(monkeypatch):
    """The paths of files that are opened, in a list that grows."""
    paths, open_file = [], remote_files.open_file
    monkeypatch.setattr(
        remote_files, "open_file", lambda path: paths.append(path) or open_file(path)
    )
    return paths


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_table_is_opened_once_by_the_check_and_the_task(tmp_path, opened, separator):
    path = tmp_path / "t.csv"
    path.write_text(f"source{separator}label\n" + f"a b{separator}x\n" * 3000)
    files = trained_on(path)
    settings = tiny.settings_of(
        *("run_classifier", "--text_a_column=source", *files),
    )
    settings.check()
    source = settings.source()
    assert len(source.read("train").lines) == 3000 and opened == [str(path)]
    assert len(source.read("train").lines) == 3000 and len(opened) == 2
    opened.clear()
    settings = tiny.settings_of("run_seq2seq", "--target_column=label", *files)
    settings.check()
    # As for a network whose directory states how texts are written.
    settings = settings.with_values(num_beams=2)
    assert len([*settings.open_pairs("train").rows]) == 3000
    assert opened == [str(path)]


def test_the_check_reads_no_more_than_the_beginning(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\n" + f"{'a b ' * 25},x\n" * 200_000)  # 20 MB
    files = trained_on(path)
    settings = tiny.settings_of("run_classifier", *files)
    tracemalloc.start()
    settings.check()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8e6  # a block of 1 MiB, and its lines
