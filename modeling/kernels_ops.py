"""What kernels_tf is to TensorFlow, for other backends of Keras."""

from contract import errors


def fuse(function, **_):
    """The function, of a tuple of rows, weights, `mask` and settings."""

    def call(rows, weights=(), mask=(), **settings):
        return function(*rows, *weights, mask=mask, **settings)

    return call


def select_by_device(on_cpu, elsewhere):
    """The result of elsewhere(), which these backends compile."""
    return elsewhere()


def keep_mask(*_):
    """Refuses dropout, and so training, with an InputError."""
    raise errors.InputError(
        "dropout is drawn by TensorFlow; train with KERAS_BACKEND=tensorflow"
    )
