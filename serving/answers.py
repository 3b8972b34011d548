"""Makes a dict for each example of a model's outputs, and lines for a terminal."""

import collections
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contract import characters, errors
from data_pipeline.classification import encoding
from data_pipeline.tables import memory_rows

Answer = dict[str, Any]
_ANSWER_OUTPUTS = ("answer", "start", "end", "score", "probability", "null_odds")
_WORD_OUTPUTS = ("words", "tags", "probabilities", "starts", "ends")  # [W] each
# Key of a mask to the output, [M] and of the others [M, k].
_MASK_OUTPUTS = {
    "start": "starts",
    "tokens": "tokens",
    "probabilities": "probabilities",
    "filled": "filled",
}
_SHOWN_NUMBERS = 5  # of a vector, in a line
_OUTSIDE = "O"  # the tag of a word outside of all spans
# In tags such as B-PER: the letters of words of a span, and those that begin a span.
_SPAN_LETTERS, _FIRST_LETTERS = tuple("BIESLUM"), tuple("BSU")


def text_names(inputs: Mapping[str, int]) -> list[str]:
    """The names of the texts of an example, in the order in which a person types them.

    `inputs` are {name: number of texts}; a name occurs once for each text.
    """
    order = ("context", "question", "choices") if "choices" in inputs else ("question",)
    ranks = {name: rank for rank, name in enumerate(order)}
    names = sorted(inputs, key=lambda name: (ranks.get(name, len(order)), name))
    return [name for name in names for _ in range(inputs[name])]


def by_name(names: Sequence[str], texts: Sequence[Any]) -> dict[str, Any]:
    """{name: text}; a name that occurs several times has the list of its texts."""
    remaining = iter(texts)
    values = {}
    for name, count in collections.Counter(names).items():
        several = [next(remaining) for _ in range(count)]
        values[name] = several if count > 1 else several[0]
    return values


def inputs(
    names: Sequence[str], columns: Sequence[Sequence[str]]
) -> dict[str, list[Any]]:
    """The inputs of a signature by name: lists of texts, or of lists of texts."""
    rows = [by_name(names, row) for row in zip(*columns, strict=True)]
    return {name: [row[name] for row in rows] for name in dict.fromkeys(names)}


def texts(arguments: Sequence[str]) -> list[list[str]]:
    """The texts of the examples as columns: one, or several where tabs separate them.

    Raises:
        InputError: an argument is not UTF-8, or differs in its number of texts.
    """
    rows = [argument.split("\t") for argument in arguments]
    for argument, row in zip(arguments, rows, strict=True):
        characters.check(argument, "an argument")
        if len(row) != len(rows[0]):
            raise errors.InputError(
                f"{argument!r:.80} has {len(row)} texts, the first argument has "
                f"{len(rows[0])}; separate the texts of a pair by one tab"
            )
    return [list(column) for column in zip(*rows, strict=True)]


def columns(texts: Sequence[Any], names: Sequence[str], model: str) -> list[list[str]]:
    """The lists of texts of a call, one for each name; a string is one text.

    InputError is raised unless there are as many as names, all equally long, and for
    what is no list of strings or bytes.
    """
    if len(texts) != len(names):
        raise errors.InputError(
            f"{model} takes {', '.join(names)} for each example, {len(texts)} given; "
            "separate the texts of a pair by a tab"
        )
    named = [*zip(names, texts, strict=True)]  # choices are several of one name
    memory_rows.check_indexes(dict(named))
    lists = [encoding.listed(*each, takes_bytes=True) for each in named]
    if len({len(column) for column in lists}) > 1:
        raise errors.InputError(
            f"{' and '.join(str(len(column)) for column in lists)} texts given for "
            f"{', '.join(names)}; give as many of each"
        )
    return lists


def label_names(label_map: Any) -> list[str]:
    """The names in label_map.json, in order; InputError where it is no label map."""
    texts = label_map.values() if isinstance(label_map, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise errors.InputError("it is no object of texts")
    names = {key: name for key, name in label_map.items() if key.isdecimal()}
    if list(names) != list(map(str, range(len(names)))):
        raise errors.InputError('its keys are not "0", "1", ... in this order')
    return list(names.values())


def rows(outputs: Mapping[str, Any], labels: Sequence[str] | None) -> list[Answer]:
    """A dict for each example.

    Args:
        outputs: of a signature by name: arrays, or nested lists with str.
        labels: the names of a classifier's probabilities, in order; () where they are
            numbers; None where they are unknown, and the keys are "0", "1", ...
    """
    columns = {name: _as_lists(values) for name, values in outputs.items()}
    examples = [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    fold = next((_FOLDS[name] for name in _FOLDS if name in columns), None)
    return [fold(example, labels) for example in examples] if fold else examples


def _as_lists(values):
    """A NumPy array as nested lists, its bytes as str; lists as they are."""
    if isinstance(values, list):
        return values
    return _decode(values.tolist()) if values.dtype == object else values.tolist()


def _decode(value):
    if isinstance(value, list):
        return [_decode(inner) for inner in value]
    return value.decode("utf-8", "replace")


def _fold_tags(row, _):
    count = sum(word != "" for word in row["words"])  # the others are padding
    return {name: row[name][:count] for name in _WORD_OUTPUTS if name in row}


def _fold_masks(row, _):
    masks = zip(*(row[name] for name in _MASK_OUTPUTS.values()), strict=True)
    shown = [mask for mask in masks if mask[0] >= 0]  # the others are padding
    return {"masks": [dict(zip(_MASK_OUTPUTS, mask, strict=True)) for mask in shown]}


def _fold_vectors(row, _):
    tokens, vectors = row["tokens"], row["vectors"]
    # Padding has zeros, of one layer or of several; a token itself may be "".
    are_zero = [not any(map(any, v) if isinstance(v[0], list) else v) for v in vectors]
    count = len(tokens) - are_zero[::-1].index(False)
    return {"tokens": tokens[:count], "vectors": vectors[:count]}


def _fold_pieces(row, _):
    count = row["num_tokens"]
    return {**row, **{name: row[name][:count] for name in ("pieces", "token_nll")}}


def _fold_answer(row, _):
    return {name: row[name] for name in _ANSWER_OUTPUTS if name in row}


def _fold_probabilities(row, labels):
    values = row["probabilities"]
    if not labels and ("label" in row or (labels is None and len(values) > 1)):
        labels = [str(place) for place in range(len(values))]
    if not labels:
        return {"score": values[0]} if len(values) == 1 else {"scores": values}
    label = {"label": row["label"]} if "label" in row else {}
    return {**label, "probabilities": dict(zip(labels, values, strict=True))}


# Output of a signature -> a function of a row of all outputs; the first that is there.
_FOLDS = {
    "tags": _fold_tags,
    "filled": _fold_masks,
    "tokens": _fold_vectors,
    "pieces": _fold_pieces,
    "answer": _fold_answer,
    "probabilities": _fold_probabilities,
}


def lines(
    arguments: Sequence[str], answers: Sequence[Mapping[str, Any]], *, as_json: bool
) -> Iterable[str]:
    """The lines to print for each argument, a text or texts separated by tabs."""
    for argument, answer in zip(arguments, answers, strict=True):
        name, text = "text", argument
        if "answer" in answer:  # the context may be long
            name, text = "question", argument.split("\t")[0]
        if as_json:
            yield json.dumps({name: text, **answer}, ensure_ascii=False)
        elif "score" in answer and "answer" not in answer:
            yield f"{answer['score']:.3f}  {text}"
        elif "scores" in answer:
            yield f"{' '.join(f'{value:.3f}' for value in answer['scores'])}  {text}"
        elif "generated" in answer:
            yield text + answer["generated"]
        else:
            show = next((_SHOWN[name] for name in _SHOWN if name in answer), _show_all)
            yield "\n    ".join([text, *show(text, answer)])


def _show_all(_, answer):
    return [json.dumps(answer, ensure_ascii=False)]


def _show_tags(text, answer):
    pairs = zip(answer["words"], answer["tags"], strict=True)
    tagged = [f"{word}/{tag}" for word, tag in pairs if tag != _OUTSIDE]
    return [" ".join(tagged) or "(no tags)", *_spans(text, answer)]


def _spans(text, answer):
    """Spans of words, such as "PER: Ada Lovelace"; none of tags without a type."""
    spans: list[tuple[str, int, int]] = []
    type_before = ""
    columns = (answer[name] for name in ("tags", "starts", "ends"))
    for tag, start, end in zip(*columns, strict=True):
        letter, _, span_type = tag.partition("-")
        if letter not in _SPAN_LETTERS:
            span_type = ""
        if span_type and (letter in _FIRST_LETTERS or span_type != type_before):
            spans.append((span_type, start, end))
        elif span_type:
            spans[-1] = (span_type, spans[-1][1], end)
        type_before = span_type
    return [f"{name}: {' '.join(text[a:b].split())}" for name, a, b in spans]


def _show_answer(_, answer):
    shown = " ".join(answer["answer"].split()) or "(no answer)"
    return [f"{shown}  {answer['probability']:.3f}"]


def _show_masks(_, answer):
    for mask in answer["masks"]:
        pairs = zip(mask["tokens"], mask["probabilities"], strict=True)
        tokens = "  ".join(f'"{token}" {share:.3f}' for token, share in pairs)
        yield f"[MASK] at {mask['start']}: {tokens}"


def _show_vectors(_, answer):
    pairs = zip(answer["tokens"], answer["vectors"], strict=True)
    return [f"{token} {_numbers(vector)}" for token, vector in pairs]


def _numbers(vector):
    """The first numbers of a vector, or of the first of several."""
    if vector and isinstance(vector[0], list):
        return f"{_numbers(vector[0])} x {len(vector)}"
    shown = " ".join(f"{value:.4f}" for value in vector[:_SHOWN_NUMBERS])
    return f"{shown} ... ({len(vector)} numbers)"


def _show_probabilities(_, answer):
    ranked = sorted(answer["probabilities"].items(), key=lambda item: -item[1])
    if "label" in answer and answer["label"] not in answer["probabilities"]:
        ranked = [(answer["label"], ranked[0][1])]  # the others have no names
    return [", ".join(f"{name} {p:.3f}" for name, p in ranked[:3])]


# Key of an answer -> lines of its text and the answer; the first key of the answer.
_SHOWN = {
    "tags": _show_tags,
    "answer": _show_answer,
    "masks": _show_masks,
    "vector": lambda _, answer: [_numbers(answer["vector"])],
    "vectors": _show_vectors,
    "written": lambda _, answer: [answer["written"]],
    "pieces": lambda _, answer: [f"perplexity {answer['perplexity']:.4g}"],
    "probabilities": _show_probabilities,
}
