"""Strings to ids and back: word pieces as in google-research/bert, byte pairs, words.

In: UTF-8 text, as strings or tensors, and the files of a vocabulary. Out: ragged ids,
and where in the text each token stands. Operations of TensorFlow alone, so exports
contain the same; but for the tokenizer of GPT, whose words are found in Python.
"""
