"""Costs of preparing data: each row works, and what it counts is true."""

import sys

import pytest
from absl import flags

from benchmarks import data_costs

SIZES = {"no_blank_lines": 5000, "byte_pairs": 16_000, "long_line": 3_000_000}


@pytest.fixture
def flag_values(shared_dir, monkeypatch):
    """Flags of the program; the rows of GPT-2 take a tiny vocabulary."""
    values = flags.FlagValues()
    monkeypatch.setattr(flags, "FLAGS", values)
    vocab = str(shared_dir / "golden/gpt2/tiny_model/encoder.json")
    flags.DEFINE_string("vocab_file", vocab, "", flag_values=values)
    flags.DEFINE_list("rows", ["rouge_l"], "", flag_values=values)
    flags.DEFINE_integer("passes", 1, "", flag_values=values)
    values(sys.argv[:1])
    return values


@pytest.mark.parametrize("name", data_costs.ROWS)
def test_every_row_is_measured(flag_values, name):
    found = data_costs.measure(name, SIZES.get(name, 50), 1)
    assert found.pop("seconds") >= 0
    wanted = {
        "gpt2_chinese": {"tokens"},
        "gpt2_word": {"tokens"},
        "no_blank_lines": {"MB read", "MB sent"},
        "many_files": {"MB read", "MB sent"},
        "long_line": {"lines"},
        "sets_of_labels": {"MB held"},
    }
    assert found.keys() == wanted.get(name, set())
    if name == "many_files":  # of 5,000 bytes, each read once
        assert found["MB read"] == pytest.approx(0.25, rel=0.01)


def test_growth_is_printed(flag_values, monkeypatch, capsys):
    costs = {100: {"seconds": 0.5, "MB": 0.0}, 400: {"seconds": 8.0, "MB": 0.0}}
    monkeypatch.setattr(data_costs, "measure", lambda name, size, passes: costs[size])
    row = data_costs.ROWS["rouge_l"]._replace(sizes=(100, 400))
    monkeypatch.setitem(data_costs.ROWS, "rouge_l", row)
    data_costs.main([])
    assert capsys.readouterr().out.splitlines() == [
        "rouge_l: 100 words: seconds 0.5, MB 0",
        "rouge_l: 400 words: seconds 8, MB 0",
        'rouge_l: growth {"seconds": 2.0}',
    ]
