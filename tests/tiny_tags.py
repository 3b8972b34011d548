"""Tagged sentences that a tiny model can learn to tag.

Words are those of tests/tiny.py. A sign begins a span of its own type, and the word
"really" behind it goes on with the span.
"""

import pathlib

from tests import tiny

TYPES = {sign: label for label, sign in tiny.SIGNS.items()}


def sentence(number, length=None):
    """(words, tags): 4 to 11 words, by the number, with one or two spans."""
    length = length or 4 + number % 8
    words = [tiny.FILLERS[(number * 7 + j * 3) % 10] for j in range(length)]
    tags = ["O"] * length
    words = ["sea" if word == "really" else word for word in words]
    for place in range(number % length, length, 5):
        sign = tiny.SIGNS[tiny.LABELS[(number + place // 2) % 3]]
        words[place], tags[place] = sign, f"B-{TYPES[sign]}"
        if number % 2 and place + 1 < length:
            words[place + 1], tags[place + 1] = "really", f"I-{TYPES[sign]}"
    return words, tags


def sentences(count, start=0):
    return [sentence(number) for number in range(start, start + count)]


def write_conll(path, rows, *, has_tags=True):
    """A file of columns; a new document every four sentences."""
    lines = []
    for number, (words, tags) in enumerate(rows):
        if number % 4 == 0:
            lines += ["-DOCSTART- O", ""]
        pairs = zip(words, tags, strict=True)
        lines += [f"{word} {tag}" if has_tags else word for word, tag in pairs]
        lines.append("")
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_splits(directory, train=48, dev=12, test=10):
    """train.conll, dev.conll and test.conll."""
    directory, start = pathlib.Path(directory), 0
    for name, count in (("train", train), ("dev", dev), ("test", test)):
        write_conll(directory / f"{name}.conll", sentences(count, start))
        start += count
    return directory
