r"""Times training steps over batch size, length, layers and width, each varied alone.

    python -m benchmarks.sweep --train_batch_sizes=8,16,32 --max_seq_lengths=64,128,256

The first value of each list applies while another size is varied. Each point is a
separate process that trains a classifier with random weights on full sequences of
random tokens. The program writes JSON to --output_file after each point, and prints a
Markdown table at the end.
"""

import json
import pathlib
import sys

import numpy as np
import tabulate
from absl import app, flags

from benchmarks import ours, preparation, report, sides, turns
from contract import errors
from modeling import pretrainers
from modeling.configs import config as config_lib

FLAGS = flags.FLAGS
WARM_UP_STEPS, CLASSES = 2, 2
SIZES = {
    "train_batch_sizes": "32,8,16,64",
    "max_seq_lengths": "128,32,64,256,512",
    "num_hidden_layers": "6,2,4,12",
    "hidden_sizes": "384,128,256,512,768",
}


def define_flags():
    """Flags: the sizes and the network."""
    for name, values in SIZES.items():
        text = "Values to time; the first one applies while another size is varied."
        flags.DEFINE_list(name, values.split(","), text)
    flags.DEFINE_string(
        "bert_config_file",
        "models/minilm/config.json",
        "Config file; the feed-forward layer and the heads grow with the width.",
    )
    flags.DEFINE_integer("steps", 5, "Number of timed steps.", lower_bound=1)
    flags.DEFINE_string("output_file", "output/sweep.json", "JSON file to write.")


def points():
    """The middle, and each size at each other value.

    Raises:
        InputError: a value is no whole number of 1 or more.
    """
    texts = FLAGS.flag_values_dict()
    for name in SIZES:
        wrong = [text for text in texts[name] if not text.isdecimal() or text == "0"]
        if wrong or not texts[name]:
            raise errors.InputError(
                f"--{name}={','.join(texts[name])}: give whole numbers of 1 or more, "
                "separated by commas"
            )
    middle = {name: int(texts[name][0]) for name in SIZES}
    others = [{**middle, n: int(text)} for n in SIZES for text in texts[n][1:]]
    return [middle, *others]


def network(config, point):
    """The config of a point: wider networks have more heads of the same size.

    Raises:
        InputError: the width is no multiple of a head's, or the length is too long.
    """
    width, length = point["hidden_sizes"], point["max_seq_lengths"]
    head = config.hidden_size // config.num_attention_heads
    if width % head or length > config.max_position_embeddings:
        raise errors.InputError(
            f"--hidden_sizes={width} --max_seq_lengths={length}: widths must be "
            f"multiples of {head}, the size of a head, and lengths must be at most "
            f"{config.max_position_embeddings} in {FLAGS.bert_config_file}"
        )
    changes = {
        "num_hidden_layers": point["num_hidden_layers"],
        "hidden_size": width,
        "num_attention_heads": width // head,
        "intermediate_size": config.intermediate_size * width // config.hidden_size,
    }
    return config_lib.BertConfig.from_dict({**config.to_dict(), **changes})


def measure(config, point):
    """Tokens a second, share of the peak, memory and loss of a point."""
    size, length = point["train_batch_sizes"], point["max_seq_lengths"]
    packed, targets, _ = preparation.random_sequences(size, length, config.vocab_size)
    order = np.tile(np.arange(size, dtype=np.int32), (WARM_UP_STEPS + FLAGS.steps, 1))
    work = sides.Work(
        packed.tokens, packed.splits, packed.first_lengths, order, targets, {}
    )
    job = sides.Job("train", "classifier", CLASSES, "", "", WARM_UP_STEPS, FLAGS.steps)
    model = pretrainers.build("classifier", CLASSES, config)
    timed = ours.time_training(model, "classifier", work, job.warm_up, job.steps)
    memory = sides.peak_memory_mb()  # before the product, which takes some
    gflops = sides.useful_gflop(config.to_dict(), work, job) / timed["seconds"]
    return {
        "tokens_per_second": size * length * FLAGS.steps / timed["seconds"],
        "share_of_peak": gflops / ours.peak_gflops(),
        "peak_memory_mb": memory,
        "loss": timed["loss"],
    }


def main(argv):
    """Times all points, or prints the figures of the point that an argument names."""
    with errors.explained():
        config = config_lib.BertConfig.from_json_file(FLAGS.bert_config_file)
        if len(argv) > 1:
            point = json.loads(argv[1])
            print(json.dumps(measure(network(config, point), point)))
            return
        planned = points()
        for point in planned:
            network(config, point)  # wrong sizes are refused before the long work
        results = {"machine": report.describe_machine(), "points": []}
        output = pathlib.Path(FLAGS.output_file)
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.sweep", f"--steps={FLAGS.steps}"]
        command.append(f"--bert_config_file={FLAGS.bert_config_file}")
        for point in planned:
            print(f"{point} ...", file=sys.stderr, flush=True)
            figures = turns.run([*command, json.dumps(point)])
            results["points"].append({**point, **figures})
            output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(report.machine_line(results["machine"]), "\n")
        print(tabulate.tabulate(results["points"], "keys", "github", floatfmt=".4g"))


if __name__ == "__main__":
    define_flags()
    app.run(main)
