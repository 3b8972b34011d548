"""Byte pairs: the files of GPT and GPT-2, what a word is, and the graph that cuts it.

In: vocabularies and merges. Out: ids of texts.
"""
