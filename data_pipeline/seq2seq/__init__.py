"""Pairs of texts: one is read, the other is written by the network and scored."""
