"""What the paper compares, run again: many networks of one size, on one corpus.

In: a corpus, published tasks, and how long it may take. Out: a directory with every
run, and a page of what they say. Each run is one of the project's scripts in a process
of its own, so a comparison is nothing that a reader could not type.
"""
