"""Text from a left-to-right network: which token comes next, and the loop that asks.

In: a model with a cache, prompts as ids, and how to draw. Out: the ids that follow.
"""
