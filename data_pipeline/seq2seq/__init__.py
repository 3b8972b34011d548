"""Pairs of texts: one is read, the other is written by the network and scored.

In go tables of sources and targets; out come features of an encoder and a decoder, and
of what the network writes texts, their scores, and what a person looks at.
"""
