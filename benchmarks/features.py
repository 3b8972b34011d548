r"""Times extract_features.py on real text, in turn with the original's way.

    python benchmarks/features.py --pretrained=models/minilm \
        --input_file=sentences.txt

The stand-in for the original runs our network as the original does: it pads every line
to --max_seq_length, returns all chosen layers whole, and json.dumps writes numbers that
Python rounds one by one, with TensorFlow's default allocator. Both write JSON lines of
the layers -1 to -4. Ours is also timed with one mean vector a line, as .npz. Prints
lines a second without start-up and first batches, and the ratio of each pair; see
`turns.compare`.
"""

import functools
import itertools
import json
import os
import pathlib
import sys
import tempfile
import time

from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import turns

FLAGS = flags.FLAGS
SIDES = ("ours", "original", "mean_npz")
RATE = "lines_per_second"
LAYERS = (-1, -2, -3, -4)
WARM_UP_LINES = 100  # batches of two lengths, so that nothing is traced later


def count_lines(path, tokenizer):
    """The lines of a file, and how many there are."""
    from data_pipeline.extraction import lines as input_lines

    lines = input_lines.TextLines(str(path), tokenizer, FLAGS.max_seq_length)
    return lines, lines.measure()


def predict_function(model, choice):
    """The compiled network with the chosen vectors, as the script builds it."""
    import tensorflow as tf

    import extract_features
    from training import steps

    predict = functools.partial(extract_features.outputs_of, model, choice)
    strategy = tf.distribute.get_strategy()
    return steps.predict_function(predict, strategy, jit_compile=False)


def time_ours(warm_up, path, output_format, **choice):
    """Lines a second of what extract_features.py does."""
    import tensorflow as tf

    import extract_features  # sets the allocator that the first operation takes
    from benchmarks import ours
    from data_pipeline.extraction import vectors as vector_files
    from modeling.features import vectors
    from training.results import extraction

    tokenizer, model = ours.open_pretrained(FLAGS.pretrained)
    chosen = vectors.choose(model.config, **choice)
    predict = predict_function(model, chosen)
    of_tokens = chosen.pooling == "none"
    limit = extract_features.MAX_WAITING_VALUES // (len(chosen.names) * chosen.width)
    for source in (warm_up, path):
        lines, size = count_lines(source, tokenizer)
        layout = vector_files.VectorLayout(
            num_lines=size.num_lines,
            num_tokens=size.num_tokens,
            layers=chosen.names,
            width=chosen.width,
            of_tokens=of_tokens,
            spell=tokenizer.ids_to_tokens,
        )
        begin = time.perf_counter()
        batches = lines.batches(FLAGS.batch_size, max_tokens=limit, pad_to=None)
        results = extraction.in_input_order(
            *(predict, batches, tf.distribute.get_strategy()),
            report=lambda *_, **__: None,
            cut=layout.cut,
        )
        with vector_files.writer(f"{path}.out", output_format, layout) as write:
            for result in results:
                write(result)
    return size.num_lines / (time.perf_counter() - begin)


def time_original(path):
    """Lines a second of the stand-in for the original."""
    os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "0"  # TensorFlow's default, as there
    from benchmarks import ours
    from modeling.features import vectors

    tokenizer, model = ours.open_pretrained(FLAGS.pretrained)
    predict = predict_function(model, vectors.choose(model.config, layers=LAYERS))
    lines, size = count_lines(path, tokenizer)
    batches = lines.batches(
        FLAGS.batch_size, max_tokens=1 << 30, pad_to=FLAGS.max_seq_length
    )
    is_first, seconds = True, 0.0
    with open(f"{path}.out", "w", encoding="utf-8") as file:
        for batch in itertools.chain(batches.take(1), batches):
            begin = time.perf_counter()
            outputs = {name: value.numpy() for name, value in predict(batch).items()}
            for row, number in enumerate(outputs["unique_ids"].tolist()):
                if number >= 0:
                    file.write(original_line(tokenizer, outputs, row, number))
            if not is_first:  # it was traced
                seconds += time.perf_counter() - begin
            is_first = False
    return size.num_lines / seconds


def original_line(tokenizer, outputs, row, number):
    """One line of JSON as the standard library writes it."""
    length = int(outputs["input_mask"][row].sum())
    tokens = tokenizer.ids_to_tokens(outputs["input_ids"][row, :length])
    found = []
    for place, token in enumerate(tokens):
        layers = []
        for index, layer in zip(LAYERS, outputs["values"][row, place], strict=True):
            rounded = [round(float(value), 6) for value in layer.flat]
            layers.append({"index": index, "values": rounded})
        found.append({"token": token, "layers": layers})
    return json.dumps({"linex_index": number, "features": found}) + "\n"


def time_side(side):
    """What one side does of as many lines as it is given."""
    texts = pathlib.Path(FLAGS.input_file).read_text(encoding="utf-8").splitlines()
    count = FLAGS.original_lines if side == "original" else FLAGS.num_lines
    with tempfile.TemporaryDirectory() as directory:
        paths = [pathlib.Path(directory, name) for name in ("warm_up", "lines")]
        for path, number in zip(paths, (WARM_UP_LINES, count), strict=True):
            path.write_text("\n".join(texts[:number]) + "\n", encoding="utf-8")
        if side == "original":
            rate = time_original(paths[1])
        elif side == "mean_npz":
            rate = time_ours(*paths, "npz", layers=(-1,), pooling="mean")
        else:
            rate = time_ours(*paths, "jsonl", layers=LAYERS)
    return {RATE: rate}


def main(_):
    """Times one side, or all in turn."""
    turns.compare({side: functools.partial(time_side, side) for side in SIDES}, RATE)


if __name__ == "__main__":
    flags.DEFINE_string("pretrained", "models/minilm", "Directory of the weights.")
    flags.DEFINE_string("input_file", None, "A text a line.", required=True)
    flags.DEFINE_integer("max_seq_length", 128, "Tokens that the original pads to.")
    flags.DEFINE_integer("batch_size", 32, "Lines a batch.")
    flags.DEFINE_integer("num_lines", 2000, "Lines of ours that are timed.")
    flags.DEFINE_integer("original_lines", 192, "Lines of the original.")
    turns.define_flags(SIDES)
    app.run(main)
