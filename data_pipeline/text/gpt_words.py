"""Words of GPT as openai/finetune-transformer-lm finds them, with ftfy and spaCy."""

import re
from collections.abc import Callable

from contract import errors

# text_utils.py, text_standardize.
_SIGNS = str.maketrans(
    {"—": "-", "–": "-", "―": "-", "…": "...", "´": "'"},
)
# A backslash was meant to be among them, but the original's pattern lost it.
_RUN = re.compile(r"(-+|~+|!+|\"+|;+|\?+|\++|,+|\)+|\(+|/+|\*+|\[+|\]+|}+|{+|\|+|_+)")
_LINE_END = re.compile(r"\s*\n\s*")
_WHITESPACE = re.compile(r"[^\S\n]+")


def standardize(text: str) -> str:
    """Mends and spaces out a text, before its words are found."""
    import ftfy

    text = ftfy.fix_text(text).translate(_SIGNS)
    text = _RUN.sub(r" \1 ", text)
    text = _LINE_END.sub(" \n ", text)
    return _WHITESPACE.sub(" ", text).strip()


def splitter() -> Callable[[str], list[str]]:
    """A function from a text to its lower-cased words.

    Raises:
        ValueError: ftfy or spaCy is not installed.
    """
    try:
        import ftfy  # noqa: F401
        import spacy
    except ImportError as error:
        raise errors.InputError(
            f"--gpt_tokenizer=original needs a package that is missing ({error}): "
            "pip install ftfy spacy, or set --gpt_tokenizer=hugging_face"
        ) from error
    find_words = spacy.blank("en")

    def split(text):
        words = (str(word).lower() for word in find_words(standardize(text)))
        # Only the line feed itself is in the vocabulary.
        return ["\n" if word == "\n " else word for word in words]

    return split
