"""Units and chunks so small that the text of tests/tiny_corpus.py has several."""

import pytest

from tests import tiny_corpus


@pytest.fixture(autouse=True, scope="module")
def small_units():
    with tiny_corpus.sizes(tiny_corpus.SIZES):
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return tiny_corpus.write(tmp_path_factory.mktemp("corpus"))
