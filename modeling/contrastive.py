"""Objectives that move the vectors of texts that belong together near each other.

Vectors are compared by their cosine. Other rows of a batch are negatives, and those of
a text equal to the anchor or to its positive do not count. Features have the text_ids,
int [B, G], equal where texts are; outputs have the vectors [B, G, W], or [B, W].
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import ops

from contract import features as feature_names
from modeling import losses
from modeling.features import vectors

LARGEST_COSINE = 1.0 + 1e-6
_GATHERED = "gathered_vectors"


class Scope(NamedTuple):
    """Values and rows that a loss compares: all values, and the rows of one replica.

    Attributes:
        dimensions: numbers of leading values; the loss is the sum of that of each
            (Kusupati et al., 2022). Without any it is of all values.
        gather: a tensor [B, ...] -> that of all replicas, [N * B, ...], with gradients.
        first: B -> where the replica's rows are among them.
    """

    dimensions: Sequence[int] = ()
    gather: Callable[[Any], Any] = lambda rows: rows
    first: Callable[[Any], Any] = lambda size: 0

    def own(self, rows):
        """The places [B] of rows [B, ...] among those of all replicas."""
        size = ops.shape(rows)[0]
        return self.first(size) + ops.arange(size)

    def leading(self, outputs, width=None):
        """Values of vectors, scaled, and a function to those of all replicas.

        The outputs keep the gathered vectors, which all widths and metrics read.
        """
        rows = outputs["vectors"]
        values = vectors.normalize(rows[..., :width])

        def everyone():
            if _GATHERED not in outputs:
                outputs[_GATHERED] = self.gather(rows)
            if (gathered := outputs[_GATHERED]) is rows:  # of one replica
                return values
            return vectors.normalize(gathered[..., :width])

        return values, everyone


WHOLE = Scope()


def in_batch_negatives(
    scale: float, is_symmetric: bool = False, *, scope: Scope = WHOLE
) -> losses.Objective:
    """Cross-entropy of the right text among all of the batch (Henderson et al., 2017).

    Scores are `scale` times the cosine. A row is an anchor, its positive, and G - 2
    further negatives. An objective that `is_symmetric` is the mean of this loss and of
    that of the right anchor among all anchors.

    Metric: in_batch_accuracy, the share of anchors whose positive is nearest.
    """

    def scores(features, values, everyone):
        """The right places [B], and scores [B, M] of candidates for each direction."""
        ids, others = features[feature_names.TEXT_IDS], everyone()
        own, all_ids = scope.own(ids), scope.gather(ids)
        forward = _scores(values[:, 0], _columns_first(others[:, 1:]))
        tables = [_mask(forward, ids[:, :2], _columns_first(all_ids[:, 1:]), own)]
        if is_symmetric:
            backward = _scores(values[:, 1], others[:, 0])
            tables.append(_mask(backward, ids[:, :2], all_ids[:, 0], own))
        return own, tables

    def loss(*arguments):
        own, tables = scores(*arguments)
        sums = [ops.sum(losses.cross_entropy(scale * each, own)) for each in tables]
        return sum(sums) / len(sums)

    def metrics(features, outputs):
        own, tables = scores(features, *scope.leading(outputs))
        right = ops.sum(losses.is_best(tables[0], own))
        return {"in_batch_accuracy": (right, _count_rows(features))}

    objective = _objective("contrastive_loss", loss, scope)
    return objective._replace(metrics=metrics)


def labelled_texts(scale: float, *, scope: Scope = WHOLE) -> losses.Objective:
    """Supervised contrastive loss (Khosla et al., 2020, equation 2).

    The mean over the texts of a label of -log softmax(scale * cosine) among all other
    texts of the batch; a text without another one of its label does not count.

    Features: label_ids int [B].
    """

    def others(features):
        labels = features[feature_names.LABEL_IDS]
        every, own = scope.gather(labels), scope.own(labels)
        is_other = ops.arange(ops.shape(every)[0])[None] != own[:, None]  # [B, M]
        is_positive = ops.logical_and(is_other, labels[:, None] == every[None])
        return is_other, ops.cast(is_positive, "float32")

    def count(features):
        _, positive = others(features)
        number = ops.sum(ops.cast(ops.max(positive, axis=1) > 0, "float32"))
        return ops.maximum(number, 1e-6)

    def loss(features, values, everyone):
        is_other, positive = others(features)
        scores = scale * _scores(values, everyone())
        shares = ops.log_softmax(ops.where(is_other, scores, losses.EXCLUDED))
        number = ops.maximum(ops.sum(positive, axis=1), 1.0)
        return -ops.sum(ops.sum(shares * positive, axis=1) / number)

    return _objective("contrastive_loss", loss, scope, count)


def cosent(scale: float, *, scope: Scope = WHOLE) -> losses.Objective:
    """The order of scores (CoSENT, Su, 2022), not their values.

    log(1 + sum of exp(scale * (cosine of j - cosine of i))) over all rows i and j of
    which i has the higher score.

    Features: label_ids float [B], the scores.
    """

    def loss(features, values, _):
        cosines = scale * scope.gather(ops.sum(values[:, 0] * values[:, 1], axis=-1))
        gold = scope.gather(features[feature_names.LABEL_IDS])
        differences = cosines[None] - cosines[:, None]  # of j and i, [i, j]
        is_ordered = gold[:, None] > gold[None]
        terms = ops.reshape(ops.where(is_ordered, differences, losses.EXCLUDED), (-1,))
        return ops.logsumexp(ops.concatenate([ops.zeros(1), terms]))

    # Every replica has the loss of all rows.
    return _objective("cosent_loss", loss, scope, lambda features: ops.ones(()))


def cosine_regression(
    largest_score: float, *, scope: Scope = WHOLE
) -> losses.Objective:
    """Mean squared difference of cosine and score (Sentence-BERT, section 3).

    Features: label_ids float [B], scores, of which the largest stands for the cosine 1.
    """

    def loss(features, values, _):
        cosines = ops.sum(values[:, 0] * values[:, 1], axis=-1)
        gold = features[feature_names.LABEL_IDS] / largest_score
        return ops.sum(ops.square(cosines - gold))

    return _objective("cosine_loss", loss, scope)


def triplet_margin(margin: float, *, scope: Scope = WHOLE) -> losses.Objective:
    """max(0, |a - p| - |a - n| + margin) of scaled vectors, mean over rows and n."""

    def loss(_, values, __):
        # Not a norm of the difference, whose gradient is none at 0.
        cosines = ops.sum(values[:, :1] * values[:, 1:], axis=-1)  # [B, G - 1]
        distances = ops.sqrt(2.0 * (LARGEST_COSINE - cosines))
        terms = ops.relu(distances[:, :1] - distances[:, 1:] + margin)
        return ops.sum(ops.mean(terms, axis=1))

    return _objective("triplet_loss", loss, scope)


def distillation(*, scope: Scope = WHOLE) -> losses.Objective:
    """Squared differences from the vectors of a teacher, scaled to the length 1.

    The mean over texts. Where the teacher's vectors have another width, those of the
    cosines with all texts of the batch instead, whose mean is that of a text.

    Features: teacher_vectors float32 [B, ..., V].
    """

    def count(features):
        return losses.size(features[feature_names.TEXT_IDS])

    def loss(features, values, everyone):
        teacher = vectors.normalize(features[feature_names.TEACHER_VECTORS])
        if teacher.shape[-1] == values.shape[-1]:
            return ops.sum(ops.square(values - teacher))
        ours = _scores(*map(_flat, (values, everyone())))
        theirs = _scores(*map(_flat, (teacher, scope.gather(teacher))))
        return ops.sum(ops.mean(ops.square(ours - theirs), axis=1))

    return _objective("distillation_loss", loss, scope, count)


def _count_rows(features):
    return ops.cast(ops.shape(features[feature_names.TEXT_IDS])[0], "float32")


def _objective(name, loss, scope, count=_count_rows):
    """The objective of one part: a loss of features and `Scope.leading`, by a count."""

    def total(features, outputs):
        parts = [scope.leading(outputs, w) for w in scope.dimensions or (None,)]
        return sum(loss(features, *part) for part in parts)

    return losses.one_part(name, count, total)


def _flat(values):
    return ops.reshape(values, (-1, values.shape[-1]))


def _columns_first(values):
    """[N, G, ...] -> [G * N, ...]: the candidates of column 0 first."""
    axes = (1, 0, *range(2, len(values.shape)))
    return ops.reshape(ops.transpose(values, axes), (-1, *values.shape[2:]))


def _scores(rows, candidates):
    return ops.matmul(rows, ops.transpose(candidates))  # [B, M]


def _mask(scores, ids, candidate_ids, own):
    """Scores [B, M] without candidates whose text is a row's own, but its right one."""
    is_same = ops.any(ids[:, :, None] == candidate_ids[None, None], axis=1)  # [B, M]
    is_right = ops.arange(ops.shape(candidate_ids)[0])[None] == own[:, None]
    is_masked = ops.logical_and(is_same, ops.logical_not(is_right))
    return ops.where(is_masked, losses.EXCLUDED, scores)
