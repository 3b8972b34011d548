"""Compares networks of one size as BERT's paper does, on one corpus.

In: a corpus, published tasks, and a number of steps. Out: a directory with every run,
and a page of scores. Each run is one of the project's scripts in a separate process.
"""
