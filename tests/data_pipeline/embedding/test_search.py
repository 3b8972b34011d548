import numpy as np
import pytest

from data_pipeline.embedding import search


def vectors(seed, rows, width=6):
    """Small integers, so that float32 products are exact and many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, [rows, width]).astype(np.float32)


def slow_nearest(queries, corpus, count, left_out=None):
    indices, products = [], []
    for row, query in enumerate(queries):
        pairs = [(-float(query @ vector), i) for i, vector in enumerate(corpus)]
        if left_out is not None:
            pairs = [pair for pair in pairs if pair[1] != left_out[row]]
        pairs = sorted(pairs)[:count]
        indices.append([i for _, i in pairs])
        products.append([-product for product, _ in pairs])
    return np.array(indices), np.array(products)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(search, "_QUERY_ROWS", 7)
    monkeypatch.setattr(search, "_CORPUS_ROWS", 16)


@pytest.mark.parametrize("count", [1, 5, 120])
@pytest.mark.parametrize("sizes", [None, (120,), (1, 50, 0, 69), (40, 40, 40)])
def test_nearest_equals_a_slow_loop_with_ties(small_blocks, count, sizes):
    queries, corpus = vectors(1, 20), vectors(2, 120)
    blocks = corpus if sizes is None else np.split(corpus, np.cumsum(sizes)[:-1])
    indices, products = search.nearest(queries, blocks, count)
    wanted, wanted_products = slow_nearest(queries, corpus, count)
    np.testing.assert_array_equal(indices, wanted)
    np.testing.assert_array_equal(products, wanted_products)
    assert (indices.dtype, products.dtype) == (np.int64, np.float32)


def test_ties_follow_the_order_of_the_corpus(small_blocks):
    queries, corpus = vectors(1, 20), vectors(2, 120)
    indices, products = search.nearest(queries, corpus, 5)
    turned, turned_products = search.nearest(queries, corpus[::-1], 5)
    np.testing.assert_array_equal(products, turned_products)
    assert (indices != 119 - turned).any()  # else there are no ties


def test_zeros_of_both_signs_are_equal():
    corpus = np.array([[-1.0], [0.0], [-0.0], [0.0]], np.float32)
    indices, _ = search.nearest(np.ones([1, 1], np.float32), corpus, 4)
    np.testing.assert_array_equal(indices, [[1, 2, 3, 0]])
    # Most libraries make 0.0 of a product of -0.0; the keys do not rely on it.
    keys = search._encode(np.array([-0.0, 0.0, -1e-45], np.float32), np.arange(3))
    assert keys[0] > keys[1] > keys[2]


def test_left_out_vectors_are_no_neighbours(small_blocks):
    corpus = vectors(3, 50)
    left_out = np.arange(50)
    left_out[::3] = -1
    for count in (4, 49):
        indices, products = search.nearest(corpus, corpus, count, left_out=left_out)
        wanted, wanted_products = slow_nearest(corpus, corpus, count, left_out)
        np.testing.assert_array_equal(indices, wanted)
        np.testing.assert_array_equal(products, wanted_products)
    indices, _ = search.nearest(corpus, corpus, 80, left_out=np.arange(50))
    assert indices.shape == (50, 49)
    assert not (indices == np.arange(50)[:, None]).any()
    all_of_them, _ = search.nearest(corpus, corpus, 80)
    assert (np.sort(all_of_them, axis=1) == np.arange(50)).all()


def test_blocks_are_read_once_and_one_at_a_time(small_blocks):
    corpus, alive = vectors(4, 90), []

    def blocks():
        for begin in range(0, 90, 30):
            alive.append(begin)
            yield corpus[begin : begin + 30]

    indices, _ = search.nearest(vectors(5, 9), blocks(), 3)
    assert alive == [0, 30, 60]
    np.testing.assert_array_equal(indices, slow_nearest(vectors(5, 9), corpus, 3)[0])


def test_normalized_rows_have_length_1_and_zeros_stay():
    rows = vectors(6, 30)
    rows[4] = 0
    unit = search.normalize(rows)
    lengths = np.linalg.norm(unit, axis=1)
    np.testing.assert_allclose(np.delete(lengths, 4), 1, rtol=1e-6)  # float32
    assert lengths[4] == 0 and unit.dtype == np.float32
    np.testing.assert_allclose(unit[0] * np.linalg.norm(rows[0]), rows[0], rtol=1e-6)


@pytest.mark.parametrize("place", [0, 17])
def test_bad_vectors_are_refused_by_number(small_blocks, place):
    good, bad = vectors(7, 20), vectors(7, 20)
    search.nearest(good, good, 1)
    bad[place, 2] = np.nan
    with pytest.raises(ValueError, match=f"corpus vector {place}, .* 6 finite"):
        search.nearest(good, bad, 1)
    with pytest.raises(ValueError, match=f"query vector {place}, "):
        search.nearest(bad, good, 1)
    with pytest.raises(ValueError, match=r"corpus vector 0, .* 6 finite numbers"):
        search.nearest(good, good[:, :5], 1)
