"""What comes of a model on held-out data.

In: a compiled function and batches. Out: outputs in the order of the examples, scores,
lines on the terminal and curves in TensorBoard.
"""
