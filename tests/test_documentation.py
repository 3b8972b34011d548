"""The documentation names only what exists, and its commands run.

A command runs as printed, with three exceptions: paths outside the checkout lead to
tables and a model of tests/, output goes elsewhere, and runs are short. Every day the
flags of each command are parsed and those of README.md run; with -m slow all commands
run.
"""

import functools
import pathlib
import re
import runpy
import shlex
import shutil

import pytest

from cli import command_line
from tasks import recipes
from tasks.settings import fields
from tests import (
    flags_page,
    tf_model_h5,
    tiny,
    tiny_family,
    tiny_gpt,
    tiny_questions,
)

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PAGE_NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]


def bash_commands(markdown):
    """The simple commands of the ```bash blocks, as lists of words."""
    commands = []
    for block in re.findall(r"^ *```bash\n(.*?)^ *```", markdown, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = []
            for token in lexer:
                if set(token) <= set(";&|()<>"):
                    commands.append(words)
                    words = []
                else:
                    words.append(token)
            commands.append(words)
    return [words for words in commands if words]


def our_program(words):
    """(script or module, its arguments) of a command that runs one of ours, or None."""
    for place, word in enumerate(words):
        if re.fullmatch(r"(.*/)?python[0-9.]*", word):
            after = words[place + 1 :]
            if after[:1] == ["-m"] and (ROOT / after[1].split(".")[0]).is_dir():
                return after[1], after[2:]
            if after and after[0].endswith(".py"):
                return after[0], after[1:]
    return None


def programs(markdown):
    return [pair for words in bash_commands(markdown) if (pair := our_program(words))]


def program_exists(name):
    path = name if name.endswith(".py") else name.replace(".", "/") + ".py"
    return (ROOT / path).is_file()


def missing_samples(markdown, root):
    named = re.findall(r"(?<![\w/])sample_data(?:/[\w.*-]*[\w*])*", markdown)
    return sorted({name for name in named if not any(root.glob(name))})


def anchors(markdown):
    """The anchors that the headings of a page get."""
    prose = re.sub(r"^ *```.*?^ *```", "", markdown, flags=re.M | re.S)
    titles = re.findall(r"^#+ +(.*?) *#*$", prose, re.M)
    plain = [re.sub(r"[^\w\- ]", "", title.lower()) for title in titles]
    return {title.replace(" ", "-") for title in plain}


def broken_links(markdown, page):
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", markdown, flags=re.M | re.S)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)", prose):
        if re.match(r"[a-z]+:", link):  # another site; looking needs a network
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (
            anchor
            and target.suffix == ".md"
            and anchor not in anchors(target.read_text("utf-8"))
        ):
            broken.append(link)
    return broken


@pytest.mark.parametrize("name", PAGE_NAMES)
def test_page_names_only_what_exists(name):
    markdown = (ROOT / name).read_text("utf-8")
    assert broken_links(markdown, ROOT / name) == []
    assert missing_samples(markdown, ROOT) == []
    assert [n for n, _ in programs(markdown) if not program_exists(n)] == []


def test_commands_and_mistakes_are_found(tmp_path):
    markdown = """
```bash
export A=1  # a comment
TF_CONFIG='{"a": 1}' .venv/bin/python run_a.py \\
  --x=1 "two words" && python3 -m tests.b --noy | head
```

```
python not_bash.py
```
"""
    expected = [("run_a.py", ["--x=1", "two words"]), ("tests.b", ["--noy"])]
    assert programs(markdown) == expected
    assert missing_samples("--x=sample_data/b.tsv.", tmp_path) == ["sample_data/b.tsv"]
    page = tmp_path / "a.md"
    page.write_text("# One: `two`-three\n\n```bash\n# no heading\n```\n")
    good = "[a](a.md) [b](#one-two-three) [c](https://a.b/c) `[d](e)`"
    assert broken_links(good, page) == []
    wrong = "[a](b.md) [b](a.md#no-heading) [c](#four)"
    assert broken_links(wrong, page) == ["b.md", "a.md#no-heading", "#four"]


# Appended to the flags of a script: the last value of a flag counts.
SHORT = {
    "run_generation.py": "--max_new_tokens=4 --keep_end",
    "build_vocab.py": "--num_workers=1",
    "convert_checkpoint.py": "",
    "extract_features.py": "--max_seq_length=16",
    "run_tagger.py": "--num_train_epochs=1 --train_batch_size=6 --max_seq_length=16",
    "run_embedding.py": (
        "--num_train_epochs=1 --train_batch_size=12 --eval_batch_size=64 "
        "--predict_batch_size=64 --max_seq_length=16 --matryoshka_dims=32,8"
    ),
    "run_seq2seq.py": (
        "--num_train_epochs=0.1 --max_target_length=4 --eval_batch_size=200 "
        "--predict_batch_size=200"
    ),
    "create_pretraining_data.py": (
        "--max_seq_length=16 --max_predictions_per_seq=3 --dupe_factor=1 "
        "--num_workers=1"
    ),
    "run_classifier.py": (
        "--num_train_epochs=1 --train_batch_size=6 --eval_batch_size=64 "
        "--predict_batch_size=64 --max_seq_length=16"
    ),
    "run_squad.py": (
        "--num_train_epochs=1 --train_batch_size=4 --max_seq_length=24 "
        "--max_query_length=4"
    ),
    "run_pretraining.py": (
        "--num_train_steps=2 --num_warmup_steps=1 --train_batch_size=4 "
        "--gradient_accumulation_steps=2 --eval_batch_size=4 --max_eval_steps=1 "
        "--max_seq_length=16 --max_predictions_per_seq=3"
    ),
}
# What a recipe decides, and what objectives refuse: where nothing is masked, or no
# record is there.
OF_MASKED_LM = ("--max_predictions_per_seq", "--dupe_factor")
REFUSED_BY = {
    "--recipe=": ("--num_train_epochs", "--train_batch_size"),
    "--objective=left_to_right": OF_MASKED_LM,
    "--objective=bidirectional_lm": (*OF_MASKED_LM, "--max_seq_length"),
    "--objective=denoising": OF_MASKED_LM,
}
AS_PRINTED = ("run_predictor.py", "run_search.py", "score_sentences.py")
ORIGINAL_TASKS = ROOT / "tests" / "data_pipeline" / "original_tasks"
XNLI_ROWS = [("a film", "it was", "entailment"), ("the sea", "a shop", "neutral")]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "uncased_tiny"
    return tiny.write_model(
        path,
        tiny.LETTERS,
        num_hidden_layers=4,
        max_position_embeddings=128,
        hidden_act="relu",
    )


@pytest.fixture(scope="module")
def gpt2_dir(tmp_path_factory):
    return tiny_gpt.write_model(tmp_path_factory.mktemp("models") / "gpt2")


def write_published_tables(directory):
    for name in ("CoLA", "MNLI", "MRPC"):
        shutil.copytree(ORIGINAL_TASKS / name.lower(), directory / name)
    (directory / "STS-B").mkdir()
    header = ("index", "sentence1", "sentence2", "score")
    for split in ("train", "dev", "test"):
        rows = [(i, a, b, i % 3) for i, (a, b, _) in enumerate(XNLI_ROWS * 4)]
        rows = rows if split != "test" else [row[:3] for row in rows]
        header = header if split != "test" else header[:3]
        tiny.write_tsv(directory / "STS-B" / f"{split}.tsv", header, rows)
    (directory / "sst2").mkdir()
    rows = [("a film", 1), ("the sea", 0), ("a shop", 1)] * 4
    for name in ("train_6001", "dev"):
        tiny.write_tsv(directory / "sst2" / f"{name}.tsv", None, rows)
    (directory / "multinli").mkdir()
    rows = [(a, b, label) for a, b, label in XNLI_ROWS * 4]
    header = ("premise", "hypo", "label")
    tiny.write_tsv(directory / "multinli" / "multinli.train.zh.tsv", header, rows)
    rows = [("zh", label, *"____", a, b) for a, b, label in XNLI_ROWS]
    header = ("language", "gold_label", *"____", "sentence1", "sentence2")
    tiny.write_tsv(directory / "xnli.dev.tsv", header, rows)


@pytest.fixture(scope="module")
def tf_model_dir(tmp_path_factory):
    """A directory that TFDistilBertModel of transformers 4 has written."""
    directory = tmp_path_factory.mktemp("models")
    path = directory / "distilbert"
    tiny_family.write_model(path, "distilbert", pieces=tiny.LETTERS)
    tf_model_h5.replace_safetensors(path)
    return path


@pytest.fixture
def environment(model_dir, gpt2_dir, tf_model_dir, tmp_path):
    write_published_tables(tmp_path / "tables")
    (tmp_path / "tmp").mkdir()  # as /tmp
    (tmp_path / "tmp" / "input.txt").write_text("the sea ||| a film\n", "utf-8")
    for name in ("train", "dev"):
        path = tmp_path / "questions" / f"{name}-v1.1.json"
        tiny_questions.version_1(path, 8)
    return {
        "$BERT_BASE_DIR": str(model_dir),
        "$GLUE_DIR": str(tmp_path / "tables"),
        "$XNLI_DIR": str(tmp_path / "tables"),
        "$SQUAD_DIR": str(tmp_path / "questions"),
        "$SST2_DIR": str(tmp_path / "tables" / "sst2"),
        "$GPT2_DIR": str(gpt2_dir),
        "$TF_MODEL_DIR": str(tf_model_dir),
        # The run before in the same page, which trains what is then asked.
        "$TRAINED_CLASSIFIER": str(tmp_path / "tmp" / "mrpc_output"),
    }


def relocated(argument, environment, model_dir, directory):
    """An argument with its places moved and its variables filled in."""
    places = r"--\w+_(?:dir|file)=|--pretrained=|--teacher=|--reranker="
    places += "|--init_checkpoint=|--input="
    written = rf"^({places})/?(tmp|output)/"
    argument = re.sub(written, rf"\1{directory}/\2/", argument)
    argument = argument.replace("models/minilm", str(model_dir))
    argument = argument.replace("configs/bert_tiny", f"{model_dir}/bert_config")
    argument = argument.replace("./sample_text.txt", "sample_data/corpus/*.txt")
    argument = argument.replace("--seeds=1,2,3", "--seeds=1,2")
    for name, value in environment.items():
        argument = argument.replace(name, value)
    assert "$" not in argument, f"{argument}: the test knows no such variable"
    return argument


def run_program(name, arguments):
    program = name.removesuffix(".py")
    if name in AS_PRINTED:
        return tiny.run_program(program, *arguments)
    short = SHORT[name].split()
    for given, refused in REFUSED_BY.items():
        if any(argument.startswith(given) for argument in arguments):
            short = [flag for flag in short if not flag.startswith(refused)]
    return tiny.run_script(program, *arguments, *short)


@functools.cache
def runnable(page):
    """The programs that a page runs and that are meant to be typed as they are."""
    names = {*SHORT, *AS_PRINTED}
    commands = programs((ROOT / page).read_text("utf-8"))
    return [
        (name, arguments)
        for name, arguments in commands
        if name in names and not needs_more_machines(arguments)
    ]


def needs_more_machines(arguments):
    """Whether a command wants a cluster, a TPU, or a process of its own.

    tests/serving/test_predictor.py serves.
    """
    runners = [word for word in arguments if word.startswith("--beam_option=--runner=")]
    if any("DirectRunner" not in word for word in runners):
        return True
    return any(
        word in ("--use_tpu=True", "--serve")
        or word.startswith("--virtual_cpus")
        or "gs://" in word
        for word in arguments
    )


ALL = {page: runnable(page) for page in PAGE_NAMES if runnable(page)}
del ALL["docs/tutorial.md"]  # tests/test_tutorial.py runs it in earnest
# Their Python follows their commands; docs/python.md has tests/test_python_page.py.
WITH_PYTHON = ("README.md", "docs/text_vectors.md", "docs/migration.md")
WITH_PYTHON += ("README.zh.md", "docs/zh/tutorial.md")


def run_python(markdown, model_dir, directory):
    """Runs the Python blocks of a page one after another."""
    names: dict = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", markdown, re.M | re.S):
        code = block.replace('"models/minilm', f'"{model_dir}')
        code = code.replace('"output/', f'"{directory}/output/')
        exec(compile(code, "page", "exec"), names)


@pytest.mark.parametrize(
    "page", [p for p in PAGE_NAMES if programs((ROOT / p).read_text("utf-8"))]
)
def test_commands_of_page_parse(page):
    for name, words in programs((ROOT / page).read_text("utf-8")):
        # A variable of the shell may be a number or a name.
        argv = [name, *(re.sub(r"\$\w+", "1", word) for word in words)]
        positional = [word for word in argv if not word.startswith("-")]
        values = command_line.define(tiny.settings_class(name.removesuffix(".py")))
        assert values(argv) == positional, shlex.join(words)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page == "README.md" else pytest.mark.slow)
        for page in ALL
    ],
)
def test_commands_of_page_run(page, environment, model_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    ways = tuple(way._replace(steps=2, passes=0) for way in recipes.WAYS)
    monkeypatch.setattr(recipes, "WAYS", ways)
    for name, words in ALL[page]:
        arguments = [
            relocated(word, environment, model_dir, tmp_path) for word in words
        ]
        done = run_program(name, arguments)
        assert done.code == 0, f"{name} {shlex.join(words)}: {done.err[-2000:]}"
        assert done.out
    if page in WITH_PYTHON:
        run_python((ROOT / page).read_text("utf-8"), model_dir, tmp_path)


@pytest.mark.parametrize(
    ("before", "script"),
    [
        ("serving/predictor.py", "run_predictor.py"),
        ("serving/search.py", "run_search.py"),
        ("reports/compare.py", "compare_runs.py"),
    ],
)
def test_programs_that_were_in_packages_name_their_scripts(before, script):
    with pytest.raises(SystemExit, match=rf"^the command is: python {script}$"):
        runpy.run_path(str(ROOT / before), run_name="__main__")
    assert (ROOT / script).is_file()


def test_flags_page_is_that_of_the_code():
    written = flags_page.PAGE.read_text("utf-8")
    assert written == flags_page.text(), "run: python -m tests.flags_page"


def test_flags_page_has_every_program():
    sources = [
        path
        for folder in (ROOT, *(path.parent for path in ROOT.glob("*/__init__.py")))
        for path in folder.glob("*.py" if folder == ROOT else "**/*.py")
        if folder.name not in ("cli", "tests")
    ]
    parsing = [p for p in sources if "command_line.parse(" in p.read_text("utf-8")]
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts) for p in parsing}
    # Others print their flags with --help.
    ours = {name for name in names if not name.startswith(("benchmarks", "examples"))}
    assert ours == {*flags_page.PROGRAMS}
    assert {*flags_page.COMMANDS.values()} <= names


@pytest.mark.parametrize("program", flags_page.PROGRAMS)
def test_flags_page_has_every_flag(program):
    """A flag without a heading is not in --help, from which the page is made."""
    page = flags_page.PAGE.read_text("utf-8")
    shown = re.findall(r"^\* `--(\w+)` .*(?:\n    .*)*\[(.*)\]$", page, re.M)
    entries = {name for name, where in shown if program in flags_page.expand(where)}
    assert entries == {*fields.rows(tiny.settings_class(program))} != set()


def test_original_commands_are_printed_word_for_word():
    """One a line, as google-research/bert prints them in README.md, multilingual.md."""
    pages = [ROOT / "docs" / f"{name}.md" for name in ("migration", "squad")]
    printed = [pair for page in pages for pair in programs(page.read_text("utf-8"))]
    lines = (ROOT / "tests" / "original_commands.txt").read_text("utf-8").splitlines()
    assert len(lines) == 10
    for script, *arguments in map(str.split, lines):
        assert (script, arguments) in printed
