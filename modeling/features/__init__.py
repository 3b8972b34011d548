"""What can be read off a network: vectors of tokens, attention, weights of words.

In: a model, or what its encoder puts out. Out: arrays that a script writes or shows.
"""
