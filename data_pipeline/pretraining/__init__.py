"""Pretraining records, ours or the original's, to batches with masked tokens."""
