"""Tests of cli/command_line.py: what every program prints of its flags.

Programs run where importing TensorFlow or Keras fails, so none of them waits for it.
What they refuse, in this process: tests/tasks/settings/test_refusals.py.
"""

import logging
import os
import re
import signal
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from absl import flags

from cli import command_line
from tasks.settings import fields
from tests import tiny

PROGRAMS = sorted(path.name for path in tiny.ROOT.glob("*_*.py"))
PROGRAMS.remove("bert_reborn.py")
WITHOUT_PAGE = {"compare_runs.py", "run_predictor.py", "run_search.py"}
WIDTH = 60
HEAVY = ("keras", "tensorflow", "tensorflow_datasets", "tensorflow_text")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    stubs = tmp_path_factory.mktemp("stubs")
    for name in HEAVY:
        (stubs / f"{name}.py").write_text("raise AssertionError('imported')")
    environment = {**os.environ, "PYTHONPATH": str(stubs), "COLUMNS": str(WIDTH)}

    def start(program, *arguments):
        return subprocess.Popen(
            [sys.executable, program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tiny.ROOT,
            env=environment,
        )

    return start


@pytest.fixture(scope="module")
def run(start):

    def run(program, *arguments):
        process = start(program, *arguments)
        out, err = process.communicate(timeout=100)
        return tiny.Done(process.returncode, out, err)

    return run


def ask_all(start, argument):
    processes = {program: start(program, argument) for program in PROGRAMS}
    texts = {}
    for program, process in processes.items():
        texts[program], err = process.communicate(timeout=100)
        assert (process.returncode, err) == (1, ""), program  # 1 is absl's own
    return texts


@pytest.fixture(scope="module")
def helps(start):
    return ask_all(start, "--help")


@pytest.fixture(scope="module")
def pages(start):
    return ask_all(start, "--helpxml")


def sections(text):
    """{heading: names of the flags below it}; text before the first one is left out."""
    actual = {}
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][\w ]*:", line):
            names = actual.setdefault(line[:-1], [])
        elif match := re.match(r"  --(?:\[no\])?(\w+)", line):
            names.append(match[1])
    return actual


def example(text):
    return re.search(r"^    python .*(?:\n +.*)*", text, re.M)[0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_has_every_flag_once_under_a_heading(helps, pages, program):
    tree = ElementTree.fromstring(pages[program])
    defined = {
        flag.findtext("name")
        for flag in tree.iter("flag")
        if not flag.findtext("file").startswith("absl.")
    }
    actual = sections(helps[program])
    shown = [name for names in actual.values() for name in names]
    assert sorted(shown) == sorted(defined)
    assert list(actual) == [title for title in fields.HEADINGS if title in actual]
    command = example(helps[program])
    longest = max(map(len, helps[program].replace(command, "").splitlines()))
    assert WIDTH - 10 < longest <= WIDTH
    # Purpose and example come first.
    assert f"python {program} --" in command
    assert helps[program].index(command) < helps[program].index(":\n  --")
    used = set(re.findall(r"--(\w+)", command))
    assert used and used <= set(shown)
    documents = re.findall(r"docs/\w+\.md", helps[program])
    assert all((tiny.ROOT / page).exists() for page in documents)
    assert documents or program in WITHOUT_PAGE


def test_help_has_choices_ranges_and_defaults(helps):
    text = " ".join(helps["run_squad.py"].split())
    for part in (
        "--answer_aligner: <original|words>: How to find the text of an answer",
        "--max_seq_length: Maximum number of tokens per sequence, including [CLS] and "
        "[SEP]; longer texts are truncated. (default: '384') (integer >= 4)",
        "--[no]do_train: Whether to run training. (default: 'false')",
    ):
        assert part in text


def test_other_spellings_of_help(helps, run):
    program = "build_vocab.py"
    for argument in ("-h", "-?", "--helpshort"):
        assert run(program, argument) == tiny.Done(1, helps[program], "")
    done = run(program, "--helpfull")
    shown = set(re.findall(r"^ +(?:-\S+,)?--(?:\[no\])?(\w+):", done.out, re.M))
    own = [name for names in sections(helps[program]).values() for name in names]
    assert {"verbosity", "helpfull", *own} <= shown
    assert (done.code, done.err) == (1, "")


FATAL, HINT = "FATAL Flags parsing error:", "Pass --help to see help on flags.\n"


@pytest.mark.parametrize(
    ("program", "argument", "printed"),
    [
        (
            "run_classifier.py",
            "--trainfile=x",
            f"{FATAL} Unknown command line flag 'trainfile'. Did you mean: train_file "
            f"?\n{HINT}",
        ),
        (
            "run_squad.py",
            "--max_seq_length=3",
            f"{FATAL} flag --max_seq_length=3: 3 is not integer >= 4\n{HINT}",
        ),
        (
            "run_pretraining.py",
            "--masked_lm_prob=nan",
            f"{FATAL} flag --masked_lm_prob=nan: nan is not a finite number; give one "
            f"such as 0.1\n{HINT}",
        ),
        (
            "build_vocab.py",
            "--vocab_size=9",
            f"{FATAL}\n"
            "  flag --input_file=None: Flag --input_file must have a value other than "
            "None.\n"
            "  flag --output_file=None: Flag --output_file must have a value other "
            f"than None.\n{HINT}",
        ),
    ],
)
def test_wrong_flag_ends_at_once(run, program, argument, printed):
    assert run(program, argument) == tiny.Done(1, "", printed)


NETWORK = "--bert_config_file=README.md --output_dir=missing//"  # slashes are cut off
# {program: {arguments: how the line begins}}
EARLY = {
    "run_classifier.py": {
        f"--do_eval {NETWORK} False": "'False' belongs to no flag; remove it (the",
        "": "At least one of `do_train`, `do_eval`, `do_predict` or `do_export` must",
        f"--do_export {NETWORK} --log_steps={10**20}": (
            f"--log_steps={10**20} is beyond 64 bits; give a smaller one"
        ),
        f"--do_eval {NETWORK} --dev_file=no": "--dev_file=no: no such file; check the",
    },
    "run_tagger.py": {
        f"--do_train {NETWORK}": "the train sentences are needed and --train_file is"
    },
    "run_squad.py": {
        f"--do_train {NETWORK} --use_tpu --distribution_strategy=mirrored": (
            "--use_tpu and --distribution_strategy=mirrored contradict each other"
        ),
    },
    "run_seq2seq.py": {
        f"--do_train {NETWORK} --train_file=sample_data/messages/train.tsv "
        "--source_column=a": (
            "sample_data/messages/train.tsv: no column 'a' (source); its columns are "
        )
    },
    "run_pretraining.py": {
        f"--do_train {NETWORK} --use_tpu --tpu_name=far": (
            "--output_dir=missing is on this machine, where the TPU at --tpu_name=far "
        ),
    },
    "run_generation.py": {"--pretrained=README.md --top_p=0": "--top_p=0.0 is not"},
    "extract_features.py": {
        "--pretrained=docs --input_file=x --output_file=y": "--input_file=x: no such",
    },
    "create_pretraining_data.py": {
        "--input_file=README.md --output_file=y --vocab_file=x": (
            "--vocab_file=x: no such file; check the path"
        ),
    },
    "build_vocab.py": {"--input_file=x --output_file=y": "--input_file=x: no such"},
    "convert_checkpoint.py": {
        "--input=x --to=google --output_dir=y": (
            "--input=x: no such file; give a prefix such as "
        )
    },
    "run_predictor.py": {
        "--export_dir=x text": "--export_dir=x: no SavedModel there; ",
        "--export_dir=docs --serve --port=1 --host=a.invalid": (
            "--host=a.invalid --port=1: cannot listen there ("
        ),
    },
    "run_embedding.py": {
        f"--do_train {NETWORK} --train_file=README.md --query_prompt=q\udcff": (
            r"--query_prompt has '\udcff', which is not UTF-8, after 'q'; remove it"
        )
    },
    "run_search.py": {
        "--index_dir=x \udcff": r"an argument has '\udcff', which is not UTF-8",
        "text": "--index_dir is missing; name the directory of the index",
    },
    "score_sentences.py": {
        "--pretrained=docs --input_file=": "--input_file is empty; name a file"
    },
    "compare_runs.py": {"docs": "1 directories given; give those of two runs"},
}


@pytest.mark.parametrize(
    ("program", "arguments", "printed"),
    [(program, *row) for program, rows in EARLY.items() for row in rows.items()],
)
def test_errors_that_need_no_tensorflow_come_before_it(
    run, program, arguments, printed
):
    done = run(program, *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {printed}") and done.err.count("\n") == 1


def test_every_program_refuses_something_early():
    assert {*EARLY} == {*PROGRAMS}


@pytest.mark.parametrize(
    ("module", "script"),
    [
        ("serving.predictor", "run_predictor.py"),
        ("serving.search", "run_search.py"),
        ("reports.compare", "compare_runs.py"),
    ],
)
def test_module_that_was_a_command_prints_the_new_one(run, module, script):
    done = run("-m", module, "--export_dir=x", "a text")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"the command is: python {script}\n"


MAIN = """
import signal, sys, time
from cli import command_line
from contract import errors
from tasks.settings.comparison import ComparisonSettings
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as it is without nohup
def main(settings, *_):
    try:
        print("begun", flush=True)
        time.sleep(60)
    finally:
        print("unwound", flush=True)
settings = command_line.parse(ComparisonSettings, "")
command_line.run(main, settings, unwinds=len(sys.argv) > 1)
"""


@pytest.mark.parametrize(
    ("number", "unwinds"),
    [(signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGTERM, False)],
)
def test_unfinished_files_go_at_a_signal(number, unwinds):
    command = [sys.executable, "-c", MAIN, *(["x"] if unwinds else [])]
    options = {"stdout": subprocess.PIPE, "text": True, "cwd": tiny.ROOT}
    with subprocess.Popen(command, **options) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        out = process.communicate(timeout=60)[0]
    ended = (out, process.returncode)
    assert ended == (("unwound\n", 128 + number) if unwinds else ("", -number))


@pytest.mark.parametrize(
    "command",
    [
        ["run_generation.py", "--pretrained=docs"],
        ["run_predictor.py", "--export_dir=docs"],
        ["-c", "import bert_reborn; bert_reborn.load"],
    ],
)
def test_another_backend_is_refused_at_once(command):
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tiny.ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    message = (
        "KERAS_BACKEND=jax: the networks run on TensorFlow; unset it, or set it to "
        "tensorflow, and start Python anew\n"
    )
    if command[0] == "-c":
        assert done.returncode == 1 and done.stderr.endswith(f"InputError: {message}")
    else:
        assert done.returncode == 2 and done.stderr == f"error: {message}"


def parsed(monkeypatch, kind, *arguments):
    monkeypatch.setattr(sys, "argv", ["/x/run_it.py", *arguments])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    return command_line.parse(kind, "About.")


def test_settings_are_what_was_typed(monkeypatch):
    kind = tiny.settings_class("convert_checkpoint")
    typed = "--to=google", "--output_dir=out/", "--nocheck_case", "--input", "gs://m"
    settings = parsed(monkeypatch, kind, *typed, "--vocab_file=gs://a b", "--head=auto")
    assert settings == kind(
        to="google",
        output_dir="out",
        check_case=False,
        input="gs://m",
        vocab_file="gs://a b",
    )
    assert settings.given == {
        *("to", "output_dir", "check_case", "input", "vocab_file", "head")
    }


def test_flags_of_another_program_in_the_process_are_not_touched(monkeypatch):
    """An application of absl that has flags of the same names, not parsed yet."""
    values = {name: flag.value for name, flag in flags.FLAGS._flags().items()}
    kind = tiny.settings_class("compare_runs")
    settings = parsed(monkeypatch, kind, "--output_file=a", "one", "two")
    assert settings == kind(output_file="a")
    assert "output_file" not in flags.FLAGS
    assert {name: flag.value for name, flag in flags.FLAGS._flags().items()} == values


@pytest.mark.parametrize("arguments", [["-"], ["--output_file=-"]])
def test_closed_standard_input_is_refused(monkeypatch, arguments, capsys):
    monkeypatch.setattr(command_line.environment, "open_closed_streams", lambda: None)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit, match="2"):
        parsed(monkeypatch, tiny.settings_class("compare_runs"), *arguments)
    line = "error: -: standard input is closed; name a file\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (
            "compare_runs.py --output_file=s3://a/b one two",
            "--output_file=s3://a/b: TensorFlow has no s3:// here, but file://, gs://",
        ),
        (
            "build_vocab.py --input_file=~/x --output_file=y",
            "--input_file={}/x: no suc",
        ),
    ],
)
def test_programs_refuse_a_file_system_or_a_file_that_is_not_there(
    tmp_path, command, error
):
    """TensorFlow, which lists file systems that are there, is a stub here."""
    (tmp_path / "keras.py").touch()
    (tmp_path / "tensorflow.py").write_text(
        "class io:\n class gfile:\n"
        "  get_registered_schemes = lambda: ['ram', 'file', '', 'gs']\n"
    )
    home = {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=tiny.ROOT,
        env={**os.environ, **home},
        capture_output=True,
        text=True,
    )
    *loading, line = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith(f"error: {error.format(tmp_path)}")
    assert loading in ([], ["loading TensorFlow ..."])


def test_current_folder_that_was_removed_is_said_at_once(tmp_path):
    """After a training, relative paths of its report could not be made."""
    gone = tmp_path / "gone"
    gone.mkdir()
    program = (
        "import os, runpy, sys; os.rmdir(os.getcwd()); sys.path.append(sys.argv.pop(1))"
    )
    program += "; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    done = subprocess.run(
        [
            *(sys.executable, "-c", program, tiny.ROOT, tiny.ROOT / "build_vocab.py"),
            *(f"--input_file={tiny.ROOT}/R*.md", f"--output_file={tmp_path}/v.txt"),
        ],
        cwd=gone,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    line = "the current folder was removed; change to one that is there, by cd"
    assert done.stderr == f"error: {line}\n"


def test_python_without_docstrings_is_refused():
    """It was a TypeError of tensorflow_text, and in workers a lack of memory."""
    program = "from contract import tensorflow_later as t; t.text.WordShape"
    done = subprocess.run(
        [sys.executable, "-OO", "-c", program],
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
    )
    line = "needs the docstrings that python -OO drops; unset PYTHONOPTIMIZE"
    assert line in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("more", [[], ["--verbosity=1"]], ids=["quiet", "verbose"])
def test_verbosity_prints_the_environment_before_tensorflow(run, more):
    done = run("build_vocab.py", "--input_file=R*.md", "--output_file=b", *more)
    # Importing it fails here, and the line comes first.
    first, *rest = done.err.splitlines()
    assert ("TF_CPU_ALLOCATOR_USE_BFC=" in first) == bool(more)
    assert first.startswith("environment: ") == bool(more)
    assert rest[-1].endswith("imported")


def test_new_traces_of_new_models_are_no_news(caplog):
    logger = logging.getLogger("tensorflow")
    level, flag = logger.level, flags.FLAGS["verbosity"]
    present, flag.present = flag.present, 0
    retraced = "5 out of the last 13 calls to <f> triggered tf.function retracing."
    try:
        command_line.quiet_libraries()
        logger.warning(retraced)
        logger.warning("a disk is full")
    finally:
        flag.present = present
        logger.setLevel(level)
    assert [record.getMessage() for record in caplog.records] == ["a disk is full"]
