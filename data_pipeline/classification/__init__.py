"""Labelled texts: tables and published tasks.

In: TSV, CSV, JSONL, a GLUE task or a TensorFlow data set. Out: packed texts with label
ids, what the labels are called, and after the model test_results.tsv and
test_predictions.jsonl.
"""
