"""Texts with noise as sources, and the targets of an encoder-decoder."""
