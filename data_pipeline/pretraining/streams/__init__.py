"""Sentences end to end in rows that go on from batch to batch, in both directions."""
