"""TensorFlow, imported when something of it is first used.

Networks run on other backends of Keras without it, and its import takes seconds.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from contract import errors


class Later:
    """The module tensorflow, as `tf`, or another that needs it.

    With a `user` it computes, which it does for Keras' backend tensorflow alone; else
    it is for files. An attribute raises InputError where that is not the backend, or
    the module is not installed.
    """

    def __init__(self, user: str = "", module: str = "tensorflow") -> None:
        self._user, self._module = user, module

    def check(self) -> None:
        """Raises InputError where the backend is none for the user."""
        import keras

        if (backend := keras.backend.backend()) != "tensorflow":
            raise errors.InputError(
                f"KERAS_BACKEND={backend}: {self._user} by TensorFlow alone; "
                "set KERAS_BACKEND=tensorflow"
            )

    def __getattr__(self, name: str) -> Any:
        if self._user:
            self.check()
        if self._module == "tensorflow_text":
            check_docstrings()
        try:
            module = importlib.import_module(self._module)
        except ImportError as error:
            raise errors.InputError(
                f"TensorFlow is needed here, but cannot be imported ({error}); "
                f"pip install {self._module}"
            ) from error
        return getattr(module, name)


def check_docstrings() -> None:
    """Raises InputError where Python has none, which tensorflow_text fills in."""
    if sys.flags.optimize > 1:
        raise errors.InputError(
            "tensorflow_text needs the docstrings that python -OO drops; unset "
            "PYTHONOPTIMIZE, or set it to 1"
        )


if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_text as text
else:
    tf, text = Later(), Later(module="tensorflow_text")  # for files and texts


def is_backend() -> bool:
    """Whether Keras computes by TensorFlow."""
    import keras

    return keras.backend.backend() == "tensorflow"


def op_errors() -> tuple[Any, ...]:
    """The error of TensorFlow's operations; () where nothing can have raised one."""
    return (tf.errors.OpError,) if sys.modules.get("tensorflow") else ()
