"""Tests of cli/command_line.py: what every program says of its flags.

Programs run where importing TensorFlow or Keras fails, so none of them waits for it.
"""

import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import types
from xml.etree import ElementTree

import pytest
from absl import flags

from cli import command_line, model_flags
from tests import tiny

SCRIPTS = {path.name for path in tiny.ROOT.glob("*_*.py")} - {"bert_reborn.py"}
MODULES = ["compare_runs", "run_predictor", "run_search"]
PROGRAMS = [*sorted(SCRIPTS), *MODULES]
WIDTH = 60
HEAVY = ("keras", "tensorflow", "tensorflow_datasets", "tensorflow_text")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    stubs = tmp_path_factory.mktemp("stubs")
    for name in HEAVY:
        (stubs / f"{name}.py").write_text("raise AssertionError('imported')")
    environment = {**os.environ, "PYTHONPATH": str(stubs), "COLUMNS": str(WIDTH)}

    def start(program, *arguments):
        module = [] if program.endswith(".py") else ["-m"]
        return subprocess.Popen(
            [sys.executable, *module, program, *arguments],
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
    assert list(actual) == [title for title in command_line.HEADINGS if title in actual]
    command = example(helps[program])
    longest = max(map(len, helps[program].replace(command, "").splitlines()))
    assert WIDTH - 10 < longest <= WIDTH
    # Purpose and example come first.
    name = program if program.endswith(".py") else f"-m {program}"
    assert f"python {name} --" in command
    assert helps[program].index(command) < helps[program].index(":\n  --")
    used = set(re.findall(r"--(\w+)", command))
    assert used and used <= set(shown)
    documents = re.findall(r"docs/\w+\.md", helps[program])
    assert all((tiny.ROOT / page).exists() for page in documents)
    assert documents or program not in SCRIPTS


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
    assert "--verbosity" in run(program, "--helpfull").out


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


NO_FILE = "no such file; check the path"
TABLE = "sample_data/messages/train.tsv"
NETWORK = "--bert_config_file=README.md --output_dir=missing//"  # slashes are cut off
HUB = (
    "no such directory; give the directory of a release, or the id of a model on "
    "Hugging Face's hub"
)


# {program: {arguments: how the line begins}}
EARLY = {
    "run_classifier.py": {
        "": "At least one of `do_train`, `do_eval`, `do_predict` or `do_export` must",
        f"--do_export {NETWORK} --log_steps={10**20}": (
            f"--log_steps={10**20} is beyond 64 bits; give a smaller one"
        ),
        "--pretrained=gpt-2 --do_train --output_dir=missing": (
            f"--pretrained=gpt-2: {HUB} (owner/name)"
        ),
        f"--do_eval {NETWORK} --dev_file=no": "--dev_file=no: ",
        f"--do_eval {NETWORK} --task_name=MRPC --data_dir=x": "--data_dir=x: no such",
        f"--do_train {NETWORK} --train_file={TABLE} --text_a_column=Text": (
            f"{TABLE}: no column 'Text' (text_a); there is 'text' (capitals count)"
        ),
    },
    "run_tagger.py": {
        f"--do_train {NETWORK}": "the train sentences are needed and --train_file is"
    },
    "run_squad.py": {
        f"--do_train {NETWORK} --use_tpu --distribution_strategy=mirrored": (
            "--use_tpu and --distribution_strategy=mirrored contradict each other"
        ),
        "--pretrained=a/b/c --do_export --output_dir=missing": (
            f"--pretrained=a/b/c: {HUB} (owner/name)"
        ),
    },
    "run_seq2seq.py": {
        f"--do_train {NETWORK} --train_file={TABLE} --source_column=a": (
            f"{TABLE}: no column 'a' (source); its columns are ['text', 'label']"
        )
    },
    "run_pretraining.py": {
        f"--do_train {NETWORK} --use_tpu --tpu_name=far": (
            "--output_dir=missing is on this machine, where the TPU at --tpu_name=far "
        ),
        f"--do_train {NETWORK} --input_file=R*.md,x*": f"--input_file=x*: {NO_FILE}",
    },
    "run_generation.py": {"--pretrained=README.md --top_p=0": "--top_p=0.0 is not"},
    "extract_features.py": {
        "--input_file=README.md --output_file=x --beam_option=--runner=Nope": (
            "--beam_option=--runner=Nope is for --engine=beam; add it, or leave it out"
        ),
        "--input_file=README.md --output_file=missing/ --lines_per_shard=2": (
            "--output_file=missing/ is a directory; name the file in it, "
        ),
        "--pretrained=docs --input_file=x --output_file=y": "--input_file=x: no such",
    },
    "create_pretraining_data.py": {
        "--input_file=x --output_file=x --vocab_file=x --beam_option=--runner=Nope": (
            "--beam_option=--runner=Nope is for --engine=beam; "
        ),
        "--input_file=README.md --output_file=y --vocab_file=x": (
            f"--vocab_file=x: {NO_FILE}"
        ),
    },
    "build_vocab.py": {"--input_file=x --output_file=y": f"--input_file=x: {NO_FILE}"},
    "convert_checkpoint.py": {
        "--input=x --to=google --output_dir=y": (
            "--input=x: no such file; give a prefix such as "
        )
    },
    "run_predictor": {"--export_dir=x text": "--export_dir=x: no SavedModel there; "},
    "run_embedding.py": {
        f"--do_train {NETWORK} --train_file={TABLE} --query_prompt=q\udcff": (
            r"--query_prompt has '\udcff', which is not UTF-8, after 'q'; remove it"
        )
    },
    "run_search": {
        "--index_dir=x \udcff": r"an argument has '\udcff', which is not UTF-8",
        "text": "--index_dir is missing; name the directory of the index",
        "--index_dir=x --input_file=README.md": "--pretrained is missing; ",
        "--index_dir=x --pooling=cls --export_dir=y t": "--pooling=cls is not for an ",
        "--index_dir=x --quantization=int8 t": "--quantization is for a build; ",
        "--index_dir=x --passage_tokens=5 t": "--passage_tokens is for a build; set --",
        "--index_dir=x --pretrained=y --input_file=README.md --passage_stride=5": (
            "--passage_stride=5 is of --passage_tokens; set that"
        ),
        "--index_dir=x --add t": "--input_file is missing; --add takes the texts of it",
        "--index_dir=x --add --input_file=README.md --quantization=int8": (
            "--quantization is for a build; set --input_file without --add, or leave "
        ),
        "--index_dir=x --add --input_file=README.md --approximate": (
            "--approximate is for a build or for queries; leave it or --add out"
        ),
        "--index_dir=x --reranker=y --num_candidates=4 t": (
            "--num_candidates=4 is below --top_k=5; raise it, or lower --top_k"
        ),
        "--index_dir=x --num_candidates=5 t": "--num_candidates=5 is for --reranker; ",
        "--index_dir=x --reranker_label=5 t": "--reranker_label=5 is of --reranker; ",
        "--index_dir=x --queries_file=y": f"--queries_file=y: {NO_FILE}",
    },
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


@pytest.mark.parametrize("path", ["gs://bucket/a.tsv", "-", "README.md,R*.md"])
def test_files_elsewhere_and_patterns_are_not_refused(monkeypatch, path):
    values = {"train_file": path, "dev_file": None}
    line = {n: types.SimpleNamespace(value=value) for n, value in values.items()}
    monkeypatch.setattr(command_line, "FLAGS", line)
    monkeypatch.chdir(tiny.ROOT)
    command_line.check_files("train_file", "dev_file")


MAIN = """
import signal, sys, time
from cli import command_line
from contract import errors
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as it is without nohup
def main(_):
    with errors.explained():
        try:
            print("begun", flush=True)
            time.sleep(60)
        finally:
            print("unwound", flush=True)
command_line.parse(lambda: None, loads_tensorflow=False)
command_line.run(main, unwinds=len(sys.argv) > 1)
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
        ["run_classifier.py", "--do_train"],
        ["run_predictor.py", "--export_dir=x"],
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


def test_run_json_gets_the_flags_of_the_script_alone(monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["/x/run_it.py", "--nocheck_case", "--vocab_file=a b"]
    )
    before = set(flags.FLAGS)
    model_flags.define(max_seq_length=64)
    defined = set(flags.FLAGS) - before
    try:
        flags.FLAGS([*sys.argv, "--verbosity=0"])
        values = command_line.values()
        assert values.keys() == defined
        assert values["max_seq_length"] == 64 and values["check_case"] is False
        assert sorted(shlex.split(command_line.command())) == [
            "--nocheck_case",
            "--vocab_file=a b",
            "python",
            "run_it.py",
        ]
    finally:
        for name in defined:
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()


def test_programs_refuse_a_file_system_that_is_not_there(tmp_path):
    """TensorFlow, which lists those that are there, is a stub here."""
    (tmp_path / "keras.py").touch()
    (tmp_path / "tensorflow.py").write_text(
        "class io:\n class gfile:\n"
        "  get_registered_schemes = lambda: ['ram', 'file', '', 'gs']\n"
    )
    home = {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    for path, error in (
        ("R*.md", "--output_file=s3://a/b: TensorFlow has no s3:// here, but file://"),
        ("~/x", f"--input_file={tmp_path}/x: no such file"),
    ):
        done = subprocess.run(
            [
                *(sys.executable, "build_vocab.py"),
                *(f"--input_file={path}", "--output_file=s3://a/b"),
            ],
            cwd=tiny.ROOT,
            env={**os.environ, **home},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2 and f"error: {error}" in done.stderr
        assert done.stderr.count("\n") == 1 + ("loading" in done.stderr)


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
