"""What a frozen network says of rows: computed once, for all epochs and runs.

In: the examples of each split, and a model whose network is not trained. Out: examples
whose batches have contract.features.LAYER_STATES, so that a step costs only the head.
"""
