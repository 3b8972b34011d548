"""Objectives that move the vectors of texts that belong together near each other.

Vectors are compared by their cosine. Other rows of a batch are negatives, and those of
a text equal to the anchor or to its positive do not count. Where a batch is spread over
replicas, each compares its rows with those of all. With Matryoshka dimensions (Kusupati
et al., 2022) a loss is the sum of that of the first 64 values, say, of the first 128
and so on.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from keras import ops

from contract import features as names
from modeling import losses
from modeling.features import vectors

_MASKED = -1e9  # the score of what is no negative
LARGEST_COSINE = 1.0 + 1e-6


class Replicas(NamedTuple):
    """How a replica sees the rows of all; by default it is alone.

    Attributes:
        gather: a tensor [B, ...] -> that of all replicas, [N * B, ...], with gradients.
        first: B -> where the replica's rows are among them.
    """

    gather: Callable[[Any], Any] = lambda rows: rows
    first: Callable[[Any], Any] = lambda size: 0


ALONE = Replicas()


def in_batch_negatives(
    scale: float,
    *,
    is_symmetric: bool = False,
    dimensions: Sequence[int] = (),
    replicas: Replicas = ALONE,
) -> losses.Objective:
    """Cross-entropy of the right text among all of the batch (Henderson et al., 2017).

    Scores are `scale` times the cosine. A row is an anchor, its positive, and G - 2
    further negatives. An objective that `is_symmetric` is the mean of this loss and of
    that of the right anchor among all anchors.

    Features: text_ids int [B, G], equal where texts are. Outputs: vectors [B, G, W].
    Metric: in_batch_accuracy, the share of anchors whose positive is nearest.
    """

    def count(features):
        return ops.cast(ops.shape(features[names.TEXT_IDS])[0], "float32")

    def scores(features, values):
        """Scores [B, M] of all candidates, their labels [B], and those of anchors."""
        ids = features[names.TEXT_IDS]
        size = ops.shape(ids)[0]
        own = replicas.first(size) + ops.arange(size)  # [B]
        others = replicas.gather(values), replicas.gather(ids)
        forward = _scores(values[:, 0], _columns_first(others[0][:, 1:]))
        forward = _mask(forward, ids[:, :2], _columns_first(others[1][:, 1:]), own)
        backward = None
        if is_symmetric:
            backward = _scores(values[:, 1], others[0][:, 0])
            backward = _mask(backward, ids[:, :2], others[1][:, 0], own)
        return own, forward, backward

    def loss(features, values):
        own, forward, backward = scores(features, values)
        total = ops.sum(losses.cross_entropy(scale * forward, own))
        if backward is None:
            return total
        return (total + ops.sum(losses.cross_entropy(scale * backward, own))) / 2

    def metrics(features, outputs):
        own, forward, _ = scores(features, vectors.normalize(outputs["vectors"]))
        right = ops.sum(losses.is_best(forward, own))
        return {"in_batch_accuracy": (right, count(features))}

    objective = _objective("contrastive_loss", count, loss, dimensions)
    return objective._replace(metrics=metrics)


def labelled_texts(
    scale: float, *, dimensions: Sequence[int] = (), replicas: Replicas = ALONE
) -> losses.Objective:
    """Supervised contrastive loss (Khosla et al., 2020, equation 2).

    The mean over the texts of a label of -log softmax(scale * cosine) among all other
    texts of the batch; a text without another one of its label does not count.

    Features: label_ids int [B]. Outputs: vectors [B, W].
    """

    def others(features):
        labels = features[names.LABEL_IDS]
        every = replicas.gather(labels)
        size = ops.shape(labels)[0]
        own = replicas.first(size) + ops.arange(size)
        is_other = ops.arange(ops.shape(every)[0])[None] != own[:, None]  # [B, M]
        is_positive = ops.logical_and(is_other, labels[:, None] == every[None])
        return is_other, ops.cast(is_positive, "float32")

    def count(features):
        _, positive = others(features)
        number = ops.sum(ops.cast(ops.max(positive, axis=1) > 0, "float32"))
        return ops.maximum(number, 1e-6)

    def loss(features, values):
        is_other, positive = others(features)
        scores = scale * _scores(values, replicas.gather(values))
        shares = ops.log_softmax(ops.where(is_other, scores, _MASKED))
        number = ops.maximum(ops.sum(positive, axis=1), 1.0)
        return -ops.sum(ops.sum(shares * positive, axis=1) / number)

    return _objective("contrastive_loss", count, loss, dimensions)


def cosent(
    scale: float, *, dimensions: Sequence[int] = (), replicas: Replicas = ALONE
) -> losses.Objective:
    """The order of scores (CoSENT, Su, 2022), not their values.

    log(1 + sum of exp(scale * (cosine of j - cosine of i))) over all rows i and j of
    which i has the higher score.

    Features: label_ids float [B], the scores. Outputs: vectors [B, 2, W].
    """

    def count(features):
        return ops.ones(())  # every replica has the loss of all rows

    def loss(features, values):
        cosines = scale * replicas.gather(ops.sum(values[:, 0] * values[:, 1], axis=-1))
        gold = replicas.gather(features[names.LABEL_IDS])
        differences = cosines[None] - cosines[:, None]  # of j and i, [i, j]
        is_ordered = gold[:, None] > gold[None]
        terms = ops.reshape(ops.where(is_ordered, differences, _MASKED), (-1,))
        return ops.logsumexp(ops.concatenate([ops.zeros(1), terms]))

    return _objective("cosent_loss", count, loss, dimensions)


def cosine_regression(
    largest_score: float, *, dimensions: Sequence[int] = ()
) -> losses.Objective:
    """Mean squared difference of cosine and score (Sentence-BERT, section 3).

    Features: label_ids float [B], scores, of which the largest stands for the cosine 1.
    Outputs: vectors [B, 2, W].
    """

    def loss(features, values):
        cosines = ops.sum(values[:, 0] * values[:, 1], axis=-1)
        gold = features[names.LABEL_IDS] / largest_score
        return ops.sum(ops.square(cosines - gold))

    return _objective("cosine_loss", _count_rows, loss, dimensions)


def triplet_margin(margin: float, *, dimensions: Sequence[int] = ()):
    """max(0, |a - p| - |a - n| + margin) of scaled vectors, mean over rows and n.

    Outputs: vectors [B, G, W] of anchor, positive and negatives.
    """

    def loss(features, values):
        # Not a norm of the difference, whose gradient is none at 0.
        cosines = ops.sum(values[:, :1] * values[:, 1:], axis=-1)  # [B, G - 1]
        distances = ops.sqrt(2.0 * (LARGEST_COSINE - cosines))
        terms = ops.relu(distances[:, :1] - distances[:, 1:] + margin)
        return ops.sum(ops.mean(terms, axis=1))

    return _objective("triplet_loss", _count_rows, loss, dimensions)


def distillation(
    *, dimensions: Sequence[int] = (), replicas: Replicas = ALONE
) -> losses.Objective:
    """Squared differences from the vectors of a teacher, scaled to the length 1.

    The mean over texts. Where the teacher's vectors have another width, those of the
    cosines with all texts of the batch instead, whose mean is that of a text.

    Features: teacher_vectors float32 [B, ..., V], input_mask. Outputs: vectors [B, ...,
    W].
    """

    def count(features):
        return ops.cast(ops.size(features[names.INPUT_MASK][..., 0]), "float32")

    def loss(features, values):
        teacher = vectors.normalize(features[names.TEACHER_VECTORS])
        widths = values.shape[-1], teacher.shape[-1]
        values, teacher = (
            ops.reshape(each, (-1, width))
            for each, width in zip((values, teacher), widths, strict=True)
        )
        if widths[0] == widths[1]:
            return ops.sum(ops.square(values - teacher))
        ours = _scores(values, replicas.gather(values))
        theirs = _scores(teacher, replicas.gather(teacher))
        return ops.sum(ops.mean(ops.square(ours - theirs), axis=1))

    return _objective("distillation_loss", count, loss, dimensions)


def _count_rows(features):
    return ops.cast(ops.shape(features[names.INPUT_MASK])[0], "float32")


def _objective(name, count, loss, dimensions):
    """The objective of one part: the sum of a loss over leading values, by a count.

    `loss` takes the features and vectors of length 1, those of the first values.
    """

    def totals(features, outputs):
        values = outputs["vectors"]
        leading = [values[..., :width] for width in dimensions] or [values]
        return {name: sum(loss(features, vectors.normalize(each)) for each in leading)}

    return losses.Objective(lambda features: {name: count(features)}, totals)


def _columns_first(values):
    """[N, G, ...] -> [G * N, ...]: the candidates of column 0 first."""
    axes = (1, 0, *range(2, len(values.shape)))
    return ops.reshape(ops.transpose(values, axes), (-1, *values.shape[2:]))


def _scores(rows, candidates):
    return ops.matmul(rows, ops.transpose(candidates))  # [B, M]


def _mask(scores, ids, candidate_ids, own):
    """Scores [B, M] without candidates whose text is a row's own, but its right one."""
    is_same = ops.any(ids[:, :, None] == candidate_ids[None, None], axis=1)  # [B, M]
    places = ops.arange(ops.shape(candidate_ids)[0])
    is_right = places[None] == own[:, None]
    is_masked = ops.logical_and(is_same, ops.logical_not(is_right))
    return ops.where(is_masked, _MASKED, scores)
