"""Measures of decisions: counts, curves, intervals, tests, and the worst rows.

In: plain arrays of labels, probabilities and losses. Out: arrays and numbers, which
pictures and pages show.
"""
