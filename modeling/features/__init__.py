"""A network as a source: layers for a head, vectors, attention, weights of words.

In: a model, or the outputs of its encoder. Out: what a head reads, or arrays that a
script writes or shows.
"""
