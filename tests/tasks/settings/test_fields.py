"""Typed fields: what is given, types, bounds, paths, and commands that say the same."""

import copy
import dataclasses
import os
import pathlib
import pickle
import re
import shlex
import types
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest

from contract import errors, remote_files
from tasks.settings import fields
from tests import flags_page, other_values, tiny
from tests.refusals import refused


@dataclasses.dataclass(frozen=True, kw_only=True)
class Own(fields.Settings):
    """A field of each type."""

    program: ClassVar[str] = "run_own"

    rate: float = fields.training(
        0.5, "Rate.", least=0, most=1, changes=fields.WEIGHTS, varies=True
    )
    steps: int = fields.training(10, "Steps.", least=1, changes=fields.NOTHING)
    most: int | None = fields.text(None, "Most.", only_with={"shuffle": True})
    shuffle: bool = fields.data(True, "Shuffle.", changes=fields.WEIGHTS)
    kind: str = fields.data(
        "one",
        "Kind.",
        choices=["one", "two", "three"],
        only_with={"whole": False},
        changes=fields.ANSWERS,
    )
    whole: bool = fields.data(False, "Whole.", only_with={"kind": ("two", "three")})
    title: str | None = fields.output(None, "Title.", changes=fields.NOTHING)
    separator: str = fields.data(",", "Separator.", changes=fields.NOTHING)
    seeds: Sequence[str] = fields.training((), "Seeds.", changes=fields.NOTHING)
    stop: Sequence[str] = fields.text((), "Stop", repeats=True, changes=fields.NOTHING)
    parts: tuple[float, ...] = fields.records(
        (0.75, 0.25), "Shares.", changes=fields.NOTHING
    )
    input_file: str | None = fields.data(
        None, "Files.", path=True, changes=fields.NOTHING
    )
    output_dir: str | None = fields.output(
        None, "Results.", path=True, is_directory=True, changes=fields.NOTHING
    )


# --- What is given.


def test_given_are_the_names_that_were_passed():
    plain, same = Own(), Own(rate=0.5)
    assert (plain.given, same.given) == (frozenset(), {"rate"})
    assert plain == same and plain.values() == plain.defaults()
    others = plain.with_values(rate=0.25, title="a")
    assert (others.rate, others.title, others.given) == (0.25, "a", frozenset())
    assert plain.rate == 0.5 and others.defaults()["rate"] == 0.5
    again = same.with_values(steps=3)
    assert (again.steps, again.given) == (3, {"rate"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.rate = 0.1


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda own: pickle.loads(pickle.dumps(own))]
)
def test_copies_have_the_same_given(copied):
    """Workers of Beam get settings by pickle."""
    own = Own(rate=0.25, seeds=[1, 2]).with_values(steps=3)
    assert copied(own) == own and copied(own).given == {"rate", "seeds"}


def test_fields_are_in_the_order_of_their_headings():
    assert fields.in_order(Own)[:5] == (
        *("shuffle", "kind", "whole", "separator", "input_file"),
    )
    places = [fields.rows(Own)[n].rules.heading for n in fields.in_order(Own)]
    assert places == sorted(places, key=fields.HEADINGS.index)


# --- Types and bounds, from Python.


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("rate", 1, 1.0),
        ("rate", np.float32(0.25), 0.25),
        ("steps", np.int64(7), 7),
        ("most", None, None),
        ("title", 5, "5"),
        ("title", None, None),
        ("title", "~/a", "~/a"),  # no path
        ("seeds", [1, 2], ("1", "2")),
        ("seeds", "1,2", ("1", "2")),
        ("seeds", "", ()),
        ("seeds", (n for n in "ab"), ("a", "b")),
        ("parts", [1, 0], (1.0, 0.0)),
        ("parts", "0.5,0.5", (0.5, 0.5)),
        ("input_file", pathlib.Path("~/b"), os.path.expanduser("~/b")),
        ("input_file", ["a", "b"], "a,b"),
        ("output_dir", "out//", "out"),
        ("output_dir", "/", "/"),
    ],
)
def test_values_have_the_type_of_the_field(name, value, kept):
    actual = getattr(Own(**{name: value}), name)
    assert actual == kept and type(actual) is type(kept)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rate", "0.1", "rate='0.1' is no number"),
        ("rate", True, "rate=True is no number"),
        ("rate", None, "rate=None is no number"),
        ("rate", float("nan"), "--rate=nan is not a finite number; give one such as"),
        ("rate", -0.1, "--rate=-0.1 is below 0; give another number"),
        ("rate", 1.1, "--rate=1.1 is above 1; give another number"),
        ("steps", 1.5, "steps=1.5 is no whole number"),
        ("steps", 0, "--steps=0 is below 1; give another number"),
        ("rate", 10**400, "is beyond any number"),
        ("input_file", b"x", "input_file=b'x' is no text; give one"),
        ("seeds", ["a", None], "seeds=None is no text; give one"),
        ("steps", 2**63, f"--steps={2**63} is beyond 64 bits; give a smaller one"),
        ("shuffle", 1, "shuffle=1 is neither True nor False"),
        ("shuffle", "false", "shuffle='false' is neither True nor False"),
        ("kind", "four", "--kind=four is none of one, two, three"),
        ("kind", None, "--kind=None is none of one, two, three"),
        ("separator", None, "--separator=None is no text"),
        ("seeds", 5, "seeds: a int has no order; give a list"),
        ("seeds", {1, 2}, "seeds: a set has no order; give a list"),
        ("seeds", {"a": 1}, "seeds: a dict has no order; give a list"),
        ("seeds", None, "seeds: a NoneType has no order; give a list"),
        ("parts", [0.5, 0.4], "adds up to 0.9, not to 1; give shares of the whole"),
        ("parts", [1.0], "needs 2 numbers of 0 to 1, by comma, such as 0.75,0.25"),
        ("parts", [2, -1], "needs 2 numbers"),
        ("parts", ["few", 1], "needs 2 numbers"),
        ("parts", [float("nan"), 1], "needs 2 numbers"),
        ("parts", 5, "needs 2 numbers"),
    ],
)
def test_values_of_another_type_or_out_of_bounds_are_refused(name, value, message):
    with refused(message):
        Own(**{name: value})
    with refused(message):
        Own().with_values(**{name: value})


def test_names_that_are_no_field_are_refused_with_the_nearest():
    own = Own(rate=0.25)
    assert own.given == {"rate"} and own == Own(rate=0.25, steps=own.steps)
    with refused("rates is no setting of run_own; did you mean rate?"):
        Own(rates=0.25)
    with refused("xyz is no setting of run_own; see docs/flags.md"):
        Own(rate=0.25, xyz=1)


def test_values_of_numpy_are_those_of_python():
    own = Own(shuffle=np.bool_(False), rate=np.array(0.25), steps=np.int64(3))
    assert (own.shuffle, own.rate, own.steps) == (False, 0.25, 3)


def test_replaced_settings_are_given_what_differs_from_defaults():
    own = dataclasses.replace(Own(rate=0.25), steps=3)
    assert own.given == {"rate", "steps"} and own == Own(rate=0.25, steps=3)
    with refused("sted is no setting of run_own; did you mean"):
        own.with_values(sted=3)


def test_text_is_read_as_the_field_has_it():
    known = fields.rows(Own)
    for name, text, value in (
        ("rate", "2e-1", 0.2),
        ("steps", "12", 12),
        ("shuffle", "False", False),
        ("shuffle", "1", True),
        ("kind", "two", "two"),
    ):
        assert fields.parse(known[name], text) == value
    for name, text in (
        *(("rate", "x"), ("rate", "2"), ("rate", "nan"), ("steps", "1.5")),
        *(("shuffle", "maybe"), ("kind", "four"), ("steps", "0")),
    ):
        with pytest.raises(ValueError):
            fields.parse(known[name], text)


def test_numbers_of_a_sequence_are_finite():
    assert Own(seeds=["1", " 2"]).numbers("seeds", int) == [1, 2]
    for seeds, kind in (["1", "x"], int), (["1.5"], int), (["inf"], float):
        typed = ",".join(seeds)
        with refused(f"--seeds={typed} are not finite numbers ("):
            Own(seeds=seeds).numbers("seeds", kind)


# --- Fields that are read with others.


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, ""),
        ({"most": 3}, ""),
        ({"shuffle": False}, ""),
        (
            {"most": 3, "shuffle": False},
            "--most=3 is read with --shuffle; add that, or leave it out",
        ),
        # Even at the default: it was given.
        ({"most": None, "shuffle": False}, "--most=None is read with --shuffle; add"),
        ({"whole": True, "kind": "two"}, "--kind=two is not read with --whole; leave "),
        (
            {"whole": True},
            "--whole is read with --kind=two or three; add that, or leave it out",
        ),
        ({"whole": False}, "--nowhole is read with --kind=two or three; add that"),
        ({"kind": "one"}, ""),
    ],
)
def test_field_is_read_with_another_alone(values, message):
    own = Own(**values)
    if not message:
        own.check()
        return
    with refused(message):
        own.check()
    own_default = Own().with_values(**values)
    own_default.check()  # none of them is given


# --- What another value leads to.


def test_fields_that_change_weights_or_answers_are_told_apart():
    own = Own(rate=0.25, kind="two")
    assert own.that_change(fields.WEIGHTS) == {
        **{"shuffle": True, "whole": False, "rate": 0.25},
        "most": None,
    }
    assert own.that_change(fields.ANSWERS) == {
        **{"kind": "two", "whole": False, "most": None}
    }


# --- Commands.


def words_of(command, program):
    python, script, *words = shlex.split(command)
    assert (python, script) == ("python", f"{program}.py")
    return words


def test_command_gives_the_same_settings():
    own = Own(
        shuffle=False, title="a b", seeds=[1, 2], stop=["a,b", "c"], parts=[1, 0]
    )  # in the order of headings
    assert words_of(own.command(), "run_own") == [
        *("--noshuffle", "--stop=a,b", "--stop=c", "--parts=1.0,0.0"),
        *("--seeds=1,2", "--title=a b"),
    ]
    assert Own().with_values(rate=0.25).command() == "python run_own.py"


@pytest.mark.parametrize("program", flags_page.PROGRAMS)
def test_command_of_each_program_is_read_as_it_was_written(program):
    kind = tiny.settings_class(program)
    given = {n: other_values.other_value(row) for n, row in fields.rows(kind).items()}
    settings = kind(**given)
    assert all(given[n] != r.default for n, r in fields.rows(kind).items())
    read = tiny.settings_of(program, *words_of(settings.command(), program))
    assert read == settings and read.given == settings.given == given.keys()
    needed = {
        n: v
        for n, v in given.items()
        if fields.rows(kind)[n].default is fields.REQUIRED
    }
    assert kind(**needed).values().items() >= needed.items()


# --- Paths.


def needed(kind):
    """Flags that must be given."""
    known = fields.rows(kind).values()
    names = [row.name for row in known if row.default is fields.REQUIRED]
    return [f"--{name}={'google' if name == 'to' else 'a'}" for name in names]


def paths_of(program):
    known = fields.rows(tiny.settings_class(program))
    return [name for name, row in known.items() if row.rules.path]


@pytest.mark.parametrize("program", flags_page.PROGRAMS)
def test_names_of_files_and_directories_are_paths(program):
    """So that ~ and s3:// mean the same to all of them."""
    kind = tiny.settings_class(program)
    known = fields.rows(kind)
    texts = {n for n, row in known.items() if row.kind is str}
    named = {n for n in texts if re.search(r"_(file|dir)$", n)}
    assert named and named <= {*paths_of(program)} <= texts


@pytest.mark.parametrize("program", flags_page.PROGRAMS)
def test_home_of_a_user_is_spelled_out(program, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/ada")
    monkeypatch.chdir(tmp_path)
    kind = tiny.settings_class(program)

    def read(name, value):
        words = *needed(kind), f"--{name}={value}"
        return getattr(tiny.settings_of(program, *words), name)

    for name in paths_of(program):
        assert read(name, "~/a") == "/ada/a"
        assert read(name, "gs://b/[0-9]*, ~/a,c") == "gs://b/[0-9]*, /ada/a,c"
        for same in ("~", "a~/b", "/a/~b", "gs://b/~/c", "a:b", "A b://c"):
            assert read(name, same) == same
        assert (read(name, "a/") == "a") == fields.rows(kind)[name].rules.is_directory
    (tmp_path / "~").mkdir()
    (tmp_path / "~" / "a").touch()  # literally
    assert read(paths_of(program)[0], "~/a") == "~/a"


@pytest.mark.parametrize("program", flags_page.PROGRAMS)
def test_path_of_an_unknown_file_system_is_refused(program, monkeypatch):
    names = types.SimpleNamespace(get_registered_schemes=lambda: ["", "gs", "ram"])
    tensorflow = types.SimpleNamespace(io=types.SimpleNamespace(gfile=names))
    monkeypatch.setattr(remote_files, "tf", tensorflow)
    kind = tiny.settings_class(program)
    for name in paths_of(program):
        settings = tiny.settings_of(
            program, *needed(kind), f"--{name}=gs://b/a, ram://c"
        )
        settings.check_schemes()
        for value in ("s3://b/a", "gs://b/[0-9]*, s3://b/a"):
            settings = tiny.settings_of(program, *needed(kind), f"--{name}={value}")
            place = f"--{name}={value.split(',')[-1]}"
            with refused(
                place, "TensorFlow has no s3:// here, but gs://, ram://; give"
            ):
                settings.check_schemes()


def test_configs_of_the_project_are_found_from_everywhere(monkeypatch, tmp_path):
    kind = tiny.settings_class("run_classifier")
    monkeypatch.chdir(tmp_path)
    name = os.path.join("configs", "bert_tiny.json")
    packaged = kind(bert_config_file=name).bert_config_file
    assert os.path.samefile(packaged, tiny.ROOT / name)
    for other in ("configs/none.json", "a/configs/bert_tiny.json", "bert_tiny.json"):
        assert kind(bert_config_file=other).bert_config_file == other
    (tmp_path / "configs").mkdir()
    (tmp_path / name).touch()  # the user's own
    assert kind(bert_config_file=name).bert_config_file == name
    assert kind(vocab_file="configs/bert_tiny.json").vocab_file == name


@pytest.mark.parametrize("path", ["gs://bucket/a.tsv", "-", "README.md,R*.md", None])
def test_files_elsewhere_and_patterns_are_not_refused(monkeypatch, path):
    monkeypatch.chdir(tiny.ROOT)
    Own(input_file=path).check_files("input_file", "output_dir")


def test_files_that_are_not_there_are_refused_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b").touch()
    (tmp_path / "model.ckpt.index").touch()
    Own(input_file="a,b").check_files("input_file")
    Own(input_file="model.ckpt, *.index").check_files("input_file")
    with refused("--input_file=c: no such file; check the path"):
        Own(input_file="model.ckpt, c").check_files("input_file")
    with refused("--input_file=x*: no such file; name it"):
        Own(input_file="x*").check_files("input_file", remedy="name it")


def test_refusals_are_errors_of_input():
    """Which end a program in one line."""
    with pytest.raises(errors.InputError):
        Own(rate=2)
    with pytest.raises(errors.InputError):
        Own(a=1)
