"""Text that is no Unicode, which TensorFlow refuses unnamed, and what nobody sees."""

import unicodedata

from contract import errors

# Letters and marks without a picture, beside the categories Cf and Cc.
_EMPTY = {"\u034f", "\u115f", "\u1160", *map(chr, range(0xFE00, 0xFE10))}


def is_invisible(character: str) -> bool:
    """Whether it has no picture and is no blank, such as U+200B, U+FEFF or NUL."""
    if character.isspace():
        return False
    return unicodedata.category(character) in ("Cf", "Cc") or character in _EMPTY


def spelling(text: str) -> str:
    """Equal for texts that differ by case, blanks, form or invisible characters."""
    text = unicodedata.normalize("NFKC", text).casefold()
    if not text.isascii() or not text.isprintable():
        text = "".join(c for c in text if not is_invisible(c))
    return " ".join(text.split())


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
