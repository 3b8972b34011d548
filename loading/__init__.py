"""Opening a model: the one way from a place to a network with its weights.

In: a directory, an id on a hub, or the paths of config, vocabulary and weights. Out: a
ModelDirectory with config, tokenizer, open weights, head and labels, and the models
that it builds.
"""
