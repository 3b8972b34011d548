"""How good decisions are: counts, curves, intervals, tests, and the worst of them.

In: plain arrays of labels, probabilities and losses. Out: arrays and numbers, which
pictures and pages show.
"""
