"""Draws what benchmarks.growth measured.

    python -m benchmarks.growth_plots --input_file=output/growth/growth.json \
        --output_dir=docs/images

Writes growth_training.svg and growth_creation.svg, of what the file has. They have no
background and colours that show on white and on black.
"""

import json
import os
import pathlib

import matplotlib
from absl import app, flags
from matplotlib import figure as figures

from benchmarks import growth, report
from contract import errors

FLAGS = flags.FLAGS
INK, LINE = "#80868b", "#3d85d8"  # a contrast of 3.5 and more to white and to black
STYLE = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8,
    "grid.alpha": 0.3,
    "grid.color": INK,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "growth",  # the same names in every run
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
SHARE = "share_of_peak"
# (key of a point, label, divisor) across, and down.
SIZES = (
    ("train_batch_size", "batch, sequences", 1),
    ("max_seq_length", "length, tokens", 1),
    ("num_hidden_layers", "layers", 1),
    ("hidden_size", "width", 1),
)
TRAINING = (
    ("tokens_per_second", "1,000 tokens/s", 1000),
    (SHARE, "share of peak", 1),
    ("peak_memory_mb", "memory, GB", 1000),
)
CREATION_SIZES = (("megabytes", "corpus, MB", 1), ("num_workers", "workers", 1))
CREATION = (
    ("instances_per_second", "1,000 records/s", 1000),
    ("most_memory_megabytes", "memory, GB", 1000),
)


def series(points, middle, name):
    """The points that differ from the middle in no other size, in order."""
    others = {key: value for key, value in middle.items() if key != name}
    found = [point for point in points if others.items() <= point.items()]
    return sorted(found, key=lambda point: point[name])


def creation_middle(points):
    """What corpora are varied around: the smallest, by most workers."""
    return {
        "corpus_copies": min(point["corpus_copies"] for point in points),
        "num_workers": max(point["num_workers"] for point in points),
    }


def where(results):
    """Processor and versions, for a caption."""
    versions = ", ".join(f"{name} {v}" for name, v in results["versions"].items())
    return f"{report.machine_line(results['machine'])}; {versions}"


def panels(columns, rows, title, path):
    """Draws a grid of small plots: a column for each size, a row for each figure.

    Args:
        columns: (points, (key, label, divisor)) each.
        rows: (key, label, divisor) each; all scales begin at 0.
    """
    with matplotlib.rc_context(STYLE):
        size = (2.2 * len(columns) + 0.6, 1.4 * len(rows) + 0.9)
        figure = figures.Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(rows), len(columns), sharex="col")
        for column, (points, (x, x_label, _)) in enumerate(columns):
            for row, (y, y_label, divisor) in enumerate(rows):
                axis = axes[row][column]
                axis.plot(
                    [point[x] for point in points],
                    [point[y] / divisor for point in points],
                    color=LINE,
                    marker="o",
                    markersize=3.5,
                )
                axis.grid(True)
                axis.set_xlim(0, 1.05 * max(point[x] for point in points))
                top = max(point[y] / divisor for point in points)
                axis.set_ylim(0, 1.0 if y == SHARE else 1.1 * top)
                if column == 0:
                    axis.set_ylabel(y_label)
            axes[-1][column].set_xlabel(x_label)
            axes[-1][column].xaxis.get_major_locator().set_params(integer=True)
        figure.suptitle(title, fontsize=8)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


def draw(results, output_dir):
    """Writes the pictures; returns their paths."""
    directory = pathlib.Path(output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    if points := results["training"]:
        middle = results["middle"]
        peak = max(point["peak_gflops"] for point in points)
        title = (
            "Training a classifier in float32, each size varied around "
            f"{middle['train_batch_size']} x {middle['max_seq_length']}, "
            f"{middle['num_hidden_layers']} layers x {middle['hidden_size']}\n"
            f"{where(results)}; matrix product {peak:.0f} GFLOP/s"
        )
        columns = [(series(points, middle, size[0]), size) for size in SIZES]
        written.append(directory / "growth_training.svg")
        panels(columns, TRAINING, title, written[-1])
    if points := results["creation"]:
        middle = creation_middle(points)
        title = (
            f"create_pretraining_data.py, {middle['num_workers']} workers on the left\n"
            f"{where(results)}"
        )
        names = ("corpus_copies", "num_workers")
        columns = [
            (series(points, middle, name), size)
            for name, size in zip(names, CREATION_SIZES, strict=True)
        ]
        written.append(directory / "growth_creation.svg")
        panels(columns, CREATION, title, written[-1])
    return written


def define_flags():
    """What is drawn, and where to."""
    flags.DEFINE_string(
        "input_file", None, f"The {growth.FILE_NAME} to draw.", required=True
    )
    flags.DEFINE_string("output_dir", None, "Where pictures go.", required=True)


def main(_):
    """Draws."""
    with errors.explained():
        with open(FLAGS.input_file, encoding="utf-8") as file:
            results = json.load(file)
        for path in draw(results, FLAGS.output_dir):
            print(f"wrote {os.fspath(path)}")


if __name__ == "__main__":
    define_flags()
    app.run(main)
