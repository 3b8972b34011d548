import numpy as np
import pytest

from data_pipeline.generation import windows


@pytest.mark.parametrize("count", [2, 8, 9, 11, 30])
@pytest.mark.parametrize("stride", [1, 3, 7])
def test_each_token_is_scored_once_in_a_window_that_fits(count, stride):
    ids = list(range(100, 100 + count))
    actual = windows.sliding(ids, 8, stride)
    scored = [index for window in actual for index in window.ids[window.first :]]
    assert scored == ids[1:]
    assert all(len(window.ids) <= 8 and window.first >= 1 for window in actual)
    # All but the first read as much as fits, or as the stride leaves.
    assert all(window.first >= 8 - stride for window in actual[1:])


def test_losses_come_back_to_their_windows():
    rng = np.random.default_rng(0)
    sizes = [5, 2, 9, 3, 9, 4, 2]
    cut = [
        windows.Window(rng.integers(1, 99, size).tolist(), int(rng.integers(1, size)))
        for size in sizes
    ]
    batches = []

    def score(features):
        ids, mask = features["input_ids"].numpy(), features["input_mask"].numpy()
        batches.append(mask.sum(axis=1).tolist())
        assert (ids[mask == 0] == 7).all()
        losses = np.where(mask[:, 1:], ids[:, 1:] + ids[:, :-1] / 100, np.nan)
        return losses, (ids[:, 1:] % 2).astype(np.float32)

    actual = windows.run(cut, score, 3, filler=7)
    assert batches == [[9, 9, 5], [4, 3, 2], [2]]
    for window, scores in zip(cut, actual, strict=True):
        ids = np.array(window.ids)
        expected = (ids[1:] + ids[:-1] / 100)[window.first - 1 :]
        np.testing.assert_allclose(scores.losses, expected)
        np.testing.assert_array_equal(scores.hits, ids[window.first :] % 2 == 1)
