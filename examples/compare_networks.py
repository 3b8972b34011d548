r"""Compares BERT, GPT and ELMo: networks of one size, one corpus, the same tasks.

    python -m examples.compare_networks --output_dir=output/compared

The program pretrains the three networks on equally many tokens, trains each of them for
some tasks with several seeds, and prints the scores as a table. By default the texts
are those of sample_data/, which are too few to decide anything. Start it in the root of
the checkout: each run is a script there. After a stop, the same command continues.
docs/results.md describes what is equal, and has an example with SQuAD.
"""

import dataclasses
import glob
import json
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from cli import command_line
from contract import wording
from tasks.settings import fields, fine_tuning

LENGTH = 128  # tokens of a sequence
PRETRAINING = f"--train_batch_size=8 --max_seq_length={LENGTH} --learning_rate=1e-3"
ELMO_STEPS = 8 * LENGTH / (32 * 20)  # so many steps of ELMo read the tokens of one


class Network(NamedTuple):
    """A network, and the flags of the scripts that define it."""

    name: str
    pretraining: str
    tasks: str
    classifier: str = ""  # beside `tasks`, of run_classifier.py


NETWORKS = (
    Network(
        "BERT",
        f"{PRETRAINING} --max_predictions_per_seq={round(0.15 * LENGTH)}",
        "--learning_rate=3e-4",
    ),
    Network(
        "GPT",
        f"{PRETRAINING} --objective=left_to_right --optimizer=gpt_adam "
        "--learning_rate_schedule=gpt_cosine",
        "--learning_rate=3e-4 --optimizer=gpt_adam --learning_rate_schedule=gpt_linear",
        "--lm_loss_weight=0.5",
    ),
    Network(
        "ELMo",
        "--objective=bidirectional_lm --train_batch_size=32 --unroll_steps=20",
        "--learning_rate=5e-3 --freeze_encoder --feature_cache=none "
        "--layer_mix=learned --head=bilstm --bilstm_layers=1 --bilstm_units=128",
    ),
)


# {task of run_<task>.py: its score in seeds.json}.
SCORES = {"classifier": "eval_accuracy", "tagger": "eval_f1", "squad": "f1"}


def _task_flags(task: str, text: str) -> Any:
    about = f"Flags of run_{task}.py for its data and score; none leave it out."
    return fields.training(text, about)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedSettings(fields.Settings):
    """Texts, tables, and the length of training."""

    program: ClassVar[str] = "examples.compare_networks"

    output_dir: str = fields.output(fields.REQUIRED, "Output directory.", path=True)
    corpus_files: str = fields.data(
        "sample_data/corpus/*.txt",
        "Text files or globs, by comma; one sentence a line.",
        path=True,
    )
    classifier_flags: str = _task_flags(
        "classifier",
        "--train_file=sample_data/messages/train.tsv "
        "--dev_file=sample_data/messages/dev.tsv --do_eval --nowrite_tf_records",
    )
    tagger_flags: str = _task_flags(
        "tagger",
        "--train_file=sample_data/tags/train.conll "
        "--dev_file=sample_data/tags/dev.conll --do_eval",
    )
    # The sample questions are none for GPT, for some have no answer.
    squad_flags: str = _task_flags("squad", "")
    steps: int = fields.training(
        200, "Steps of pretraining of BERT and GPT; ELMo reads as many tokens.", least=1
    )
    num_train_epochs: float = fields.again(fine_tuning.Passes, "num_train_epochs", 3.0)
    seeds: Sequence[str] = fields.training(
        ("1", "2", "3"), "Random seeds of each task."
    )

    def flags_of(self, task: str) -> list[str]:
        """The flags of the script of a task; [] where it is left out."""
        return shlex.split(getattr(self, f"{task}_flags"))


def corpus_commands(settings, directory):
    """Commands that learn the two vocabularies and cut the text into records."""
    text = f"--input_file={settings.corpus_files}"
    learn = ["build_vocab.py", text, "--vocab_size=5000"]
    words = ["--kind=word", "--split_words=punctuation"]
    yield [*learn, f"--output_file={directory / 'pieces.txt'}"]
    yield [*learn, *words, f"--output_file={directory / 'words.txt'}"]
    cut = ["create_pretraining_data.py", text, f"--max_seq_length={LENGTH}"]
    cut.append(f"--vocab_file={directory / 'pieces.txt'}")
    next_sentence = ["--masking=none", "--sentence_task=next"]  # masked while training
    yield [*cut, *next_sentence, f"--output_file={directory / 'BERT.tfrecord'}"]
    left_to_right = "--objective=left_to_right"
    yield [*cut, left_to_right, f"--output_file={directory / 'GPT.tfrecord'}"]


def write_configs(directory):
    """Writes the three configs, with the number of entries of the vocabulary."""
    num_pieces = len((directory / "pieces.txt").read_text("utf-8").splitlines())
    for network in NETWORKS:
        path = pathlib.Path(f"configs/{network.name.lower()}_compared.json")
        config = json.loads(path.read_text("utf-8"))
        if "vocab_size" in config:
            config["vocab_size"] = num_pieces
        (directory / f"{network.name}.json").write_text(json.dumps(config), "utf-8")


def write_sentences(settings, directory):
    """Writes the lines of the corpus in random order, for ELMo.

    ELMo shuffles no further than within a file, and would end as one of the last file.
    """
    patterns = settings.corpus_files.split(",")
    each = map(glob.glob, patterns)  # noqa: TID251  as a user has typed them
    files = sorted({path for paths in each for path in paths})
    texts = [pathlib.Path(path).read_text("utf-8") for path in files]
    lines = [line for text in texts for line in text.split("\n") if line.strip()]
    random.Random(1).shuffle(lines)
    (directory / "ELMo.txt").write_text("\n".join(lines) + "\n", "utf-8")


def pretraining_command(settings, network, directory):
    """The command that pretrains a network."""
    if network.name == "ELMo":
        vocab, text, steps = "words.txt", "ELMo.txt", round(ELMO_STEPS * settings.steps)
        more = f"--num_train_steps={steps}"
    else:
        vocab, text, steps = "pieces.txt", f"{network.name}.tfrecord", settings.steps
        more = f"--num_train_steps={steps} --num_warmup_steps={steps // 10}"
    return [
        "run_pretraining.py",
        "--do_train",
        f"--bert_config_file={directory / network.name}.json",
        f"--vocab_file={directory / vocab}",
        f"--input_file={directory / text}",
        *f"{network.pretraining} {more}".split(),
        f"--output_dir={directory / network.name / 'pretrained'}",
    ]


def task_command(settings, network, task, directory):
    """The command that trains a network for a task, once with each seed."""
    more = network.classifier if task == "classifier" else ""
    return [
        f"run_{task}.py",
        "--do_train",
        *settings.flags_of(task),
        f"--pretrained={directory / network.name / 'pretrained'}",
        "--train_batch_size=8",
        f"--max_seq_length={LENGTH}",
        f"--num_train_epochs={settings.num_train_epochs}",
        f"--seeds={','.join(settings.seeds)}",
        *f"{network.tasks} {more}".split(),
        f"--output_dir={directory / network.name / task}",
    ]


def run_script(command):
    """Runs a script; ends the program if the script fails."""
    print(f"python {shlex.join(command)}", file=sys.stderr, flush=True)
    done = subprocess.run([sys.executable, *command], stdout=sys.stderr)
    if done.returncode:
        sys.exit(f"{command[0]}: exit code {done.returncode}; its message is above")


def score(network, task, directory):
    """Mean and deviation over seeds, such as "0.742 ± 0.007"."""
    text = (directory / network.name / task / "seeds.json").read_text("utf-8")
    scores = json.loads(text)["seeds"].values()
    values = [each[SCORES[task]] for each in scores]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3g} ± {deviation:.2g}"


def run(settings: ComparedSettings) -> None:
    """Runs everything, and prints the table."""
    directory = pathlib.Path(settings.output_dir).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    for command in corpus_commands(settings, directory):
        run_script(command)
    write_configs(directory)
    write_sentences(settings, directory)
    tasks = [task for task in SCORES if settings.flags_of(task)]
    for network in NETWORKS:
        run_script(pretraining_command(settings, network, directory))
        for task in tasks:
            run_script(task_command(settings, network, task, directory))
    rows = [[n.name, *(score(n, task, directory) for task in tasks)] for n in NETWORKS]
    titles = [f"{task}: {SCORES[task]}" for task in tasks]
    print("\n".join(wording.columns([["", *titles], *rows])))


if __name__ == "__main__":
    command_line.run(run, command_line.parse(ComparedSettings, __doc__))
