"""Files of a network: those of a directory, and settings that override them."""

import pytest

from loading import model_directory
from tasks import networks
from tests import tiny
from tests.refusals import refused


@pytest.fixture
def located(monkeypatch):

    def call(lowers=None):
        place = model_directory.ModelFiles(
            "dir/c.json", "dir/vocab.txt", "dir/ckpt", lowers
        )
        monkeypatch.setattr(model_directory, "locate", {"dir": place}.__getitem__)

    call()
    return call


@pytest.mark.parametrize(
    ("arguments", "config_file", "vocab_file", "weights"),
    [
        ("--pretrained=dir", "dir/c.json", "dir/vocab.txt", "dir/ckpt"),
        (
            "--pretrained=dir --vocab_file=v.txt --init_checkpoint=w.ckpt",
            "dir/c.json",
            "v.txt",
            "w.ckpt",
        ),
    ],
)
def test_pretrained_stands_for_three_settings_that_override_it(
    located, arguments, config_file, vocab_file, weights
):
    settings = tiny.settings_of("run_generation", *arguments.split())
    expected = model_directory.ModelFiles(config_file, vocab_file, weights, True)
    assert networks.find_files(settings) == expected


def test_config_alone_is_enough_for_random_weights():
    settings = tiny.settings_of("run_squad", "--bert_config_file=c.json")
    expected = model_directory.ModelFiles("c.json", "", "", True, allows_missing=False)
    assert networks.find_files(settings) == expected
    with refused("--bert_config_file is missing; set it, or set --pretrained"):
        networks.find_files(tiny.settings_of("run_squad"))
    generation = tiny.settings_of("run_generation", "--bert_config_file=c.json")
    with refused("--init_checkpoint is missing; set it, or set --pretrained"):
        networks.find_files(generation)


def test_how_words_are_found_is_handed_on(located):
    arguments = "--pretrained=dir", "--split_words=punctuation"
    files = networks.find_files(tiny.settings_of("run_squad", *arguments))
    assert files.split_words == "punctuation" and files.allows_missing is False
    arguments = *arguments, "--allow_missing_weights", "--nocheck_case"
    files = networks.find_files(tiny.settings_of("run_squad", *arguments))
    assert files.allows_missing is True
    assert (files.check_case, files.check_tokenizer) == (False, True)


@pytest.mark.parametrize(
    ("lowers", "flag", "expected"),
    [
        (False, "", False),  # the directory knows
        (False, "--do_lower_case=true", True),
        (True, "--do_lower_case=false", False),
        (None, "", True),
    ],
)
def test_directory_decides_on_lower_case_unless_a_setting_does(
    located, lowers, flag, expected
):
    located(lowers)
    settings = tiny.settings_of("run_squad", "--pretrained=dir", *flag.split())
    assert networks.find_files(settings).do_lower_case is expected
    assert model_directory.locate("dir").do_lower_case is lowers
