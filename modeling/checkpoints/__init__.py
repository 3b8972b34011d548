"""Weights and their names: Google's, Hugging Face's and Keras' files.

In: a built model, and a checkpoint of any of the three worlds. Out: the model with
these weights and an account of every name; or the weights in another world's files.
"""
