r"""Times ELMo beside the original's graph, in turns; docs/elmo.md.

    python -m benchmarks.elmo --text_files=corpus/*.txt \
        --original=bilm-tf --original_python=/path/to/python

--original is a checkout of allenai/bilm-tf, and --original_python has TensorFlow 2,
tf_keras of the same version and h5py; without the two ours is timed alone. A line of a
text file is a sentence. The original runs in the environment as it is and, as
original_tuned, with the settings of TensorFlow that our scripts make; its best turn of
each round counts. Every turn is a process of its own. Prints JSON and writes it to
--output_file after each row: tokens a second, ratios of the rounds, and checks, which
are equal on both sides where features are extracted, and alike where losses are.
"""

import glob
import json
import os
import pathlib
import sys
import tempfile

from absl import app, flags

from benchmarks import elmo_work, machine, turns
from cli import environment
from contract import atomic_files, errors

FLAGS = flags.FLAGS
# Steps before those that are timed, and those.
ROWS = {"train": (2, 6), "extract": (3, 10), "extract_one": (10, 100)}
NUM_SENTENCES = 2000
FIGURE = "tokens_per_second"


def define_flags():
    """What to time, on which text, against whom."""
    flags.DEFINE_list("text_files", None, "Patterns of text files, a sentence a line.")
    flags.DEFINE_string("original", None, "Checkout of allenai/bilm-tf.")
    flags.DEFINE_string("original_python", None, "Python that runs it.")
    flags.DEFINE_multi_enum(
        "shapes", [*elmo_work.SHAPES], elmo_work.SHAPES, "Networks."
    )
    flags.DEFINE_multi_enum("rows", [*ROWS], ROWS, "What is timed.")
    flags.DEFINE_integer("rounds", 3, "Turns of each side.", lower_bound=1)
    flags.DEFINE_string("output_file", "output/elmo.json", "Where figures go.")


def commands():
    """{side: its command without the job}."""
    found = {"ours": [sys.executable, "-m", "benchmarks.elmo_ours"]}
    if FLAGS.original:
        tuned = [FLAGS.original_python, "-m", "benchmarks.elmo_original"]
        plain = ["env", *(f"--unset={name}" for name in environment.prepare())]
        found |= {"original": [*plain, *tuned], "original_tuned": tuned}
    return found


def check_input():
    """The lines of the text; says what is missing before the long work starts."""
    if bool(FLAGS.original) != bool(FLAGS.original_python):
        raise errors.InputError(
            "--original and --original_python belong together; give both"
        )
    for name in ("original", "original_python"):
        if (path := FLAGS[name].value) and not os.path.exists(path):
            raise errors.InputError(
                f"--{name}={path}: there is no such file or directory"
            )
    files = [
        path for each in FLAGS.text_files or () for path in sorted(glob.glob(each))
    ]
    if not files:
        raise errors.InputError(
            f"--text_files={FLAGS.text_files}: there is no such file; name some text"
        )
    return [
        line
        for path in files
        for line in pathlib.Path(path).read_text("utf-8").splitlines()
    ]


def measure(shape, row, directory):
    """The figures of all turns of one row, and ours over the best of the original."""
    warm_up, steps = ROWS[row]
    job = elmo_work.Job(row, directory, warm_up, steps, FLAGS.original or "")
    found = turns.alternate(
        {
            side: lambda command=command: turns.run([*command, job.to_json()])
            for side, command in commands().items()
        },
        FLAGS.rounds,
    )
    figures = {side: [turn[FIGURE] for turn in each] for side, each in found.items()}
    mine, *others = figures.values()
    best = [max(pair) for pair in zip(*others, strict=True)]
    return {
        FIGURE: {side: turns.median(each, FIGURE) for side, each in found.items()},
        "ratios": [one / other for one, other in zip(mine, best, strict=bool(best))],
        "runs": found,
    }


def main(_):
    """Times every row of every shape."""
    try:
        lines = check_input()
        work = elmo_work.make(lines, NUM_SENTENCES, sum(ROWS["train"]))
    except ValueError as error:
        sys.exit(f"error: {error}")
    environment.prepare()  # which the processes of both sides inherit
    results = {"machine": machine.describe(), "shapes": {}}
    for shape in FLAGS.shapes:
        rows = results["shapes"][shape] = {}
        with tempfile.TemporaryDirectory() as directory:
            work.save(directory)
            options = elmo_work.options(shape, int(work.vocab_size))
            pathlib.Path(directory, "options.json").write_text(json.dumps(options))
            turns.run(
                [*commands()["ours"], elmo_work.Job("prepare", directory).to_json()]
            )
            for row in FLAGS.rows:
                rows[row] = measure(shape, row, directory)
                text = json.dumps(results, indent=2) + "\n"
                atomic_files.write_text(FLAGS.output_file, text)
                summary = {key: rows[row][key] for key in (FIGURE, "ratios")}
                print(json.dumps({"shape": shape, "row": row, **summary}), flush=True)


if __name__ == "__main__":
    define_flags()
    app.run(main)
