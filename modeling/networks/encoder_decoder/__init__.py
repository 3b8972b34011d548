"""Text to text: a BERT that reads, and one that writes what follows from it.

In: features of a source and of a target. Out: losses of the target's tokens, or logits;
modeling/generation computes one token after another.

Axes: as in modeling/__init__.py, but S is a position of the source, and T one of the
target.
"""
