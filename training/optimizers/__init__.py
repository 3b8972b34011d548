"""The optimizers, which share clipping, slots and rates by layer.

In: gradients summed over replicas, a rate and a step. Out: updated weights and slots.
"""
