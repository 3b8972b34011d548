"""Text from a left-to-right network: the next token, and the loop of tokens.

In: a model with a cache, prompts as ids, and how to draw. Out: the ids that follow.
"""
