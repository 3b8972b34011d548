"""The operations of a graph and of the functions that it calls."""

from collections.abc import Iterator

import tensorflow as tf


def each(graph: tf.Graph) -> Iterator[tf.Operation]:
    """Those of the graph, and of a function each time that it is called."""
    for operation in graph.get_operations():
        yield operation
        if operation.type.endswith("PartitionedCall"):
            name = operation.get_attr("f").name
            yield from each(graph._get_function(name).graph)
