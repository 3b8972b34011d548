"""Costs of data: each row works, and its counts are true."""

import sys

import pytest
from absl import flags

from benchmarks import data

SIZES = {"no_blank_lines": 5000, "byte_pairs": 16_000, "long_line": 3_000_000}
COUNTS = {
    "gpt2_chinese": {"tokens"},
    "gpt2_word": {"tokens"},
    "no_blank_lines": {"MB read"},
    "long_line": {"lines"},
}


@pytest.fixture
def flag_values(shared_dir, monkeypatch):
    """Flags of the program; the rows of GPT-2 take a tiny vocabulary."""
    values = flags.FlagValues()
    monkeypatch.setattr(data, "FLAGS", values)
    vocab = str(shared_dir / "golden/gpt2/tiny_model/encoder.json")
    flags.DEFINE_string("vocab_file", vocab, "", flag_values=values)
    flags.DEFINE_list("rows", ["rouge_l"], "", flag_values=values)
    flags.DEFINE_integer("passes", 1, "", flag_values=values)
    flags.DEFINE_string("input_file", None, "", flag_values=values)
    values(sys.argv[:1])
    return values


@pytest.mark.parametrize("name", data.ROWS)
def test_every_row_is_measured(flag_values, name):
    figures = data.measure(name, SIZES.get(name, 50), 1)
    assert figures.pop("seconds") >= 0
    assert figures.keys() == COUNTS.get(name, set())
    if name == "no_blank_lines":  # read twice: its blocks are planned, then counted
        assert 0.004 < figures["MB read"] < 0.02


def test_growth_is_printed(flag_values, monkeypatch, capsys):
    costs = {100: {"seconds": 0.5, "MB": 0.0}, 400: {"seconds": 8.0, "MB": 0.0}}
    monkeypatch.setattr(data, "measure", lambda name, size, passes: costs[size])
    row = data.ROWS["rouge_l"]._replace(sizes=(100, 400))
    monkeypatch.setitem(data.ROWS, "rouge_l", row)
    data.main([])
    assert capsys.readouterr().out.splitlines() == [
        "rouge_l: 100 words: seconds 0.5, MB 0",
        "rouge_l: 400 words: seconds 8, MB 0",
        'rouge_l: growth {"seconds": 2.0}',
    ]
