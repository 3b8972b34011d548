r"""Rates texts on several scales; `label` holds the ratings of `text`, such as "4 2.5".

    python -m examples.run_ratings --pretrained=models/minilm --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --output_dir=output/ratings

This is an example of a complete script for a new task, based on training/driver.py.
"""

import functools
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
from modeling.checkpoints import checkpoint, pretrained
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
    path, rules = FLAGS[f"{split}_file"].value, {"allow_empty_text": False}
    table = tables.read_table(path, tables.Layout(), labels_required=True, **rules)
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
    files, tokenizer, config = networks.open_for_task(FLAGS.max_seq_length)
    encode = encoding.Encoder(tokenizer, FLAGS.max_seq_length)
    splits = {split: read(split, encode) for split in fine_tuning_flags.wanted_splits()}
    num_scales = next(iter(splits.values())).targets[features.LABEL_IDS].shape[1]
    scales, head = Scales(num_scales), run_flags.find_head(files, config, "classifier")
    label_maps.follow(head, scales, "the ratings", trains=FLAGS.do_train)
    task = driver.FineTuningTask(
        splits=splits,
        model=functools.partial(models.BertClassifier, config, num_scales),
        load_weights=networks.weights_loader(scales),
        store=checkpoint.store,
        objective=losses.Objective(count, squared_error),
        score=functools.partial(score, splits),
        predict=write_ratings,
        export=functools.partial(export_model, encode),
        files=pretrained.files(config, tokenizer),
    )
    return task, run_flags.fine_tuning_settings(
        strategy,
        files=files,
        config=config.to_dict(),
        num_examples=len(splits.get("train", ())),
        score_names=("pearson",),
    )


def count(batch):
    return {"rating_loss": ops.cast(ops.size(batch[features.LABEL_IDS]), "float32")}


def squared_error(batch, outputs):
    difference = outputs["logits"] - batch[features.LABEL_IDS]
    return {"rating_loss": ops.sum(difference**2)}


def score(splits, split, outputs, _):
    expected, ratings = splits[split].targets[features.LABEL_IDS], outputs["logits"]
    scales = zip(expected.T, ratings.T, strict=True)
    return Rated(ratings, {"pearson": np.mean([metrics.pearson(*s) for s in scales])})


def write_ratings(rated, settings, _):
    path = os.path.join(settings.output_dir, file_names.TEST_PREDICTIONS)
    if settings.writes:
        lines = (json.dumps(row) + "\n" for row in rated.ratings.tolist())
        atomic_files.write({path: lines})
    return rated.results("test")


def export_model(encode, model, output_dir):
    module = export.TextClassifier(
        encode,
        lambda batch: {"probabilities": model(batch, training=False)["logits"]},
        *([variable.value for variable in model.variables], ()),
    )
    return export.save(module, os.path.join(output_dir, "export"), {})


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
