r"""Compares BERT, GPT, ELMo and their variants: one size, one corpus, the same tasks.

    python -m experiments.compare --steps=6000 --corpus_files='corpus/*.txt' \
        --held_out_files=corpus/held_out.txt --data_dir=data --output_dir=output/compare

The program pretrains all networks on the same number of tokens, trains them on the same
tasks, and writes results/comparison.md. After a stop, the same command continues. See
docs/comparison.md for the limits, and docs/results/comparison.md for scores.
"""

import functools
import os
import pathlib
import signal
import sys

from absl import flags

from cli import command_line
from experiments import systems, tasks

FLAGS = flags.FLAGS
ROOT = str(pathlib.Path(__file__).resolve().parents[1])
DEFAULT_CONFIG = os.path.join(ROOT, "configs", "bert_compared.json")


@command_line.heading("What to do")
def define_flags():
    """Flags: systems, texts, tasks and the length of training."""
    text = functools.partial(flags.DEFINE_string, default=None, required=True)
    real = functools.partial(command_line.define_float, lower_bound=0)
    integer = flags.DEFINE_integer
    text("output_dir", help="Output directory.")
    text(
        "corpus_files",
        help="Comma-separated text files or globs; one sentence per line.",
    )
    text(
        "held_out_files", help="Text files or globs for evaluation, never for training."
    )
    text("data_dir", help="Directory with a folder for each of --tasks.")
    about = "Number of pretraining steps of BERT; the others read as many tokens."
    integer("steps", None, about, lower_bound=8, required=True)
    real("num_train_epochs", 3.0, "Number of training epochs of each task.")
    flags.DEFINE_string(
        "bert_config_file", DEFAULT_CONFIG, "Config file of BERT; others get its size."
    )
    integer(
        "vocab_size",
        5000,
        "Number of word pieces; for ELMo, of words.",
        lower_bound=100,
    )
    integer(
        "train_batch_size",
        8,
        "Batch size of pretraining, except for ELMo.",
        lower_bound=1,
    )
    integer(
        "max_seq_length",
        128,
        "Maximum number of tokens per sequence in pretraining.",
        lower_bound=16,
    )
    real("learning_rate", 1e-3, "Peak learning rate of pretraining, except for ELMo.")
    real("task_learning_rate", 3e-4, "Peak learning rate of the tasks.")
    real(
        "feature_learning_rate",
        5e-3,
        "Peak learning rate of tasks that train only the head.",
    )
    flags.DEFINE_list(
        "seeds", ["1", "2", "3"], "Random seeds; each task runs once with each."
    )
    flags.DEFINE_list("systems", list(systems.SYSTEMS), "Systems to compare.")
    flags.DEFINE_list("tasks", list(tasks.TASKS), "Tasks to train and score.")
    flags.DEFINE_bool(
        "layers", True, "Compare the layers of BERT as features for named entities."
    )
    flags.DEFINE_bool(
        "curves", True, "Score SST-2 at several checkpoints of the pretraining."
    )
    integer(
        "jobs",
        0,
        "Number of parallel programs; 0 for one per core, or one on a GPU.",
        0,
    )


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags)

import dataclasses

import joblib
import tensorflow as tf

from contract import errors
from experiments import commands, comparison, pages, preparation, stages
from modeling.configs import config as config_lib


def _known(flag, known):
    """The values of a list flag, in the order of `known`."""
    names = FLAGS.flag_values_dict()[flag]
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        problem = f"{', '.join(wrong)} is not one of" if wrong else "give some of"
        raise errors.InputError(
            f"--{flag}={','.join(names)}: {problem} {', '.join(known)}"
        )
    return [name for name in known if name in names]


def settings():
    """The Settings of the flags.

    Raises:
        InputError: a flag is wrong, contradicts another, or names a missing file.
    """
    wrong = [text for text in FLAGS.seeds if not text.strip().isdecimal()]
    if wrong or len(set(FLAGS.seeds)) < len(FLAGS.seeds) or not FLAGS.seeds:
        raise errors.InputError(
            f"--seeds={','.join(FLAGS.seeds)} are not different whole numbers; give "
            "seeds such as 1,2,3"
        )
    chosen = _known("tasks", tasks.TASKS)
    tasks.check(chosen, FLAGS.data_dir)
    bert = config_lib.BertConfig.from_json_file(FLAGS.bert_config_file)
    longest = max(
        FLAGS.max_seq_length, *(tasks.TASKS[t].max_seq_length for t in chosen)
    )
    if longest > bert.max_position_embeddings:
        raise errors.InputError(
            f"{FLAGS.bert_config_file} has {bert.max_position_embeddings} positions, "
            f"but texts of {longest} tokens are read; choose another config, or "
            "lower --max_seq_length"
        )
    cores = joblib.cpu_count()  # of those that this process, or its container, may use
    jobs = FLAGS.jobs or (1 if tf.config.list_physical_devices("GPU") else cores)
    values = FLAGS.flag_values_dict() | {
        "directory": os.path.abspath(FLAGS.output_dir),
        "data_dir": os.path.abspath(FLAGS.data_dir),
        "bert": bert,
        "systems": _known("systems", systems.SYSTEMS),
        "tasks": chosen,
        "seeds": tuple(map(int, FLAGS.seeds)),
        "jobs": jobs,
        "threads": max(1, cores // jobs),
    }
    fields = [field.name for field in dataclasses.fields(commands.Settings)]
    return commands.Settings(**{name: values[name] for name in fields})


def _stop(number, _):
    raise errors.Stopped(number)


def main(_):
    """Runs the comparison of the flags."""
    with errors.explained():
        chosen = settings()
        corpus = preparation.Corpus(
            os.path.join(chosen.directory, "corpus"),
            FLAGS.corpus_files,
            FLAGS.held_out_files,
            vocab_size=FLAGS.vocab_size,
            max_seq_length=FLAGS.max_seq_length,
        )
        signal.signal(signal.SIGTERM, _stop)
        with stages.locked(chosen.directory) as lock:
            comparison.check_same(chosen, corpus)
            runner = stages.Runner(ROOT, chosen.jobs, chosen.threads, lock)
            try:
                results = comparison.Comparison(chosen, corpus, runner).run()
            except stages.Failed as error:
                sys.exit(f"error: {error}")
        page = pages.write(os.path.join(chosen.directory, "results"), results)
        print(f"comparison: {page}")


if __name__ == "__main__":
    command_line.run(main)
