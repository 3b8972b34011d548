r"""Rates texts on several scales; `label` holds the ratings of `text`, such as "4 2.5".

    python -m examples.run_ratings --pretrained=models/minilm --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --output_dir=output/ratings

This is an example of a complete script for a new task, based on training/driver.py.
"""

import json
import os
from typing import Any, NamedTuple

from absl import flags

from cli import command_line, fine_tuning_flags

FLAGS = flags.FLAGS


@command_line.heading("Data")
def define_flags():
    actions = ("do_train", "do_eval", "do_predict", "do_export")
    fine_tuning_flags.define(*actions, max_seq_length=128)
    for split in ("train", "dev", "test"):
        flags.DEFINE_string(
            f"{split}_file", None, f"TSV, CSV or JSONL file of the {split} set."
        )


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, fine_tuning_flags.check_run)

import numpy as np
from keras import ops

from cli import networks, run_flags
from contract import atomic_files, features, file_names
from data_pipeline import label_maps
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, tables
from modeling import losses, models
from modeling.checkpoints import pretrained
from serving import export
from training import driver, metrics


class Scales(NamedTuple):
    """The classes of a head of ratings, which have no names."""

    num_outputs: int
    names: tuple[str, ...] = ()
    problem_type: str = "ratings"


class Rated(NamedTuple):
    """The ratings of a split, [N, scales], and how they correlate with those given."""

    ratings: np.ndarray
    scores: dict[str, Any]

    def results(self, prefix):
        return {f"{prefix}_{name}": value for name, value in self.scores.items()}


def read(split, encode):
    path = FLAGS[f"{split}_file"].value
    table = tables.read_table(path, tables.Layout(), labels_required=True)
    ratings = np.array([label.split() for label in table.labels], np.float32)
    packed = encoding.featurize(table, encode)
    return batching.Examples(
        packed,
        names=lambda indices: [f"{path}:{table.lines[i]}" for i in indices],
        digest=lambda: packing.digest(packed, ratings),
        targets={features.LABEL_IDS: ratings},
    )


def prepare():
    strategy = run_flags.set_up()
    opened = networks.open_for_task(FLAGS.max_seq_length)
    encode = encoding.Encoder(opened.tokenizer, FLAGS.max_seq_length)
    splits = {split: read(split, encode) for split in fine_tuning_flags.wanted_splits()}
    scales = Scales(next(iter(splits.values())).targets[features.LABEL_IDS].shape[1])
    head = run_flags.find_head(opened, "classifier")
    label_maps.follow(head, scales, "the ratings", trains=FLAGS.do_train)
    settings = run_flags.fine_tuning_settings(
        strategy,
        opened,
        num_examples=len(splits.get("train", ())),
        score_names=("pearson",),
    )
    return RatingTask(opened, encode, splits, scales), settings


def count(batch):
    return {"rating_loss": ops.cast(ops.size(batch[features.LABEL_IDS]), "float32")}


def squared_error(batch, outputs):
    difference = outputs["logits"] - batch[features.LABEL_IDS]
    return {"rating_loss": ops.sum(difference**2)}


class RatingTask(driver.FineTuningTask):
    """Rates texts on several scales by the squared error."""

    objective = losses.Objective(count, squared_error)

    def __init__(self, opened, encode, splits, scales):
        self.config, self.splits = opened.config, splits
        self.files = pretrained.files(opened.config, opened.tokenizer)
        self._encode, self._scales = encode, scales

    def make_model(self):
        return models.BertClassifier(self.config, self._scales.num_outputs)

    def load_weights(self, model, path, **stage):
        return networks.load_weights(model, path, self._scales, **stage)

    def score(self, split, outputs, batch_size):
        expected = self.splits[split].targets[features.LABEL_IDS]
        scales = zip(expected.T, outputs["logits"].T, strict=True)
        pearson = np.mean([metrics.pearson(*scale) for scale in scales])
        return Rated(outputs["logits"], {"pearson": pearson})

    def predict(self, scored, current, step):
        path = os.path.join(current.output_dir, file_names.TEST_PREDICTIONS)
        if current.writes:
            lines = (json.dumps(row) + "\n" for row in scored.ratings.tolist())
            atomic_files.write({path: lines})
        return scored.results("test")

    def export(self, model, output_dir):
        module = export.TextClassifier(
            self._encode,
            lambda batch: {"probabilities": model(batch, training=False)["logits"]},
            [variable.value for variable in model.variables],
            (),
        )
        return export.save(module, os.path.join(output_dir, "export"), {})


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
