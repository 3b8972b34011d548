"""Rows and lines of files, whichever the format or the file system.

In: a path, a pattern or the name of a TensorFlow data set. Out: numbered rows, so that
a message can say file and line.
"""
