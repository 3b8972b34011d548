r"""Rates texts on several scales; `label` holds the ratings of `text`, such as "4 2.5".

    python -m examples.run_ratings --pretrained=models/minilm --do_train --do_eval \
        --train_file=train.tsv --dev_file=dev.tsv --output_dir=output/ratings

This is an example of a complete script for a new task.
"""

import dataclasses
import functools
import json
import os
from typing import Any, NamedTuple

from cli import command_line
from tasks.settings import fine_tuning, model, tables, training


@dataclasses.dataclass(frozen=True, kw_only=True)
class RatingSettings(
    tables.Files, training.Evaluates, model.MaxSeqLength, fine_tuning.FineTuning
):
    """The files of the splits, beside what all fine-tuning has."""

    program = "examples.run_ratings"


if __name__ == "__main__":  # before the imports that take seconds
    given = command_line.parse(RatingSettings, __doc__)
    command_line.load_tensorflow()

import numpy as np
from keras import ops

from contract import atomic_files, features, file_names, outcomes
from data_pipeline import findings, label_maps
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding
from data_pipeline.tables import labelled
from modeling import losses, models
from serving import export
from tasks import fine_tuning as tuning
from tasks import networks, run_plans
from training import metrics


class Scales(NamedTuple):
    """The classes of a head of ratings, which have no names."""

    num_outputs: int
    names: tuple[str, ...] = ()
    problem_type: str = "ratings"


def read(path, encode):
    opened = labelled.open_table(path, labelled.Layout(), labels_required=True)
    table = opened.read(findings.show)
    ratings = np.array([label.split() for label in table.labels], np.float32)
    packed = encoding.featurize(table, encode)
    return batching.Examples(
        packed,
        names=lambda indices: [f"{path}:{table.lines[i]}" for i in indices],
        digest=lambda: packing.digest(packed, ratings),
        targets={features.LABEL_IDS: ratings},
    )


def prepare(settings: RatingSettings):
    strategy = run_plans.set_up(settings)
    opened = networks.open_for_task(settings, settings.max_seq_length)
    encode = encoding.Encoder(opened.tokenizer, settings.max_seq_length)
    paths = settings.paths(settings.wanted_splits, "texts")
    splits = {split: read(path, encode) for split, path in paths.items()}
    given = next(iter(splits.values())).targets[features.LABEL_IDS]
    scales: Any = Scales(given.shape[1])
    head = run_plans.first_head(settings, opened, "classifier")
    trains = settings.do_train
    label_maps.follow(head, scales, "the ratings", trains=trains, show=findings.show)
    plan = run_plans.fine_tuning_plan(
        settings,
        strategy,
        opened,
        num_examples=len(splits.get("train", ())),
        score_names=("pearson",),
    )
    return RatingTask(settings, opened, encode, splits, scales), plan


def count(batch):
    return {"rating_loss": ops.cast(ops.size(batch[features.LABEL_IDS]), "float32")}


def squared_error(batch, outputs):
    difference = outputs["logits"] - batch[features.LABEL_IDS]
    return {"rating_loss": ops.sum(difference**2)}


class RatingTask(tuning.FineTuningTask):
    """Rates texts on several scales by the squared error."""

    objective = losses.Objective(count, squared_error)

    def __init__(self, settings, opened, encode, splits, scales):
        super().__init__(settings, opened, splits, identity={})
        self._encode, self.classes = encode, scales
        self.load_weights = functools.partial(self.load_weights, classes=scales)

    def examples(self, split):
        return self.data[split]

    def make_model(self):
        return models.BertClassifier(self.config, self.classes.num_outputs)

    def score(self, split, outputs, batch_size):
        expected = self.splits[split].targets[features.LABEL_IDS]
        scales = zip(expected.T, outputs["logits"].T, strict=True)
        pearson = np.mean([metrics.pearson(*scale) for scale in scales])
        return outcomes.Scored(
            predictions=outputs["logits"], scores={"pearson": pearson}
        )

    def predict(self, scored, plan, step):
        path = os.path.join(plan.output_dir, file_names.TEST_PREDICTIONS)
        if plan.writes:
            lines = (json.dumps(row) + "\n" for row in scored.predictions.tolist())
            atomic_files.write({path: lines})
        return scored.results("test")

    def served(self, model, variables):
        return export.TextClassifier(
            self._encode,
            lambda batch: {"probabilities": model(batch, training=False)["logits"]},
            variables,
            (),
            model.config,
        )

    def open_export(self, path):
        return None

    def write_report(self, *run):
        """Has none, for which ratings would need outcomes by row."""


def run(settings: RatingSettings):
    run_plans.fine_tune(prepare, settings)


if __name__ == "__main__":
    command_line.run(run, given)
