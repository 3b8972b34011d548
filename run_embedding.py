r"""Trains vectors of texts on what belongs together: pairs, scored pairs or labels.

Texts of equal meaning get near vectors; docs/text_vectors.md shows data and losses.

    python run_embedding.py --pretrained=DIR --do_train --do_eval \
        --train_file=pairs.tsv --dev_file=scored.tsv --output_dir=output/vectors
"""

import dataclasses
import functools
import json
import os

from absl import flags

from cli import command_line, embedding_flags, fine_tuning_flags

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_predict", "do_export")


def define_flags():
    fine_tuning_flags.define(*ACTIONS, max_seq_length=128)
    embedding_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    checks = fine_tuning_flags.check_run, embedding_flags.check
    command_line.parse(define_flags, *checks)

import numpy as np

from cli import embedding_task, fine_tuning, networks, run_flags
from contract import atomic_files, file_names, wording
from data_pipeline.classification import encoding
from data_pipeline.embedding import scores, search
from modeling import sequences, text_encoder
from modeling.checkpoints import sentence_transformers
from modeling.features import head_config
from serving import export, formats
from training import contrastive_step

_DRAWS = 10  # of labelled rows, for --num_labelled


def prepare():
    """The task and its settings; ValueError for wrong input."""
    strategy = run_flags.set_up()
    embedding_flags.check()
    opened = networks.open_for_task(FLAGS.max_seq_length)
    weights = run_flags.first_weights(opened.files)
    kept = embedding_task.choose_vectors(weights, opened.config)
    embedding_flags.check_model(opened.config, kept.text_vectors)
    splits = fine_tuning_flags.wanted_splits()
    if FLAGS.num_labelled and not FLAGS.do_train:
        splits = ["train", *splits]
    data, findings = embedding_task.load(splits, opened.tokenizer, kept)
    settings = run_flags.fine_tuning_settings(
        strategy,
        opened,
        num_examples=len(data.get("train", ())),
        score_names=embedding_task.score_names(data.get("dev")),
        has_head=bool(kept.text_vectors.projections),
    )
    if FLAGS.teacher and FLAGS.do_train:
        data["train"] = embedding_task.with_teacher(data["train"], settings)
    return EmbeddingTask(opened, data, kept, findings), settings


class EmbeddingTask(fine_tuning.ScriptTask):
    """Vectors of texts.

    Args:
        data: {split: TextSplit or RetrievalSplit}.
        kept: the SentenceTransformer to train or to use.
        findings: warnings of the rows, for the report.
    """

    kind = "sentence-similarity"
    make_step = contrastive_step.ContrastiveTrainStep

    def __init__(self, opened, data, kept, findings=()):
        self.modules = kept
        self.more_facts = {"findings": findings}
        self._vectors, self._similarity = kept.text_vectors, kept.similarity
        values = dataclasses.asdict(kept.text_vectors)
        identity = {"vectors": {k: v for k, v in values.items() if v is not None}}
        super().__init__(opened, data, identity=identity)
        if FLAGS.do_train:
            width = self._vectors.width(self.config.hidden_size)
            self.objective = embedding_task.objective(data["train"], width)
        self._rerank = embedding_task.open_reranker() if FLAGS.reranker else None
        formats.check(FLAGS.export_format, self.config, head_config.ORIGINAL)
        described = text_encoder.TextEncoder(self.config, self._vectors)
        self.files |= sentence_transformers.files(described, kept)
        self.export_files = sentence_transformers.similarity_file(kept.similarity)

    def make_model(self):
        return text_encoder.TextEncoder(
            self.config, self._vectors, recompute=FLAGS.recompute
        )

    def score(self, split, outputs, batch_size):
        vectors = outputs["vectors"]
        return embedding_task.score(self.data[split], vectors, self._similarity)

    def results(self, scored):
        return embedding_task.evaluate(self.data["dev"], self._rerank, scored)

    def show(self, model, scored, settings):
        """Prints and writes few_labels.json: accuracies with few rows a class."""
        if not FLAGS.num_labelled:
            return
        train, dev = self.data["train"], self.data["dev"]
        vectors = settings.predictor(model)(train.examples())["vectors"]
        accuracies = scores.few_labels(
            search.normalize(vectors),
            train.labels,
            search.normalize(scored.vectors),
            dev.labels,
            num_labelled=FLAGS.num_labelled,
            draws=_DRAWS,
            seed=FLAGS.seed,
        )
        count = FLAGS.num_labelled
        for name, values in accuracies.items():
            mean, deviation = (wording.score(values[key]) for key in values)
            print(f"  {name} of {count} rows a label = {mean} +- {deviation}")
        if settings.run.writes:
            path = os.path.join(settings.run.output_dir, file_names.FEW_LABELS)
            atomic_files.write_text(path, json.dumps(accuracies, indent=2) + "\n")

    def predict(self, scored, current, step):
        """Writes the vectors of the test rows; returns their scores."""
        if current.writes:
            path = os.path.join(current.output_dir, file_names.TEST_VECTORS)
            text_ids = self.data["test"].text_ids
            np.savez(path, vectors=scored.vectors, text_ids=text_ids)
            print(f"vectors: {path}")
        return scored.results("test")

    def open_export(self, path):
        if (network := formats.open_network(path)) is None:
            return None

        def forward(features, training=False):
            rows_of_texts = sequences.as_rows(features)
            vectors = network(rows_of_texts, training=training)["vectors"]
            return {"vectors": sequences.by_example(vectors, features)}

        return forward

    def served(self, model, variables):
        """Raw text in, its vector out."""
        return export.TextModel(
            encoding.Encoder(self.tokenizer, FLAGS.max_seq_length),
            functools.partial(model, training=False),
            variables,
            lambda _, outputs: {"vector": outputs["vectors"]},
            model.config,
            names=["embed"],
        )


def main(_):
    run_flags.fine_tune(prepare)


if __name__ == "__main__":
    command_line.run(main)
