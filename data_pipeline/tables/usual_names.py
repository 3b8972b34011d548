"""Usual names of columns, in small letters; the first entry that a file has counts."""

from collections.abc import Collection, Iterable, Sequence

from contract import errors

# Two texts that are read together, or compared.
_FIRST_PAIRS = """text_a text_b, sentence1 sentence2, question1 question2,
premise hypothesis, question sentence, question passage, question context,
question document, question answer, query passage, query context, query document,
query answer, context hypothesis, text hypothesis, claim evidence, title abstract,
title body, title description"""
_NUMBERED = [
    (f"{noun}{first}", f"{noun}{second}")
    for noun in ("text", "sentence", "question", "sent", "s", "q")
    for first, second in (("1", "2"), ("_1", "_2"), ("_a", "_b"))
]
_TEXT_PAIRS = (*(tuple(pair.split()) for pair in _FIRST_PAIRS.split(",")), *_NUMBERED)
_SINGLE_TEXTS = (
    *("text", "sentence", "text_a", "sentence1", "review"),
    *("content", "question", "context", "premise", "article"),
)
# Pairs come before single texts, so that no second text is lost.
TEXTS = (*_TEXT_PAIRS, *((name,) for name in _SINGLE_TEXTS))
# A text, one that belongs to it, and one that does not.
TRIPLETS = (
    *((first, "positive", "negative") for first in ("anchor", "query")),
    *((first, "positive") for first in ("anchor", "query")),
)
# A text, and the one to write.
_WRITTEN = """source target, source_text target_text, input_text target_text, src tgt,
src trg, input target, input output, inputs targets, prompt response, prompt completion,
instruction response, instruction output, question answer, query response,
text summary, article summary, article highlights, document summary, dialogue summary,
original translation"""
SOURCES_AND_TARGETS = tuple(tuple(pair.split()) for pair in _WRITTEN.split(","))
IDS = ("id",)
LABELS = ("label", "labels", "gold_label", "class", "category", "score")
# Often beside a text, where the text alone is meant, or where a row comes from.
_OFTEN_UNREAD = {"title", "source"}


def choose(names: Sequence[str], usual: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The first entry of `usual` whose names all occur, as `names` spells them."""
    spelled = {name.lower(): name for name in reversed(names)}
    entries = (entry for entry in usual if spelled.keys() >= set(entry))
    return tuple(spelled[name] for name in next(entries, ()))


def check_unread(
    path: str,
    names: Iterable[str],
    chosen: Collection[str],
    usual: Iterable[tuple[str, ...]],
    flags: str,
) -> None:
    """Refuses a guess of columns that leaves a text with a usual name unread."""
    texts = {name for entry in usual for name in entry} - _OFTEN_UNREAD
    for name in names:
        if name not in chosen and name.lower() in texts:
            read = " and ".join(map(repr, chosen))
            raise errors.InputError(
                f"{path}: {read} would be read, and {name!r} would not; name the "
                f"columns with {flags}"
            )
