"""Gradients to updated weights, as google-research/bert does it.

In: gradients of one batch or of its micro-batches. Out: weights after a step of Adam or
LAMB, at the rate of a schedule, with the loss scale of float16.
"""
