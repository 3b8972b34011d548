"""Rows, scores, teachers and rerankers of run_embedding.py."""

import dataclasses
from typing import Any

import numpy as np

from contract import errors, outcomes
from data_pipeline import findings
from data_pipeline.embedding import corpora, scores, search, split
from data_pipeline.tables import labelled
from modeling import contrastive
from modeling.checkpoints import checkpoint, places, sentence_transformers
from modeling.features import text_vectors
from serving import reranking
from tasks import networks
from tasks.settings import embedding
from terminal import progress
from training import contrastive_step, inference, metrics

_RERANKED_QUERIES = 16  # at a time
_RANKS = ("mrr_at_10", "ndcg_at_10", "recall_at_1", "recall_at_10")
_OBJECTIVES: dict[str, Any] = {
    embedding.IN_BATCH: contrastive.in_batch_negatives,
    embedding.COSENT: contrastive.cosent,
    embedding.COSINE: contrastive.cosine_regression,
    embedding.TRIPLET: contrastive.triplet_margin,
    embedding.LABELS: contrastive.labelled_texts,
    embedding.DISTILLATION: contrastive.distillation,
}
# Scores of each kind of rows; the first decides which checkpoint is best.
SCORES = {
    corpora.PAIRS: _RANKS,
    corpora.TRIPLETS: (*_RANKS, "triplet_accuracy"),
    corpora.RETRIEVAL: ("ndcg_at_10", "mrr_at_10", "map_at_100", "recall_at_100"),
    corpora.SCORED: ("spearman", "pearson"),
    corpora.LABELLED: ("neighbour_accuracy",),
}


def score_names(texts):
    """The scores of a TextSplit, or of None, that may select a checkpoint."""
    if texts is None:
        return ()
    names = ("average_precision", "accuracy", "f1") if texts.is_binary else ()
    return (*names, *SCORES[texts.kind])


def choose_vectors(settings: embedding.EmbeddingSettings, path, config):
    """The SentenceTransformer to train or to use: as at `path`, or as the settings say.

    Raises:
        ValueError: it does not fit the config, or ranks by distances.
    """
    kept = sentence_transformers.read(path) if path else None
    if kept is None:
        vectors = text_vectors.TextVectors()
        kept = sentence_transformers.SentenceTransformer(text_vectors=vectors)
    else:
        sentence_transformers.check(kept, config)
        sentence_transformers.check_products(kept)
        checkpoint.open_projections(kept, config, places.open_file(path, config))
    changes: dict[str, Any] = {
        "pooling": settings.pooling,
        "is_normalized": settings.normalize,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    prompts = dict(kept.prompts)
    for name, usual in kept.usual_prompts().items():
        prompt = getattr(settings, f"{name}_prompt")
        first, *_ = names = sentence_transformers.PROMPTS[name]
        there = prompts.keys() & names
        if prompt is not None:
            prompts |= dict.fromkeys({first, *there}, prompt)
        elif usual or there:
            prompts.setdefault(first, usual)
    return dataclasses.replace(
        kept,
        text_vectors=dataclasses.replace(kept.text_vectors, **changes),
        prompts=prompts,
        max_seq_length=settings.max_seq_length,
    )


def load(settings: embedding.EmbeddingSettings, splits, tokenizer, kept):
    """{split: TextSplit} of the files that the settings name, and warnings of them."""
    data: dict[str, Any] = {}
    label_names: tuple[str, ...] = ()
    limits, before = (
        (tokenizer, settings.max_seq_length),
        tuple(kept.usual_prompts().values()),
    )
    for name in splits:
        if name == "dev" and settings.corpus_file:
            flags_of_files = embedding.RETRIEVAL_FILES
            files = [str(getattr(settings, flag)) for flag in flags_of_files]
            data[name] = split.load_retrieval(
                name, files, *limits, prompts=before, show=findings.show
            )
            continue
        (path,) = settings.paths([name], "rows").values()
        source: Any = {"tfds": settings.tfds_name, "data_dir": settings.data_dir}
        # Vectors have the order and number of the test rows, without those of empty
        # cells.
        layout = dataclasses.replace(settings.layout(), leaves_out=name != "test")
        rows = corpora.open_rows(path, layout, **source)
        column = settings.label_column
        if column and labelled.LABEL not in rows.opened.keys and name == "train":
            raise errors.InputError(
                f"{path}: no label is in the column {column!r} "
                f"({rows.opened.summary()}); correct --label_column, or leave it out"
            )
        table = rows.read(findings.show)
        data[name] = split.load(
            name,
            table,
            *limits,
            prompts=before,
            label_names=label_names,
            has_teacher=name == "train" and bool(settings.teacher),
            show=findings.show,
        )
        label_names = data[name].label_names
    noticed = split.oddities(data)
    findings.show(noticed)
    kinds = {data[name].kind for name in ("train", "dev") if name in data}
    if settings.num_labelled and kinds != {corpora.LABELLED}:
        raise errors.InputError(
            f"--num_labelled={settings.num_labelled} is for labelled texts, and the "
            f"rows are {' and '.join(sorted(kinds))}; leave it out"
        )
    if settings.rows_per_label and (train := data.get("train")):
        if train.kind != corpora.LABELLED:
            raise errors.InputError(
                f"--rows_per_label={settings.rows_per_label} is for labelled texts, "
                f"and the rows are {train.kind}; leave it out"
            )
        count = settings.rows_per_label
        data["train"] = dataclasses.replace(train, rows_per_label=count)
    return data, findings.warnings(noticed)


def objective(settings: embedding.EmbeddingSettings, texts, width):
    """The objective for training rows, a TextSplit, and vectors of a width."""
    name = settings.chosen_loss(texts.kind)
    if name == embedding.LABELS and not texts.rows_per_label:
        _hint_at_labels(texts.labels, settings.train_batch_size)
    if name == embedding.COSINE:
        _check_scores(texts, settings.largest_score)
    values = [getattr(settings, flag) for flag in embedding.READS[name]]
    scope = contrastive_step.scope(settings.dimensions(width))
    return _OBJECTIVES[name](*values, scope=scope)


def _check_scores(texts, largest):
    """Refuses scores that stand for no cosine, as those of another scale do."""
    sizes = np.abs(texts.labels)
    if sizes.max() > np.float32(largest):
        row = int(np.argmax(sizes))
        raise errors.InputError(
            f"{texts.path}:{texts.table.lines[row]}: the score {texts.labels[row]:g} "
            f"is beyond --largest_score={largest:g}, which stands for the cosine 1; "
            f"pass --largest_score={sizes[row]:g}"
        )


def _hint_at_labels(label_ids, batch_size):
    """Prints a line where most rows are alone with their label in a batch."""
    counts, size = np.bincount(label_ids), len(label_ids)
    absent = max(1 - (batch_size - 1) / (size - 1), 0.0)  # share of rows, for each row
    alone = np.sum(counts * absent ** np.maximum(counts - 1, 0)) / size
    if alone > 1 / 2:
        print(
            f"hint: {np.count_nonzero(counts)} labels in {size} rows: {alone:.0%} of "
            "the rows in a batch are alone with theirs; pass --rows_per_label=2, or "
            f"raise --train_batch_size={batch_size}"
        )


def with_teacher(settings: embedding.EmbeddingSettings, texts, plan):
    """A TextSplit with the vectors of its texts by the model in --teacher."""
    opened, length = networks.open_named(settings, "teacher", "text_encoder")
    with plan.strategy.scope():
        built: Any = opened.read("text_encoder")
    print(f"teacher: {built.report}")
    known = split.load(
        "teacher",
        texts.table,
        opened.tokenizer,
        length,
        prompts=tuple(built.modules.usual_prompts().values()),
        has_teacher=True,
        show=findings.show,
    )
    vectors = inference.predictor(plan, built.model)(known.examples())["vectors"]
    return dataclasses.replace(texts, teacher_vectors=vectors)


def score(texts, vectors, similarity=text_vectors.COSINE):
    """The Scored of a TextSplit with vectors [N, G, W] or, of single texts, [N, W].

    Its details are, of retrieval, the passages found for each query, int [Q, R].
    """
    is_dot = similarity == text_vectors.DOT
    scaled = np.asarray(vectors, np.float32) if is_dot else search.normalize(vectors)
    kind, ranked = texts.kind, None
    if kind == corpora.RETRIEVAL:
        count = len(texts.data.queries)
        own = texts.data.own_passages()
        vectors_of = scaled[:count], scaled[count:]
        ranked, _ = search.nearest(*vectors_of, scores.RANKED, left_out=own)
        results = scores.retrieval_scores(ranked, texts.data.relevant)
    elif kind == corpora.SCORED:
        cosines = np.sum(scaled[:, 0] * scaled[:, 1], axis=-1)
        results = metrics.compute(SCORES[kind], texts.labels, cosines)
        if texts.is_binary:
            results = scores.pair_scores(texts.labels, cosines) | results
            return outcomes.Scored(predictions=vectors, scores=results)
    elif kind == corpora.LABELLED:
        accuracy = scores.nearest_label_accuracy(scaled, texts.labels)
        results = {"neighbour_accuracy": accuracy}
    else:
        results = _ranks(texts.text_ids, scaled)
    results = {name: results[name] for name in SCORES[kind]}
    return outcomes.Scored(predictions=vectors, scores=results, details=ranked)


def _ranks(ids, vectors):
    """Where each first text finds those that belong to it, among all other texts."""
    anchors, first_rows = np.unique(ids[:, 0], return_index=True)
    others, places = np.unique(ids[:, 1:], return_index=True)
    corpus = vectors[:, 1:].reshape(-1, vectors.shape[-1])[places]
    ranked, _ = search.nearest(vectors[first_rows, 0], corpus, scores.RANKED)
    relevant: list[dict[int, float]] = [{} for _ in anchors]
    pairs = np.searchsorted(anchors, ids[:, 0]), np.searchsorted(others, ids[:, 1])
    for anchor, other in zip(*map(np.ndarray.tolist, pairs), strict=True):
        relevant[anchor][other] = 1.0
    cosines = np.einsum("nw,ngw->ng", vectors[:, 0], vectors[:, 1:])
    is_right = (cosines[:, :1] > cosines[:, 1:]).all(axis=1)
    results = scores.retrieval_scores(ranked, relevant)
    return {**results, "triplet_accuracy": np.mean(is_right)}


def open_reranker(settings: embedding.EmbeddingSettings):
    """A function of N queries and N passages to scores float [N], by --reranker."""
    reranker = reranking.open_source(
        str(settings.reranker),
        settings.reranker_label,
        settings.predict_batch_size,
        check_case=settings.check_case,
        check_tokenizer=settings.check_tokenizer,
    )
    print(f"reranker: {reranker.report}")
    return reranker.scores


def evaluate(texts, reranker, scored):
    """The results of the dev rows, also where a reranker orders what was found."""
    results = scored.results("eval")
    if not reranker:
        return results
    data, ranked = texts.data, scored.details.copy()
    own = data.own_passages()
    parts = progress.slices(len(ranked), _RERANKED_QUERIES, "reranking: query")
    for part in parts:
        places = ranked[part]
        queries = np.repeat(data.queries[part], places.shape[1]).tolist()
        values = reranker(queries, [data.passages[i] for i in places.ravel()])
        order = -values.reshape(places.shape)
        if own is not None:
            order[places == own[part, None]] = np.inf
        order = np.argsort(order, axis=1, kind="stable")
        ranked[part] = np.take_along_axis(places, order, axis=1)
    reranked = scores.retrieval_scores(ranked, data.relevant)
    names = SCORES[corpora.RETRIEVAL][:-1]  # the recall of all is the same
    return {**results, **{f"eval_reranked_{name}": reranked[name] for name in names}}
