import numpy as np

from data_pipeline.classification import predictions


def test_pieces_are_joined_and_their_weights_sum():
    tokens = ["[CLS]", "un", "##afford", "##able", "!", "[SEP]"]
    weights = np.array([9.0, 0.5, 0.25, -1.0, 0.125, 9.0, 7.0])  # the last is padding
    words = predictions.word_weights(tokens, weights, second=6)
    assert words == [["unaffordable", -0.25], ["!", 0.125]]
    tokens = ["[CLS]", "a", "[SEP]", "##b", "c", "[SEP]"]  # two texts
    words = predictions.word_weights(tokens, np.arange(6.0), second=3)
    assert words == [["a", 1.0], ["##b", 3.0], ["c", 4.0]]
