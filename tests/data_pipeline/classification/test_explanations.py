import numpy as np

from data_pipeline.classification import explanations


def test_pieces_are_joined_and_their_weights_sum():
    tokens = ["[CLS]", "un", "##afford", "##able", "!", "[SEP]"]
    weights = np.array([9.0, 0.5, 0.25, -1.0, 0.125, 9.0, 7.0])  # the last is padding
    found = explanations.word_weights(tokens, weights, second=6)
    assert found == [["unaffordable", -0.25], ["!", 0.125]]


def test_a_second_text_begins_a_word():
    tokens = ["[CLS]", "a", "[SEP]", "##b", "c", "[SEP]"]
    weights = np.array([9.0, 1.0, 9.0, 2.0, 3.0, 9.0])
    found = explanations.word_weights(tokens, weights, second=3)
    assert found == [["a", 1.0], ["##b", 2.0], ["c", 3.0]]
