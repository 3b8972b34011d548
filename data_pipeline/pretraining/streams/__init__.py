"""Sentences end to end in rows that go on from batch to batch, in both directions.

In: files of tokenised sentences, one a line. Out: batches of words and the words that
follow them, in an order that follows from the seed, from any step on.
"""
