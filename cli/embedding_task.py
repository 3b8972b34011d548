"""Scores, predictions and exports of run_embedding.py."""

import dataclasses
import functools
import json
import os
from typing import Any

import numpy as np
from absl import flags

from cli import embedding_flags
from contract import atomic_files, errors, file_names, wording
from data_pipeline.embedding import rows, scores, search, split
from modeling import contrastive, sequences
from modeling.checkpoints import sentence_transformers
from modeling.features import text_vectors
from serving import formats
from training import contrastive_step, loading, metrics

FLAGS = flags.FLAGS
PROMPTS = ("query", "passage")  # of the first text of a row, and of the others
_DRAWS = 10
_RANKED = 100  # texts that scores of retrieval look at
# Scores of each kind of rows; the first decides which checkpoint is best.
SCORES = {
    rows.PAIRS: ("mrr_at_10", "ndcg_at_10", "recall_at_1", "recall_at_10"),
    rows.TRIPLETS: (
        "mrr_at_10",
        "ndcg_at_10",
        "recall_at_1",
        "recall_at_10",
        "triplet_accuracy",
    ),
    rows.RETRIEVAL: ("ndcg_at_10", "mrr_at_10", "map_at_100", "recall_at_100"),
    rows.SCORED: ("spearman", "pearson"),
    rows.LABELLED: ("neighbour_accuracy",),
}


def choose_vectors(path):
    """The SentenceTransformer to train or to use: as at `path`, or as the flags say."""
    kept = sentence_transformers.read(path) if path else None
    if kept is None:
        vectors = text_vectors.TextVectors()
        kept = sentence_transformers.SentenceTransformer(text_vectors=vectors)
    changes = {"pooling": FLAGS.pooling, "is_normalized": FLAGS.normalize}
    changes = {name: value for name, value in changes.items() if value is not None}
    prompts = dict(kept.prompts) | _prompts(kept)
    for name in PROMPTS:
        if (prompt := FLAGS[f"{name}_prompt"].value) is not None:
            prompts[name] = prompt
    return dataclasses.replace(
        kept,
        text_vectors=dataclasses.replace(kept.text_vectors, **changes),
        prompts=prompts,
        max_seq_length=FLAGS.max_seq_length,
    )


def _prompts(kept):
    """The prompts of a model for each of PROMPTS, where it has some."""
    prompts = {name: kept.prompt_for(name) for name in PROMPTS}
    return {name: prompt for name, prompt in prompts.items() if prompt is not None}


def _of_rows(prompts):
    """The texts before the first text of a row, and before the others."""
    query, passage = (prompts.get(name, "") for name in PROMPTS)
    return query, passage


def load(splits, tokenizer, prompts):
    """{split: TextSplit} of the files that the flags name."""
    data: dict[str, Any] = {}
    label_names: tuple[str, ...] = ()
    limits = tokenizer, FLAGS.max_seq_length
    before = _of_rows(prompts)
    for name in splits:
        if name == "dev" and FLAGS.corpus_file:
            flags_of_files = embedding_flags.RETRIEVAL_FILES
            files = [str(FLAGS[flag].value) for flag in flags_of_files]
            data[name] = split.load_retrieval(name, files, *limits, prompts=before)
            continue
        path = FLAGS[f"{name}_file"].value
        if not path:
            raise errors.InputError(
                f"the {name} rows are needed and --{name}_file is not set; set it"
            )
        table = rows.read(
            path,
            embedding_flags.layout(),
            tfds=FLAGS.tfds_name,
            data_dir=FLAGS.data_dir,
        )
        data[name] = split.load(
            name,
            table,
            *limits,
            prompts=before,
            label_names=label_names,
            has_teacher=name == "train" and bool(FLAGS.teacher),
        )
        label_names = data[name].label_names
    kinds = {data[name].kind for name in ("train", "dev") if name in data}
    if FLAGS.num_labelled and kinds != {rows.LABELLED}:
        raise errors.InputError(
            f"--num_labelled={FLAGS.num_labelled} is for labelled texts, and the rows "
            f"are {' and '.join(sorted(kinds))}; leave it out"
        )
    return data


def objective(kind, width):
    """The objective for training rows of a kind, and vectors of a width."""
    build = {
        embedding_flags.IN_BATCH: functools.partial(
            contrastive.in_batch_negatives, FLAGS.scale, is_symmetric=FLAGS.symmetric
        ),
        embedding_flags.LABELS: functools.partial(
            contrastive.labelled_texts, FLAGS.scale
        ),
        embedding_flags.COSENT: functools.partial(contrastive.cosent, FLAGS.scale),
        embedding_flags.COSINE: functools.partial(
            contrastive.cosine_regression, FLAGS.largest_score
        ),
        embedding_flags.TRIPLET: functools.partial(
            contrastive.triplet_margin, FLAGS.triplet_margin
        ),
        embedding_flags.DISTILLATION: contrastive.distillation,
    }[embedding_flags.loss(kind)]
    return build(scope=contrastive_step.scope(embedding_flags.dimensions(width)))


def with_teacher(texts, settings):
    """A TextSplit with the vectors of its texts by the model in --teacher."""
    opened, length = loading.open_directory(
        FLAGS.teacher, None, None, FLAGS.check_case, "text_encoder", name="--teacher"
    )
    with settings.run.strategy.scope():
        built = loading.with_stored_head(opened, "text_encoder")
    print(f"teacher: {built.report}")
    kept = _prompts(built.modules) if built.modules else {}
    known = split.load(
        "teacher",
        texts.table,
        opened.tokenizer,
        length,
        prompts=_of_rows(kept),
        has_teacher=True,
    )
    vectors = settings.predictor(built.model)(known.examples())["vectors"]
    return dataclasses.replace(texts, teacher_vectors=vectors)


@dataclasses.dataclass(frozen=True)
class Scored:
    """Vectors of the rows of a split, float32 [N, G, W], and their scores."""

    vectors: np.ndarray
    scores: dict[str, Any]

    def results(self, prefix):
        """The scores as eval_results.txt has them."""
        return {f"{prefix}_{name}": value for name, value in self.scores.items()}


def score(texts, vectors):
    """The Scored of a TextSplit with vectors [N, G, W] or, of single texts, [N, W]."""
    functions = {
        rows.RETRIEVAL: _retrieval,
        rows.SCORED: _correlations,
        rows.LABELLED: _neighbours,
    }
    compute = functions.get(texts.kind, _ranks)
    return Scored(vectors, compute(texts, search.normalize(vectors)))


def _correlations(texts, vectors):
    cosines = np.sum(vectors[:, 0] * vectors[:, 1], axis=-1)
    return metrics.compute(SCORES[texts.kind], texts.labels, cosines)


def _ranks(texts, vectors):
    """Where each first text finds those that belong to it, among all other texts."""
    ids = texts.text_ids
    anchors, first_rows = np.unique(ids[:, 0], return_index=True)
    others, places = np.unique(ids[:, 1:], return_index=True)
    corpus = vectors[:, 1:].reshape(-1, vectors.shape[-1])[places]
    ranked, _ = search.nearest(vectors[first_rows, 0], corpus, _RANKED)
    relevant: list[set[int]] = [set() for _ in anchors]
    pairs = np.searchsorted(anchors, ids[:, 0]), np.searchsorted(others, ids[:, 1])
    for anchor, other in zip(*pairs, strict=True):
        relevant[anchor].add(int(other))
    results = scores.retrieval_scores(ranked, relevant)
    if texts.kind == rows.TRIPLETS:
        cosines = np.einsum("nw,ngw->ng", vectors[:, 0], vectors[:, 1:])
        is_right = (cosines[:, :1] > cosines[:, 1:]).all(axis=1)
        results["triplet_accuracy"] = np.mean(is_right)
    return {name: results[name] for name in SCORES[texts.kind]}


def _retrieval(texts, vectors):
    count = len(texts.data.queries)
    ranked, _ = search.nearest(vectors[:count], vectors[count:], _RANKED)
    results = scores.retrieval_scores(ranked, texts.data.relevant)
    return {name: results[name] for name in SCORES[texts.kind]}


def _neighbours(texts, vectors):
    accuracy = scores.nearest_label_accuracy(vectors, texts.labels)
    return {"neighbour_accuracy": accuracy}


def show_few_labels(data, model, scored, settings):
    """Prints and writes few_labels.json: accuracies with some labelled rows a class."""
    if not FLAGS.num_labelled:
        return
    train, dev = data["train"], data["dev"]
    vectors = settings.predictor(model)(train.examples())["vectors"]
    accuracies = scores.few_labels(
        search.normalize(vectors),
        train.labels,
        search.normalize(scored.vectors),
        dev.labels,
        FLAGS.num_labelled,
        _DRAWS,
        FLAGS.seed,
    )
    for name, values in accuracies.items():
        mean, deviation = (wording.score(values[key]) for key in values)
        print(f"  {name} of {FLAGS.num_labelled} rows a label = {mean} +- {deviation}")
    if settings.run.writes:
        path = os.path.join(settings.run.output_dir, file_names.FEW_LABELS)
        atomic_files.write_text(path, json.dumps(accuracies, indent=2) + "\n")


def reopen(path):
    """An export for another runtime, called as the model; as formats.open_network."""
    network = formats.open_network(path)
    if network is None:
        return None

    def forward(features, training=False):
        rows_of_texts = sequences.as_rows(features)
        vectors = network(rows_of_texts, training=training)["vectors"]
        return {"vectors": sequences.by_example(vectors, features)}

    return forward


def predict(texts, scored, settings):
    """Writes the vectors of the test rows; returns their scores."""
    if settings.writes:
        path = os.path.join(settings.output_dir, file_names.TEST_VECTORS)
        np.savez(path, vectors=scored.vectors, text_ids=texts.text_ids)
        print(f"vectors: {path}")
    return scored.results("test")
