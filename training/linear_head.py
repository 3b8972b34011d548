"""Regressions on vectors of texts, as the weights of a linear head."""

import math

import numpy as np

from contract import features

_ABSENT = -10.0  # the logit of a class without a row, below those of others
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # of a ridge regression, of which one is chosen
MOST_TEMPERATURE = 100.0


def fit(
    vectors: np.ndarray,
    targets: np.ndarray,
    problem_type: str,
    num_outputs: int,
    class_weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """A kernel float32 [C, W] and a bias [C], of vectors float [N, W].

    Classes have a logistic regression, several labels one each in which rows with and
    without the label weigh alike, and numbers a ridge regression whose strength leaving
    out each row decides; with the defaults of scikit-learn otherwise. `targets` are as
    of losses.classifier_losses.
    """
    vectors = np.asarray(vectors, np.float64)
    if problem_type == "regression":
        import sklearn.linear_model  # which takes time

        ridge = sklearn.linear_model.RidgeCV(alphas=_STRENGTHS)
        ridge.fit(vectors, targets)
        return np.asarray(ridge.coef_, np.float32)[np.newaxis], np.array(
            [ridge.intercept_], np.float32
        )
    kernel = np.zeros([num_outputs, vectors.shape[1]], np.float32)
    bias = np.zeros(num_outputs, np.float32)
    if problem_type in features.ONE_OF_SEVERAL:
        bias += _ABSENT
        weights = None if class_weights is None else class_weights[targets]
        for place, row, number in _regress(vectors, targets, weights):
            kernel[place], bias[place] = row, number
        return kernel, bias
    for place, column in enumerate(np.asarray(targets).T):
        ones = float(column.sum())
        bias[place] = math.log((ones + 0.5) / (len(column) - ones + 0.5))
        if 0 < ones < len(column):
            both = len(column) / 2 / np.where(column > 0, ones, len(column) - ones)
            (_, _, _), (_, row, number) = _regress(vectors, column.astype(int), both)
            kernel[place], bias[place] = 2 * row, 2 * number  # of a softmax of two
    return kernel, bias


def _regress(vectors, labels, weights):
    """[(class, weights [W], bias)] of the classes that there are."""
    import sklearn.linear_model

    classes = np.unique(labels)
    if len(classes) == 1:
        return [(classes[0], 0.0, 0.0)]
    model = sklearn.linear_model.LogisticRegression(tol=1e-8, max_iter=1000)
    model.fit(vectors, labels, weights)
    rows, numbers = model.coef_, model.intercept_
    if len(classes) == 2:  # which have one row, of the second
        rows, numbers = np.stack([-rows[0], rows[0]]) / 2, [-numbers[0], numbers[0]]
        numbers = np.array(numbers) / 2
    return list(zip(classes, rows, numbers, strict=True))


def temperature(logits: np.ndarray, targets: np.ndarray, problem_type: str) -> float:
    """The divisor of logits [N, C] with the least loss (Guo et al., 2017, section 4.2).

    Between 1/100 and 100; `targets` are as in `fit`.
    """
    import scipy.optimize  # which takes time

    logits = np.asarray(logits, np.float64)

    def loss(power):
        scaled = logits / np.exp(power)
        if problem_type == "multi_label":
            return np.mean(np.logaddexp(0, scaled) - scaled * targets)
        own = np.take_along_axis(scaled, targets[:, np.newaxis], axis=1)
        return np.mean(np.logaddexp.reduce(scaled, axis=1) - own[:, 0])

    most = math.log(MOST_TEMPERATURE)
    best = scipy.optimize.minimize_scalar(loss, bounds=(-most, most), method="bounded")
    return float(np.exp(best.x))
