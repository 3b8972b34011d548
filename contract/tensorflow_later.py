"""TensorFlow, imported when something of it is first used.

Networks run on other backends of Keras without it, and its import takes seconds.
"""

import sys
from typing import Any

from contract import errors


class Later:
    """The module tensorflow, as `tf`.

    With a `user` it computes, which it does for Keras' backend tensorflow alone; else
    it is for files. An attribute raises InputError where that is not the backend, or
    TensorFlow is not installed.
    """

    def __init__(self, user: str = "") -> None:
        self._user = user

    def __getattr__(self, name: str) -> Any:
        if self._user:
            import keras

            if (backend := keras.backend.backend()) != "tensorflow":
                raise errors.InputError(
                    f"KERAS_BACKEND={backend}: {self._user} by TensorFlow alone; "
                    "set KERAS_BACKEND=tensorflow"
                )
        try:
            import tensorflow
        except ImportError as error:
            raise errors.InputError(
                f"TensorFlow is needed here, but cannot be imported ({error}); "
                "pip install tensorflow"
            ) from error
        return getattr(tensorflow, name)


tf = Later()  # for files


def op_errors() -> tuple[Any, ...]:
    """The error of TensorFlow's operations; () where nothing can have raised one."""
    return (tf.errors.OpError,) if "tensorflow" in sys.modules else ()
