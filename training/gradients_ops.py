"""The functions of gradients_tf for other backends, whose gradients are tensors.

Differs from google-research/bert: a row of a table that a batch reads several times
counts once in the norm, with the sum of its gradients.
"""

from keras import ops

read = ops.convert_to_tensor  # the values of a variable


def prepare_for_sum(gradient):
    """The gradient."""
    return gradient


def global_norm(gradients):
    """The norm of all gradients together, float32 scalar; None counts as 0."""
    squares = [ops.sum(ops.square(x)) for x in gradients if x is not None]
    return ops.sqrt(sum(squares))


def multiply(gradient, factor):
    """The gradient, or None, multiplied by a float32 scalar."""
    return None if gradient is None else gradient * factor


def sum_over_replicas(gradients):
    """The gradients: devices of JAX share one step."""
    return gradients


def compile_rule(function):
    """The function, which is compiled with the step."""
    return function


def update_all(update, variables, gradients, numbers, is_finite=None):
    """Calls update(path, variable, slots, gradient, numbers) for each variable."""
    each = zip(gradients, numbers, variables, strict=True)
    for gradient, own, (variable, *slots) in each:
        if gradient is not None:
            update(variable.path, variable, slots, gradient, own)
