"""Tests of seq2seq_flags.py with the flags themselves, parsed from a command line."""

import pytest
from absl import flags

from cli import command_line, generation_flags, model_flags, seq2seq_flags


@pytest.fixture
def parse(monkeypatch):
    """A function of arguments that defines the flags of the module and reads them."""

    def of_arguments(*arguments):
        values = flags.FlagValues()
        for module in (seq2seq_flags, generation_flags, model_flags, command_line):
            monkeypatch.setattr(module, "FLAGS", values)
        for name in ("string", "integer", "bool", "enum"):
            define = getattr(flags, f"DEFINE_{name}")
            monkeypatch.setattr(flags, f"DEFINE_{name}", _into(define, values))
        monkeypatch.setattr(flags, "DEFINE", _into(flags.DEFINE, values))
        seq2seq_flags.define()
        monkeypatch.undo()
        for module in (seq2seq_flags, generation_flags, model_flags, command_line):
            monkeypatch.setattr(module, "FLAGS", values)
        values(["run_seq2seq", *arguments])
        return values

    return of_arguments


def _into(define, values):
    def defined(*arguments, **named):
        return define(*arguments, **named, flag_values=values)

    return defined


def test_defaults_read_the_usual_columns_and_take_the_likeliest(parse):
    parse("--train_file=a.tsv", "--dev_file=b.tsv")
    seq2seq_flags.check()
    assert seq2seq_flags.paths(["train", "dev"]) == {"train": "a.tsv", "dev": "b.tsv"}
    assert seq2seq_flags.layout() == {
        **{"file_format": "auto", "has_header": None, "source": None, "target": None}
    }
    assert seq2seq_flags.limits() == (128, 128)
    sampling = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
    assert seq2seq_flags.sampling() == sampling
    assert seq2seq_flags.beams() == {"num_beams": 1, "length_penalty": 1.0}
    assert model_flags.lengths() == {
        "max_source_length": 128,
        "max_target_length": 128,
    }


def test_flags_are_handed_on(parse):
    parse(
        *("--test_file=c.jsonl", "--file_format=jsonl", "--has_header=false"),
        *("--source_column=1", "--target_column=de", "--max_source_length=20"),
        *("--max_target_length=10", "--do_sample", "--temperature=0.5", "--top_k=3"),
        "--top_p=0.9",
    )
    seq2seq_flags.check()
    assert seq2seq_flags.layout() == {
        **{"file_format": "jsonl", "has_header": False, "source": "1", "target": "de"}
    }
    assert seq2seq_flags.limits() == (20, 10)
    sampling = {"temperature": 0.5, "top_k": 3, "top_p": 0.9}
    assert seq2seq_flags.sampling() == sampling
    parse("--num_beams=4", "--length_penalty=0.6")
    seq2seq_flags.check()
    assert seq2seq_flags.beams() == {"num_beams": 4, "length_penalty": 0.6}
    with pytest.raises(ValueError, match="test pairs are needed and --test_file is"):
        seq2seq_flags.paths(["test"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--source_column=a --target_column=a", "are both a; each needs a column"),
        ("--do_sample --num_beams=2", "--num_beams=2 compares several; leave one"),
        ("--do_sample --temperature=0", "draws nothing; leave --do_sample out"),
        ("--temperature=0.5", "--temperature=0.5 is for drawing tokens; add --do_s"),
        ("--top_k=5", "--top_k=5 is for drawing"),
        ("--top_p=0.5", "--top_p=0.5 is for drawing"),
        ("--do_sample --top_p=0", "--top_p=0.0 is not above 0"),
        ("--length_penalty=2", "--length_penalty=2.0 compares beams; set --num_beams"),
    ],
)
def test_contradictions_are_refused(parse, arguments, message):
    parse(*arguments.split())
    with pytest.raises(ValueError, match=message):
        seq2seq_flags.check()


@pytest.mark.parametrize(
    "argument",
    [
        *("--num_beams=0", "--max_source_length=2", "--max_target_length=1"),
        *("--top_k=-1", "--top_p=1.5", "--temperature=-1", "--length_penalty=nan"),
        *("--has_header=yes", "--file_format=xml"),
    ],
)
def test_values_out_of_bounds_are_refused(parse, argument):
    with pytest.raises(flags.IllegalFlagValueError):
        parse(argument)


def test_texts_and_beams_have_to_fit_the_network(parse):
    parse("--max_source_length=20", "--max_target_length=10", "--num_beams=4")
    seq2seq_flags.check_network("config.json", 20, 10, 4)
    for sizes, message in (
        ((19, 10, 4), r"--max_source_length=20 is more than the 19 positions of the e"),
        ((20, 9, 4), r"--max_target_length=10 is more than the 9 .* decoder \(config"),
        ((20, 10, 3), "--num_beams=4 is more than the 3 tokens of the vocabulary"),
    ):
        with pytest.raises(ValueError, match=message):
            seq2seq_flags.check_network("config.json", *sizes)
