"""Text that is no Unicode, from Python or a shell: TensorFlow refuses it unnamed."""

from contract import errors


def check(text: str, place: str) -> None:
    """Refuses half a surrogate pair, as which a shell's other bytes arrive, too.

    Raises:
        InputError: `text` has one; begins with the `place`.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        kind = "not UTF-8" if "\udc80" <= half <= "\udcff" else "half a character"
        before = text[max(error.start - 20, 0) : error.start]
        raise errors.InputError(
            f"{place} has {half!a}, which is {kind}, after {before!r}; remove it"
        ) from None
