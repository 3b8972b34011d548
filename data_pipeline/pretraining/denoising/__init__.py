"""Texts with noise, and what an encoder-decoder has to write of them.

In: unmasked pretraining records. Out: batches of sources and targets, in which the
noise follows from seed, step and row.
"""
