"""TensorFlow, imported when something of it is first used: its import takes seconds."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from contract import errors


class Later:
    """A module, whose first attribute imports it; InputError where that fails."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
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
    tf, text = Later("tensorflow"), Later("tensorflow_text")
