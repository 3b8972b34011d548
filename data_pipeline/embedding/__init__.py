"""Texts that belong together, for vectors of texts: rows, batches, scores."""
