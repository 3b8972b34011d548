"""Devices and processes of a run.

In: what tf.distribute and TF_CONFIG say. Out: a strategy, each replica's share of a
batch, and numbers that all processes agree on.
"""
