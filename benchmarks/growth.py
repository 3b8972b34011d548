r"""How training and data creation grow: speed and memory over one size after another.

    python -m benchmarks.growth --output_dir=output/growth --corpus_files=corpus/*.txt

Training steps of a classifier over batch, length, layers and width, each varied alone
around --train_batch_size, --max_seq_length and --bert_config_file; without
--corpus_files only these. create_pretraining_data.py over the size of the corpus, by
all workers, and over workers. Each point is a process of its own. growth.json of
--output_dir is written after each, and the same command goes on with those that it
lacks. benchmarks.growth_plots draws it; docs/performance.md says more.
"""

import functools
import importlib.metadata
import json
import os
import pathlib
import sys
import time

from absl import app, flags

from benchmarks import cost_model, machine, sides, turns
from contract import errors
from modeling.configs import config as config_lib

FLAGS = flags.FLAGS
FILE_NAME = "growth.json"
# Of a point of training, and the flag that lists its values.
SIZES = {
    "train_batch_size": "train_batch_sizes",
    "max_seq_length": "max_seq_lengths",
    "num_hidden_layers": "num_hidden_layers",
    "hidden_size": "hidden_sizes",
}
KINDS = ("training", "creation")
LIBRARIES = ("tensorflow", "keras")


def define_flags():
    """What is varied, and around what."""
    string, integer = flags.DEFINE_string, flags.DEFINE_integer
    numbers = flags.DEFINE_list
    string("output_dir", None, f"Where {FILE_NAME} is, or goes.", required=True)
    string("bert_config_file", "models/minilm/config.json", "The network in the midst.")
    integer("train_batch_size", 32, "Sequences in the midst.", lower_bound=1)
    integer("max_seq_length", 128, "Tokens a sequence in the midst.", lower_bound=1)
    numbers("train_batch_sizes", ["8", "16", "32", "64"], "Sequences of a step.")
    numbers("max_seq_lengths", ["32", "64", "128", "256", "512"], "Tokens a sequence.")
    numbers("num_hidden_layers", ["2", "4", "6", "12"], "Layers.")
    numbers(
        "hidden_sizes",
        ["128", "256", "384", "512", "768"],
        "Widths; the feed-forward layer grows with them, heads keep their size.",
    )
    integer("steps", 5, "Training steps that are timed.", lower_bound=1)
    string("corpus_files", "", "Text files, as create_pretraining_data.py takes them.")
    string("vocab_file", "models/minilm/vocab.txt", "The vocabulary for them.")
    numbers("corpus_copies", ["1", "4", "16"], "Times the files are read.")
    numbers(
        "num_workers",
        [],
        "Processes that read the fewest copies; default: 1, 2, 4, .., cores.",
    )
    integer("dupe_factor", 5, "Of create_pretraining_data.py.", lower_bound=1)


def values_of(flag):
    """The numbers of a flag that lists some."""
    wrong = [text for text in FLAGS[flag].value if not text.isdecimal() or text == "0"]
    if wrong:
        raise errors.InputError(
            f"--{flag}={wrong[0]} is not a whole number of 1 or more"
        )
    return [int(text) for text in FLAGS[flag].value]


def around(middle, lists):
    """One size after another at each of its values, the others as in the middle."""
    points = [
        {**middle, name: value} for name, values in lists.items() for value in values
    ]
    return list({json.dumps(point): point for point in points}.values())


def middle_of(config):
    """The point around which training is varied."""
    return {
        "train_batch_size": FLAGS.train_batch_size,
        "max_seq_length": FLAGS.max_seq_length,
        "num_hidden_layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
    }


def network(config, point):
    """The configuration of a point: wider networks have more heads of the same size.

    Raises:
        ValueError: the width is no multiple of a head's, or the length is too long.
    """
    width, length = point["hidden_size"], point["max_seq_length"]
    head = config.hidden_size // config.num_attention_heads
    if width % head:
        raise errors.InputError(
            f"--hidden_sizes={width} is not a multiple of {head}, the size of a head "
            f"in {FLAGS.bert_config_file}; choose another width"
        )
    if length > config.max_position_embeddings:
        raise errors.InputError(
            f"--max_seq_lengths={length} exceeds max_position_embeddings="
            f"{config.max_position_embeddings} in {FLAGS.bert_config_file}; lower it"
        )
    changes = {
        "num_hidden_layers": point["num_hidden_layers"],
        "hidden_size": width,
        "num_attention_heads": width // head,
        "intermediate_size": config.intermediate_size * width // config.hidden_size,
    }
    return config_lib.BertConfig.from_dict({**config.to_dict(), **changes})


def measure_training(config, point):
    """A point with its figures."""
    settings = {
        "config": config.to_dict(),
        "train_batch_size": point["train_batch_size"],
        "max_seq_length": point["max_seq_length"],
        "steps": FLAGS.steps,
    }
    module = "benchmarks.growth_point"
    found = turns.run([sys.executable, "-m", module, json.dumps(settings)])
    batch = cost_model.Batch(point["train_batch_size"], point["max_seq_length"])
    gflop = cost_model.training_operations(config, batch) / 1e9
    rate = FLAGS.steps / found.pop("seconds")
    return {
        **point,
        "steps_per_second": rate,
        "tokens_per_second": rate * batch.size * batch.length,
        "gflop_per_step": gflop,
        **found,
    }


def with_shares(points):
    """Adds "share_of_peak" to training points.

    The peak is the highest of all their processes: other load may lower that of one.
    """
    peak = max((point["peak_gflops"] for point in points), default=None)
    return [
        {
            **point,
            "share_of_peak": point["gflop_per_step"] * point["steps_per_second"] / peak,
        }
        for point in points
    ]


def measure_creation(point):
    """A point with its figures; benchmarks/creation.py says which."""
    copies = ",".join([FLAGS.corpus_files] * point["corpus_copies"])
    arguments = [f"--{n}={FLAGS[n].value}" for n in ("vocab_file", "dupe_factor")]
    arguments += [f"--input_file={copies}", f"--num_workers={point['num_workers']}"]
    command = [sys.executable, "-m", "benchmarks.creation", "--rounds=1", *arguments]
    return {**point, **turns.run(command)}


def creation_points():
    """The corpora by all cores, and the first of them by fewer workers."""
    cores = sides.cores()
    copies, workers = values_of("corpus_copies"), values_of("num_workers")
    if not copies:
        return []
    workers = workers or [2**i for i in range(cores.bit_length()) if 2**i < cores]
    lists = {"corpus_copies": copies, "num_workers": [*workers, cores]}
    return around({"corpus_copies": min(copies), "num_workers": cores}, lists)


def about(config):
    """What all points of a file have in common; the date is that of the first."""
    found = {
        "machine": machine.describe(),
        "versions": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "config": config.to_dict(),
        "middle": middle_of(config),
        "steps": FLAGS.steps,
    }
    if FLAGS.corpus_files:
        found["corpus"] = {
            "corpus_files": FLAGS.corpus_files,
            "vocab_file": FLAGS.vocab_file,
            "dupe_factor": FLAGS.dupe_factor,
        }
    return found


def begun(path, common):
    """The results to add to: those of the file, if they have the same in common.

    Raises:
        ValueError: they are of another machine, other versions or settings.
    """
    fresh = {"date": time.strftime("%Y-%m-%d"), **{kind: [] for kind in KINDS}}
    if not path.exists():
        return {**common, **fresh}
    results = json.loads(path.read_text(encoding="utf-8"))
    for name, value in common.items():
        if results.get(name, value) != value:
            raise errors.InputError(
                f"{path} was measured with {name}={json.dumps(results[name])}, and now "
                f"it is {json.dumps(value)}; choose another --output_dir"
            )
    return {**fresh, **common, **results}


def write(path, results):
    """Writes the file as a whole, so that a killed run leaves the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".incomplete")
    temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def is_measured(point, results):
    """Whether the results have this point."""
    return any(point.items() <= found.items() for found in results)


def planned():
    """(kind, point, what measures it) of all points, and what they have in common."""
    config = config_lib.BertConfig.from_json_file(FLAGS.bert_config_file)
    lists = {name: values_of(flag) for name, flag in SIZES.items()}
    points = []
    for point in around(middle_of(config), lists):
        shape = network(config, point)
        measure = functools.partial(measure_training, shape, point)
        points.append(("training", point, measure))
    if FLAGS.corpus_files:
        if not pathlib.Path(FLAGS.vocab_file).exists():
            raise errors.InputError(
                f"--vocab_file={FLAGS.vocab_file}: there is no such file"
            )
        for point in creation_points():
            measure = functools.partial(measure_creation, point)
            points.append(("creation", point, measure))
    return points, about(config)


def main(_):
    """Measures the points that are missing; prints those there are as a table."""
    with errors.explained():
        points, common = planned()
        path = pathlib.Path(FLAGS.output_dir, FILE_NAME)
        results = begun(path, common)
        for kind, point, measure in points:
            if is_measured(point, results[kind]):
                continue
            said = " ".join(f"{name}={value}" for name, value in point.items())
            print(f"{kind}: {said} ...", file=sys.stderr, flush=True)
            try:
                results[kind].append(measure())
            except turns.SideFailed as error:
                sys.exit(str(error))
            results["training"] = with_shares(results["training"])
            write(path, results)
        for kind in KINDS:
            print(table(results[kind]))


def table(points):
    """Markdown, a line a point."""
    if not points:
        return ""
    names = list(points[0])
    lines = [names, ["---"] * len(names)]
    lines += [[text_of(point[name]) for name in names] for point in points]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def text_of(value):
    """A number with three digits at least."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    define_flags()
    app.run(main)
