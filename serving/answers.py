"""What a model answers, as dicts of an example each and as lines for a person.

Plain Python: whoever asks a server needs no TensorFlow.
"""

import collections
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contract import errors

_ANSWER_OUTPUTS = ("answer", "start", "end", "score", "probability", "null_odds")
_WORD_OUTPUTS = ("words", "tags", "probabilities", "starts", "ends")  # [B, W] each
_MASK_OUTPUTS = ("tokens", "probabilities", "filled")  # [B, M, k] each
_SHOWN_NUMBERS = 5  # of a vector, in a line
_OUTSIDE = "O"  # the tag of a word that is nothing in particular
# Of tags such as B-PER: the letters of words of a span, and of those that begin one.
_SPAN_LETTERS, _FIRST_LETTERS = tuple("BIESLUM"), tuple("BSU")


def text_names(inputs: Mapping[str, int]) -> list[str]:
    """What an example consists of, in the order in which a person gives it.

    `inputs` are {name: texts of an example}; a name is there as often as it has texts.
    """
    names = sorted(inputs, key=lambda name: (name != "question", name))
    if "choices" in inputs:  # which may have a question, too
        names = sorted(inputs, key=("context", "question", "choices").index)
    return [name for name in names for _ in range(inputs[name])]


def by_name(names: Sequence[str], texts: Sequence[Any]) -> dict[str, Any]:
    """{name: text, or list of the texts of a name that is there several times}.

    `texts` are those of `names`, or columns of such.
    """
    counts, given = collections.Counter(names), iter(texts)
    found = {}
    for name, count in counts.items():
        several = [next(given) for _ in range(count)]
        found[name] = several if count > 1 else several[0]
    return found


def inputs(
    names: Sequence[str], columns: Sequence[Sequence[str]]
) -> dict[str, list[Any]]:
    """What a signature takes: a list a name, of texts or of lists of texts."""
    rows = [by_name(names, row) for row in zip(*columns, strict=True)]
    return {name: [row[name] for row in rows] for name in dict.fromkeys(names)}


def texts(arguments: Sequence[str]) -> list[list[str]]:
    """The texts of the examples as columns: one, or two where tabs separate pairs."""
    rows = [argument.split("\t") for argument in arguments]
    for argument, row in zip(arguments, rows, strict=True):
        if not _is_text(argument):
            raise errors.InputError(
                f"{argument!r:.80} is not UTF-8; convert it, for example with iconv"
            )
        if len(row) != len(rows[0]):
            raise errors.InputError(
                f"{argument!r:.80} has {len(row)} texts, the first argument has "
                f"{len(rows[0])}; separate the texts of a pair by one tab"
            )
    return [list(column) for column in zip(*rows, strict=True)]


def _is_text(argument: str) -> bool:
    """False where the shell gave bytes that are not UTF-8, as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


def check(columns: Sequence[Sequence[str]], names: Sequence[str], model: str) -> None:
    """Raises ValueError unless there is one column for each name, all equally long."""
    if len(columns) != len(names):
        raise errors.InputError(
            f"{model} takes {', '.join(names)} for each example, {len(columns)} given; "
            "separate the texts of a pair by a tab"
        )
    if len({len(column) for column in columns}) > 1:
        raise errors.InputError(
            f"{' and '.join(str(len(column)) for column in columns)} texts given for "
            f"{', '.join(names)}; give as many of each"
        )


def label_names(label_map: Any) -> list[str]:
    """What label_map.json names, in order; nothing where it holds no such names.

    Raises:
        ValueError: its contents are something else.
    """
    texts = label_map.values() if isinstance(label_map, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise errors.InputError("it is no object of texts")
    names = {key: name for key, name in label_map.items() if key.isdecimal()}
    if list(names) != [str(index) for index in range(len(names))]:
        raise errors.InputError('its keys are not "0", "1", ... in this order')
    return list(names.values())


def _as_lists(values):
    """The values of a NumPy array, strings as str; lists as they are."""
    if isinstance(values, list):
        return values
    is_text = values.dtype == object
    return _decoded(values.tolist()) if is_text else values.tolist()


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(inner) for inner in value]
    return value.decode("utf-8", "replace")


def rows(
    outputs: Mapping[str, Any], labels: Sequence[str], *, knows_labels: bool
) -> list[dict[str, Any]]:
    """A dict for each example.

    Args:
        outputs: of a signature by name: arrays, or nested lists with str.
        labels: a classifier's, in the order of its probabilities; () for a number.
        knows_labels: False where `labels` is () because nobody has said them; then
            the probabilities have the keys of label_map.json, "0" and so on.
    """
    outputs = {name: _as_lists(values) for name, values in outputs.items()}
    if "tags" in outputs:
        return _tagged(outputs)
    if "filled" in outputs:
        return _filled(outputs)
    if "tokens" in outputs:
        return _embedded(outputs)
    if "pieces" in outputs:
        return _scored(outputs)
    if "answer" in outputs:
        columns = {name: outputs[name] for name in _ANSWER_OUTPUTS if name in outputs}
        return [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    if "probabilities" in outputs:
        return _classified(outputs, labels, knows_labels)
    return [
        dict(zip(outputs, row, strict=True))
        for row in zip(*outputs.values(), strict=True)
    ]


def _classified(outputs, labels, knows_labels):
    found = []
    for i, row in enumerate(outputs["probabilities"]):
        names = labels
        if not names and ("label" in outputs or (len(row) > 1 and not knows_labels)):
            names = [str(place) for place in range(len(row))]
        if not names:
            found.append({"score": row[0]} if len(row) == 1 else {"scores": row})
            continue
        answer = {"probabilities": dict(zip(names, row, strict=True))}
        if "label" in outputs:
            answer = {"label": outputs["label"][i], **answer}
        found.append(answer)
    return found


def _tagged(outputs):
    """A dict for each row of a tagger's outputs, without the padding."""
    found = []
    for i, words in enumerate(outputs["words"]):
        count = sum(word != "" for word in words)
        names = [name for name in _WORD_OUTPUTS if name in outputs]
        found.append({name: outputs[name][i][:count] for name in names})
    return found


def _filled(outputs):
    """`masks`: what fills each [MASK] of a text, without the padding."""
    found = []
    for i, starts in enumerate(outputs["starts"]):
        masks = []
        for j, start in enumerate(starts):
            if start >= 0:
                lists = {name: outputs[name][i][j] for name in _MASK_OUTPUTS}
                masks.append({"start": start, **lists})
        found.append({"masks": masks})
    return found


def _embedded(outputs):
    """The tokens of a text and their vectors, without the padding."""
    found = []
    for tokens, vectors in zip(outputs["tokens"], outputs["vectors"], strict=True):
        # [SEP] ends every text; a token of the vocabulary may be "".
        count = len(tokens) - tokens[::-1].index("[SEP]")
        found.append({"tokens": tokens[:count], "vectors": vectors[:count]})
    return found


def _scored(outputs):
    """How likely a text is, its tokens and what each costs, without the padding."""
    found = []
    for row in zip(*outputs.values(), strict=True):
        answer = dict(zip(outputs, row, strict=True))
        for name in ("pieces", "token_nll"):
            answer[name] = answer[name][: answer["num_tokens"]]
        found.append(answer)
    return found


def lines(
    arguments: Sequence[str], found: Sequence[Mapping[str, Any]], *, as_json: bool
) -> Iterable[str]:
    """What to print for each argument, a text or texts separated by tabs."""
    for argument, answer in zip(arguments, found, strict=True):
        name, text = "text", argument
        if "answer" in answer:  # its context may be long
            name, text = "question", argument.split("\t")[0]
        row = {name: text, **answer}
        yield json.dumps(row, ensure_ascii=False) if as_json else _line(text, answer)


def _line(text, answer):
    if "tags" in answer:
        pairs = zip(answer["words"], answer["tags"], strict=True)
        found = [f"{word}/{tag}" for word, tag in pairs if tag != _OUTSIDE]
        shown = [" ".join(found) or "(no tags)", *_spans(text, answer)]
        return "\n    ".join([text, *shown])
    if "answer" in answer:
        found = " ".join(answer["answer"].split()) or "(no answer)"
        return f"{text}\n    {found}  {answer['probability']:.3f}"
    if "score" in answer:
        return f"{answer['score']:.3f}  {text}"
    if "scores" in answer:
        return f"{' '.join(f'{value:.3f}' for value in answer['scores'])}  {text}"
    if "masks" in answer:
        return "\n    ".join([text, *map(_mask, answer["masks"])])
    if "vector" in answer:
        return f"{text}\n    {_numbers(answer['vector'])}"
    if "vectors" in answer:
        pairs = zip(answer["tokens"], answer["vectors"], strict=True)
        rows = [f"{token} {_numbers(vector)}" for token, vector in pairs]
        return "\n    ".join([text, *rows])
    if "generated" in answer:
        return f"{text}{answer['generated']}"
    if "written" in answer:
        return f"{text}\n    {answer['written']}"
    if "pieces" in answer:
        return f"{text}\n    perplexity {answer['perplexity']:.4g}"
    if "probabilities" in answer:
        ranked = sorted(answer["probabilities"].items(), key=lambda item: -item[1])
        if "label" in answer and answer["label"] not in answer["probabilities"]:
            ranked = [(answer["label"], ranked[0][1])]  # the others have no names
        shown = ", ".join(f"{name} {value:.3f}" for name, value in ranked[:3])
        return f"{text}\n    {shown}"
    return f"{text}\n    {json.dumps(answer, ensure_ascii=False)}"


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


def _mask(mask):
    pairs = zip(mask["tokens"], mask["probabilities"], strict=True)
    shown = "  ".join(f'"{token}" {share:.3f}' for token, share in pairs)
    return f"[MASK] at {mask['start']}: {shown}"


def _numbers(vector):
    """The first numbers of a vector, or of the first of several."""
    if vector and isinstance(vector[0], list):
        return f"{_numbers(vector[0])} x {len(vector)}"
    shown = " ".join(f"{value:.4f}" for value in vector[:_SHOWN_NUMBERS])
    return f"{shown} ... ({len(vector)} numbers)"
