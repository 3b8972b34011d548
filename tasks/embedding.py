"""Vectors of texts, trained on what belongs together."""

import dataclasses
import functools
import io
import json
import os
from typing import Any

import numpy as np

from contract import atomic_files, file_names, wording
from data_pipeline.classification import encoding
from data_pipeline.embedding import scores, search
from modeling import sequences, text_encoder
from modeling.checkpoints import sentence_transformers
from serving import export, formats
from tasks import embedding_rows, fine_tuning, hard_negatives, networks, run_plans
from tasks.settings.embedding import EmbeddingSettings
from training import contrastive_step, inference, run_plan

_DRAWS = 10  # of labelled rows, for --num_labelled


def prepare(settings: EmbeddingSettings) -> tuple["EmbeddingTask", run_plan.Plan]:
    """The task, and how to do it; InputError for wrong input."""
    strategy = run_plans.set_up(settings)
    opened = networks.open_for_task(settings, settings.max_seq_length)
    weights = run_plans.first_weights(settings, opened.files)
    kept = embedding_rows.choose_vectors(settings, weights, opened.config)
    settings.check_model(opened.config, kept.text_vectors)
    splits = settings.wanted_splits
    if settings.num_labelled and not settings.do_train:
        splits = ["train", *splits]
    data, findings = embedding_rows.load(settings, splits, opened.tokenizer, kept)
    plan = run_plans.fine_tuning_plan(
        settings,
        strategy,
        opened,
        num_examples=len(data.get("train", ())),
        score_names=embedding_rows.score_names(data.get("dev")),
        has_head=bool(kept.text_vectors.projections),
    )
    if settings.teacher and settings.do_train:
        data["train"] = embedding_rows.with_teacher(settings, data["train"], plan)
    files: dict[str, str] = {}
    if settings.hard_negatives and settings.do_train:
        data["train"], files = hard_negatives.add(
            settings, data["train"], opened, kept, plan
        )
    return EmbeddingTask(settings, opened, data, kept, findings, files), plan


class EmbeddingTask(fine_tuning.FineTuningTask):
    """Vectors of texts.

    Args:
        data: {split: TextSplit or RetrievalSplit}.
        kept: the SentenceTransformer to train or to use.
        findings: warnings of the rows, for the report.
        files: {name: text} of what the rows were made of, to store beside the weights.
    """

    kind = "sentence-similarity"
    make_step = contrastive_step.ContrastiveTrainStep

    def __init__(self, settings, opened, data, kept, findings=(), files=None):
        self.modules = kept
        self.more_facts = {"findings": findings}
        self._vectors, self._similarity = kept.text_vectors, kept.similarity
        values = dataclasses.asdict(kept.text_vectors)
        identity = {"vectors": {k: v for k, v in values.items() if v is not None}}
        super().__init__(settings, opened, data, identity=identity)
        if settings.do_train:
            width = self._vectors.width(self.config.hidden_size)
            self.objective = embedding_rows.objective(settings, data["train"], width)
        self._rerank = (
            embedding_rows.open_reranker(settings) if settings.reranker else None
        )
        described = text_encoder.TextEncoder(self.config, self._vectors)
        self.files |= sentence_transformers.files(described, kept) | (files or {})
        self.export_files = sentence_transformers.similarity_file(kept.similarity)

    def make_model(self):
        return text_encoder.TextEncoder(
            self.config, self._vectors, recompute=self.settings.recompute
        )

    def score(self, split, outputs, batch_size):
        vectors = outputs["vectors"]
        return embedding_rows.score(self.data[split], vectors, self._similarity)

    def results(self, scored):
        return embedding_rows.evaluate(self.data["dev"], self._rerank, scored)

    def show(self, model, scored, plan):
        """Prints and writes few_labels.json: accuracies with few rows a class."""
        if not self.settings.num_labelled:
            return
        train, dev = self.data["train"], self.data["dev"]
        vectors = inference.predictor(plan, model)(train.examples())["vectors"]
        accuracies = scores.few_labels(
            search.normalize(vectors),
            train.labels,
            search.normalize(scored.predictions),
            dev.labels,
            num_labelled=self.settings.num_labelled,
            draws=_DRAWS,
            seed=self.settings.seed,
        )
        count = self.settings.num_labelled
        for name, values in accuracies.items():
            mean, deviation = (wording.score(values[key]) for key in values)
            print(f"  {name} of {count} rows a label = {mean} +- {deviation}")
        if plan.writes:
            path = os.path.join(plan.output_dir, file_names.FEW_LABELS)
            atomic_files.write_text(path, json.dumps(accuracies, indent=2) + "\n")

    def predict(self, scored, plan, step):
        """Writes the vectors of the test rows; returns their scores."""
        if plan.writes:
            path = os.path.join(plan.output_dir, file_names.TEST_VECTORS)
            text_ids = self.data["test"].text_ids
            written = io.BytesIO()
            np.savez(written, vectors=scored.predictions, text_ids=text_ids)
            atomic_files.write_bytes(path, written.getvalue())
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
        length = self.settings.max_seq_length
        encode: Any = encoding.Encoder(self.tokenizer, length)
        return export.TextModel(
            encode,
            functools.partial(model, training=False),
            variables,
            lambda _, outputs: {"vector": outputs["vectors"]},
            model.config,
            names=["embed"],
        )


def run(settings: EmbeddingSettings) -> None:
    """What run_embedding.py does."""
    run_plans.fine_tune(prepare, settings)
