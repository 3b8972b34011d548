"""Pretraining records to batches with masked tokens.

In: TFRecord files of create_pretraining_data.py, ours or the original's, masked or not.
Out: batches in an order that a resumed run finds again.
"""
