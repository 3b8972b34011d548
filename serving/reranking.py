"""Classifiers of pairs that rank passages for a query: a directory, or an export."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from contract import errors
from data_pipeline.classification import encoding, labels, predictions
from loading import model_directory
from modeling import losses
from modeling.checkpoints import checkpoint
from modeling.configs import config_limits
from serving import formats, predictor
from training import inference

_REMEDY = "train one on pairs by run_classifier.py"
_LABEL = "--reranker_label"


class Reranker(NamedTuple):
    """An open model.

    Attributes:
        scores: N queries and N passages -> float [N], the higher the more relevant.
        report: the account of its weights; of an export its path.
    """

    scores: Callable[[Sequence[str], Sequence[str]], np.ndarray]
    report: str

    def rerank(self, query: str, passages: Sequence[str]) -> list[tuple[int, float]]:
        """Places of passages and their scores, the best first."""
        if not passages:
            return []
        return predictions.ranked(self.scores([query] * len(passages), passages))


def open_source(
    path: str, label: str | None, batch_size: int = 32, **settings: bool | None
) -> Reranker:
    """Loads a model; a score is the probability of `label`, by default the last of two.

    `settings` are those of model_directory.open_directory.

    Raises:
        InputError: it is not there, is damaged, or is no classifier of pairs, or has
            more labels than two and no `label`.
    """
    if predictor.newest_version(path) or formats.is_version(path):
        return _open_export(path, label, batch_size)
    opened, length = model_directory.open_directory(
        path, head="auto", name="--reranker", **settings
    )
    built = opened.read("auto")
    model, classes = built.model, built.classes
    if not isinstance(classes, labels.Labels) or classes.problem_type == "choice":
        raise errors.InputError(
            f"--reranker={path}: is a {type(model).__name__}, and no classifier of "
            f"pairs; {_REMEDY}"
        )
    checkpoint.check_trained(model, built.report, _REMEDY)
    if opened.num_texts == 1:
        raise errors.InputError(
            f"--reranker={path}: was trained on single texts; {_REMEDY}"
        )
    config_limits.check_segments(opened.config, opened.files.config_file)
    column = classes.ranking_column(label, _LABEL)
    encode = encoding.Encoder(opened.tokenizer, length, classes, has_pairs=True)
    predict = inference.packed_function(model, batch_size)

    def scores(queries, passages):
        packed = encode.pack(queries, passages)
        options = {"name": "reranking: batch 1", "report": lambda done: None}
        logits = predict(packed, **options)["logits"]
        return np.asarray(losses.probabilities(classes.shares_as, logits))[:, column]

    return Reranker(scores, f"{built.report}")


def _open_export(path, label, batch_size):
    model = predictor.Predictor(path)
    row = model.predict("a", "a")[0] if len(model.text_names) == 2 else {}
    names = [*row.get("probabilities", ())]
    if not names and [*row] != ["score"]:
        raise errors.InputError(
            f"--reranker={path}: takes {', '.join(model.text_names)}, and is no "
            f"classifier of pairs; {_REMEDY}"
        )
    kind = "multi_label" if names else "regression"
    column = labels.Labels(tuple(names), kind).ranking_column(label, _LABEL)

    def scores(queries, passages):
        values: list[float] = []
        for first in range(0, len(queries), batch_size):
            rows = slice(first, first + batch_size)
            for row in model.predict(queries[rows], passages[rows]):
                shares = row.get("probabilities")
                values.append([*shares.values()][column] if shares else row["score"])
        return np.array(values, np.float32)

    return Reranker(scores, model.export_dir)
