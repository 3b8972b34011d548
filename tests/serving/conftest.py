"""Fixtures of the tests of serving/."""

import functools

import pytest
import tensorflow as tf


@pytest.fixture(scope="module", autouse=True)
def loading_once():
    """Loading a SavedModel takes longer than asking it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.saved_model, "load", functools.cache(tf.saved_model.load))
        yield
