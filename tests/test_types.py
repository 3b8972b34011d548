"""What mypy knows of bert_reborn, in a script of a user."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest

import bert_reborn as bert

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Each comment is the beginning of what mypy writes on its line; it writes nothing else.
SCRIPT = """
import bert_reborn as bert

def show(model: bert.classifier, served: bert.Predictor) -> None:
    model.predict(["a"])
    served.predict(["a"])

settings = bert.ClassifierSettings(learning_rate=3e-5, num_train_epochs=2)
made = bert.classifier("models/minilm", max_seq_length=64)
show(made.fit(["a"], ["b"], settings=settings), bert.Predictor("a"))
show(made, bert.SearchIndex.open("a"))  # error: Argument 2 to "show"
length: int = bert.load("models/minilm").max_seq_length
text: str = bert.load("models/minilm").max_seq_length  # error: Incompatible types in
bert.BertConfig.from_dict({})
bert.tagger("a").fit([], settings=bert.TaggerSettings(seed=3))
bert.tagger("a").fit([], settings=settings)  # error: Argument "settings" to "fit"
bert.ClassifierSettings(learning_rat=3e-5)  # error: Unexpected keyword argument
bert.ClassifierSettings(learning_rate="fast")  # error: Argument "learning_rate" to
settings.learning_rate = 1e-4  # error: Property "learning_rate"
bert.SquadSettings(doc_stride=64, version_2_with_negative=True)
bert.EmbeddingSettings(write_report="no")  # error: Argument "write_report" to
bert.load("models/minilm", lables=["a"])  # error: Unexpected keyword argument "lables"
bert.not_there  # error: Module has no attribute "not_there"
bert.functools  # error: Module has no attribute "functools"
"""


def checked(directory, script):
    """(line, text) of what mypy writes of a script, beside this checkout."""
    (directory / "user.py").write_text(script)
    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    options += ["--no-error-summary", "--cache-dir=cache", "user.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options],
        cwd=directory,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    lines = re.findall(r"^user\.py:(\d+): (.*)$", done.stdout, re.M)
    assert len(lines) == len(done.stdout.splitlines())
    return [(int(number), text) for number, text in lines]


@pytest.mark.slow
def test_right_lines_pass_and_wrong_ones_are_named(tmp_path):
    names = [name for name in dir(bert) if name != "keras"]
    revealed = "".join(f"reveal_type(bert.{name})\n" for name in names)
    written = checked(tmp_path, SCRIPT + revealed)
    lines = SCRIPT.splitlines()
    wanted = {n: t.split("  # ")[1] for n, t in enumerate(lines, 1) if "  # " in t}
    # Beside an error may stand where the function is that it names.
    of_script = [(n, t) for n, t in written if n <= len(lines) and "note" not in t[:4]]
    assert [number for number, _ in of_script] == [*wanted]
    for number, text in of_script:
        assert text.startswith(wanted[number])
    types = [text for number, text in written if number > len(lines)]
    assert len(types) == len(names) > 20
    assert not [text for text in types if text == 'note: Revealed type is "Any"']


def test_names_for_mypy_are_those_of_the_library():
    """What the slow test reads: imports by name, and no __getattr__."""
    tree = ast.parse((ROOT / "bert_reborn.py").read_text("utf-8"))
    assert "__getattr__" not in {getattr(node, "name", "") for node in tree.body}
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    named = [alias.name for each in block.body for alias in each.names]
    assert sorted(named) == sorted(dir(bert)) == sorted(bert.__all__)
    assert all(hasattr(bert, name) for name in named)
    with pytest.raises(AttributeError, match="has no attribute 'functools'"):
        bert.functools  # noqa: B018
