"""Strings to word-piece ids, exactly as google-research/bert cuts them.

In: UTF-8 text, as strings or tensors, and a vocab.txt. Out: ragged ids, and where in
the text each token stands. Operations of TensorFlow alone, so exports contain the same.
"""
