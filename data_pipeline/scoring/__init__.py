"""Texts that a left-to-right network finds likely or not, and what that says.

In: texts, choices, passages or labelled rows. Out: windows of ids to score, and from
their losses perplexities, decisions and scores.
"""
