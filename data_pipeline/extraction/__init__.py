"""Lines of text to files of vectors: extract_features.py.

In: a line, or a pair of texts, an example. Out: batches by length, and JSON lines, npz,
TFRecords or HDF5 in the order of the input.
"""
