r"""From text to a small encoder that is scored on grammar, as docs/speedrun.md has it.

    python -m benchmarks.speedrun --input_file='text/*.txt' --num_train_steps=1500 \
        --blimp_file=blimp.jsonl --zorro_file='zorro/*.txt' --output_dir=output/speedrun

Each stage is a command that the screen has. A stage that was killed goes on with the
same command, and the processor time of all its pieces counts. Prints the row of the
table of records.
"""

import ctypes
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

from benchmarks import report
from cli import command_line
from contract import atomic_files, errors
from data_pipeline.tables import file_patterns, text_rows
from tasks.settings import fields

_HELD_OUT = 200  # of so many sentences, one is not trained on
_SECONDS = 5.0  # between looks at the processor time, of which a kill loses the last
_TIMES = "times.json"
_SET_PARENT_DEATH_SIGNAL = 1  # of Linux' prctl


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpeedrunSettings(fields.Settings):
    """Texts, recipe and pairs."""

    program: ClassVar[str] = "benchmarks.speedrun"

    input_file: str = fields.data(
        fields.REQUIRED, "Files or globs of text, one sentence a line.", path=True
    )
    blimp_file: str | None = fields.data(None, "Files or globs of BLiMP.", path=True)
    zorro_file: str | None = fields.data(None, "Files or globs of Zorro.", path=True)
    recipe: str = fields.training(
        "configs/speedrun.flags", "Flags of run_pretraining.py, one a line.", path=True
    )
    num_train_steps: int = fields.training(1500, "Number of steps.", least=1)
    vocab_size: int = fields.model(8192, "Entries of the vocabulary.", least=1)
    config_file: str = fields.model(
        "configs/modernbert_speedrun.json", "Shape of the network.", path=True
    )
    output_dir: str = fields.output("output/speedrun", "Directory of all.", path=True)

    def check(self) -> None:
        """Refuses a file that is not there."""
        super().check()
        self.check_files("recipe", "config_file")
        if "," in self.output_dir:
            raise errors.InputError(
                f"--output_dir={self.output_dir} has a comma, which separates files of "
                "the stages; choose another"
            )


def stages(settings: SpeedrunSettings) -> dict[str, list[str]]:
    """{stage: its command}, in their order."""
    here = settings.output_dir
    vocab, config = f"{here}/vocab.txt", f"{here}/bert_config.json"
    records = ["create_pretraining_data.py", f"--vocab_file={vocab}"]
    records += ["--masking=none", "--sentence_task=none", "--max_seq_length=64"]
    records += ["--short_seq_prob=0"]
    score = "score_sentences.py", f"--pretrained={here}/run"
    named = {
        "vocabulary": [
            "build_vocab.py",
            f"--input_file={here}/train.txt",
            f"--vocab_size={settings.vocab_size}",
            "--num_unused_tokens=0",
            f"--output_file={vocab}",
            f"--base_config_file={settings.config_file}",
            f"--output_config_file={config}",
        ],
        "records": [
            *records,
            f"--input_file={here}/train.txt",
            f"--output_file={here}/train.tfrecord",
        ],
        "held out": [
            *records,
            f"--input_file={here}/held_out.txt",
            f"--output_file={here}/held_out.tfrecord",
        ],
        "training": [
            "run_pretraining.py",
            f"--flagfile={settings.recipe}",
            f"--num_train_steps={settings.num_train_steps}",
            f"--bert_config_file={config}",
            f"--vocab_file={vocab}",
            f"--input_file={here}/train.tfrecord",
            f"--eval_input_file={here}/held_out.tfrecord",
            f"--output_dir={here}/run",
        ],
    }
    if settings.blimp_file:
        named["BLiMP"] = [*score, f"--input_file={settings.blimp_file}"]
        named["BLiMP"] += ["--pairs=blimp", f"--output_file={here}/blimp.jsonl"]
    if settings.zorro_file:
        named["Zorro"] = [*score, f"--input_file={settings.zorro_file}"]
        named["Zorro"] += ["--pairs=zorro", "--masking=none", "--mean"]
        named["Zorro"] += [f"--output_file={here}/zorro.jsonl"]
    return named


def write_texts(settings: SpeedrunSettings) -> tuple[int, int]:
    """Writes train.txt and held_out.txt, each sentence a document.

    Returns:
        Words and sentences of train.txt.
    """
    files = file_patterns.find(
        settings.input_file, flag="input_file", wanted="files of text"
    )
    each = (text for path in files for text, _ in text_rows.texts(path, ["text"]))
    lines = [line for text in each if (line := text.strip())]
    here, parts = pathlib.Path(settings.output_dir), {}
    parts[str(here / "held_out.txt")] = lines[::_HELD_OUT]
    del lines[::_HELD_OUT]
    if not lines:
        raise errors.InputError(
            f"--input_file={settings.input_file}: has no two sentences; give one a line"
        )
    parts[str(here / "train.txt")] = lines
    for path, part in parts.items():
        text = "".join(f"{line}\n\n" for line in part)
        if not os.path.exists(path):
            atomic_files.write_text(path, text)
        elif pathlib.Path(path).read_text("utf-8") != text:
            raise errors.InputError(
                f"{path}: holds other sentences than --input_file="
                f"{settings.input_file}; choose another --output_dir"
            )
    return sum(len(line.split()) for line in lines), len(lines)


def measure(settings: SpeedrunSettings) -> None:
    """Runs each stage that is not done; prints the row of the table."""
    here = pathlib.Path(settings.output_dir)
    for flag in ("blimp_file", "zorro_file"):  # now, and not after all the training
        if files := getattr(settings, flag):
            file_patterns.find(files, flag=flag, wanted="pairs")
    here.mkdir(parents=True, exist_ok=True)
    counts = write_texts(settings)
    path, times = here / _TIMES, {}
    if path.exists():
        times = json.loads(path.read_text("utf-8"))
    for name, command in stages(settings).items():
        stage = times.setdefault(
            name, {"command": command, "pieces": [], "done": False}
        )
        if stage["command"] != command:
            raise errors.InputError(
                f"{path}: {name} was begun as {' '.join(stage['command'])}; choose "
                "another --output_dir"
            )
        if not stage["done"]:
            print(f"{name}: {' '.join(command)}", flush=True)
            for piece in pieces_of([sys.executable, *command]):
                times[name] = stage | {"pieces": [*stage["pieces"], piece]}
                atomic_files.write_json(str(path), times)
            times[name] = times[name] | {"done": True}
            atomic_files.write_json(str(path), times)
    print(row(settings, *counts, times))


def row(settings, words, sentences, times):
    """The row of the table of records, Markdown."""
    here = pathlib.Path(settings.output_dir)
    run = json.loads((here / "run" / "run.json").read_text("utf-8"))
    scores = report.read_scores(here / "run")
    processor, wall = map(sum, zip(*times["training"]["pieces"], strict=True))
    seen = settings.num_train_steps * run["flags"]["train_batch_size"] / sentences
    cells = [
        time.strftime("%Y-%m-%d"),
        report.describe_machine()["processor"],
        f"{words / 1e6:.2f} M",
        f"{seen:.2f}",
        f"{settings.num_train_steps:,}",
        f"{processor / 120:.1f}",
        f"{wall / 60:.1f}",
        f"{scores['masked_lm_loss']:.3f}",
        _accuracy(here / "blimp.jsonl") if settings.blimp_file else "",
        _accuracy(here / "zorro.jsonl") if settings.zorro_file else "",
    ]
    return f"| {' | '.join(cells)} |"


def _accuracy(path):
    with path.open(encoding="utf-8") as lines:
        is_right = [json.loads(line)["is_right"] for line in lines]
    return f"{sum(is_right) / len(is_right):.1%}"


def pieces_of(command: Sequence[str]) -> Iterator[tuple[float, float]]:
    """Runs a command; its processor time and wall time until now, again and again.

    On Linux the command is asked to stop where this process is killed, since none would
    count its time any longer.
    """
    process = subprocess.Popen(command, preexec_fn=_stop_with_parent)
    begun = time.time()
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(min(_SECONDS, 0.1 + 0.1 * (time.time() - begun)))
        yield _processor_time(process.pid), time.time() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    yield used.ru_utime + used.ru_stime, time.time() - begun
    if process.returncode:
        raise errors.InputError(
            f"{' '.join(command)}: ended with {process.returncode}; the same command "
            "goes on"
        )


def _stop_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _processor_time(pid: int) -> float:
    """Seconds that a process has computed; 0 where the system does not tell."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    command_line.run(measure, command_line.parse(SpeedrunSettings, __doc__))
