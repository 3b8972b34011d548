"""Settings of sources and targets: lengths, beams, draws, and those of a directory."""

import dataclasses
import types

import pytest

from tests import tiny
from tests.refusals import refused

PAIR = types.SimpleNamespace(
    encoder=types.SimpleNamespace(max_position_embeddings=20),
    decoder=types.SimpleNamespace(max_position_embeddings=10),
)
USUAL = {
    **{"num_beams": 1, "length_penalty": 1.0, "early_stopping": "never"},
    **{"no_repeat_ngram_size": 0, "min_length": 0, "max_new_tokens": 128},
}


def read(*arguments):
    return tiny.settings_of("run_seq2seq", *arguments)


def test_pairs_lengths_and_draws_are_those_of_the_settings():
    settings = read("--train_file=a", "--dev_file=b", "--do_train", "--do_eval")
    paths = settings.paths(settings.wanted_splits, "pairs")
    assert paths == {"train": "a", "dev": "b"}
    assert settings.draws() == {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    assert settings.writing() == USUAL
    line = "--file_format=jsonl --has_header=false --source_column=1 --target_column=de"
    line += " --max_source_length=20 --max_target_length=10 --do_sample"
    draws = "--temperature=0.5 --top_k=3 --top_p=0.9"
    settings = read(*line.split(), *draws.split())
    columns = settings.layout()
    assert (columns.file_format, columns.has_header) == ("jsonl", False)
    assert (columns.delimiter, columns.quote) == (None, None)
    assert (columns.source, columns.target) == ("1", "de")
    assert settings.limits() == (20, 10)
    assert settings.draws() == {"temperature": 0.5, "top_k": 3, "top_p": 0.9}
    test = read("--do_predict")
    with refused("the test pairs are needed and --test_file is not set; set it"):
        test.paths(test.wanted_splits, "pairs")


@pytest.mark.parametrize(
    ("source", "target", "more", "message"),
    [
        (20, 10, "--num_beams=4", None),
        (21, 10, "", "--max_source_length=21 is more than the 20 positions of the enc"),
        (20, 11, "", "--max_target_length=11 is more than the 10 positions of the dec"),
        (9, 9, "--num_beams=5", "--num_beams=5 is more than the 4 tokens of the vocab"),
        (
            *(9, 9, "--length_penalty=2"),
            "--length_penalty=2.0 compares beams; set --num_beams",
        ),
        (
            *(9, 9, "--early_stopping=true"),
            "--early_stopping=true compares beams; set --num_beams",
        ),
        (9, 9, "--num_beams=2 --early_stopping=true --length_penalty=2", None),
        (
            *(9, 9, "--min_target_length=10"),
            "--min_target_length=10 is more than --max_target_length=9; lower it",
        ),
    ],
)
def test_lengths_and_beams_fit_the_network(source, target, more, message):
    lengths = f"--max_source_length={source} --max_target_length={target} {more}"
    settings = read(*lengths.split())
    if message is None:
        settings.check_network("c.json", PAIR, 4)
        return
    with refused(message):
        settings.check_network("c.json", PAIR, 4)


@dataclasses.dataclass
class Generation:
    generation: dict


FOUR_BEAMS = {
    **{"num_beams": 4, "early_stopping": True, "length_penalty": 2.0},
    **{"no_repeat_ngram_size": 3, "min_length": 5, "max_new_tokens": 20},
    "eos_token_id": 3,
}


@pytest.mark.parametrize(
    ("stated", "line", "wanted"),
    [
        ({}, "", None),
        ({"early_stopping": False}, "", None),  # means nothing without beams
        ({}, "--max_target_length=9", {"max_new_tokens": 9}),
        (FOUR_BEAMS, "", FOUR_BEAMS),
        (FOUR_BEAMS, "--do_train", {**FOUR_BEAMS, "max_new_tokens": 128}),
        (
            FOUR_BEAMS,
            "--do_sample",
            {"no_repeat_ngram_size": 3, "min_length": 5, "max_new_tokens": 20},
        ),
        (
            FOUR_BEAMS,
            "--num_beams=1 --min_target_length=0",
            {"no_repeat_ngram_size": 3, "max_new_tokens": 20},
        ),
        (
            FOUR_BEAMS,
            "--length_penalty=1 --early_stopping=false --no_repeat_ngram_size=0",
            {
                **{"num_beams": 4, "early_stopping": False},
                **{"min_length": 5, "max_new_tokens": 20},
            },
        ),
        ({"early_stopping": False}, "--num_beams=2", {"num_beams": 2}),
        ({}, "--num_beams=2", {"num_beams": 2}),
    ],
)
def test_settings_of_a_directory_are_defaults(stated, line, wanted, capsys):
    settings = read(*line.split())
    followed, config = settings.following(Generation(stated))
    assert followed.given == settings.given
    if wanted is None:
        assert config.generation == {} and followed == settings
        assert capsys.readouterr().out == ""
        return
    wanted = {**USUAL, **wanted}
    if "num_beams=2" in line:  # the library's default, where the directory is its own
        wanted["early_stopping"] = stated.get("early_stopping", "never")
    wanted.pop("eos_token_id", None)
    assert config.generation == followed.writing() == wanted
    printed = capsys.readouterr().out.splitlines()
    changed = {n for n, v in settings.values().items() if v != followed.values()[n]}
    assert {text.split(":")[0] for text in printed} == changed
    assert all(
        text.endswith(", as the directory of the model has it") for text in printed
    )
