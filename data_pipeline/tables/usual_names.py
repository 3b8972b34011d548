"""Usual names of columns, in small letters; the first entry that a file has counts."""

from collections.abc import Collection, Iterable, Sequence

from contract import errors

# Two texts that are read together, or compared.
_TEXT_PAIRS: tuple[tuple[str, ...], ...] = (
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    *(
        (first, second)
        for first in ("question", "query")
        for second in ("passage", "context", "document", "answer")
    ),
    ("context", "hypothesis"),
    ("text", "hypothesis"),
    ("claim", "evidence"),
    *(
        (f"{noun}{a}", f"{noun}{b}")
        for noun in ("text", "sentence", "question", "sent", "s", "q")
        for a, b in (("1", "2"), ("_1", "_2"), ("_a", "_b"))
    ),
    *(("title", second) for second in ("abstract", "body", "description")),
)
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
SOURCES_AND_TARGETS: tuple[tuple[str, str], ...] = (
    ("source", "target"),
    ("source_text", "target_text"),
    ("input_text", "target_text"),
    ("src", "tgt"),
    ("src", "trg"),
    ("input", "target"),
    ("input", "output"),
    ("inputs", "targets"),
    ("prompt", "response"),
    ("prompt", "completion"),
    ("instruction", "response"),
    ("instruction", "output"),
    ("question", "answer"),
    ("query", "response"),
    ("text", "summary"),
    ("article", "summary"),
    ("article", "highlights"),
    ("document", "summary"),
    ("dialogue", "summary"),
    ("original", "translation"),
)
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
