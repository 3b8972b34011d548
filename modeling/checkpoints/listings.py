"""Many names of variables, in few words."""

import itertools
import re

from modeling.checkpoints import names

_OF_ELMO = ("elmo/", "lm/", "RNN_")  # its layers are few, and listed by variable
# Of an encoder-decoder, in files; what is random after both sides came from a BERT.
_CROSS = re.compile(
    r"^decoder[./]bert[./]encoder[./]layer[._](\d+)[./]crossattention[./]"
)
_NAMES_OF_LAYER = {
    kind: len(names.encoder(kind, 1)) - len(names.encoder(kind, 0))
    for kind in ("BERT", "GPT")
}
_NAMES_OF_CROSSING = 10  # kernels and biases of four maps, and a norm


def of_keys(keys):
    """Keys in text; where a layer is there as a whole, its number alone."""
    of_layers, crossing = {}, {}
    for key in keys:
        if found := _CROSS.match(key):
            crossing.setdefault(int(found[1]), []).append(key)
        else:
            of_layers.setdefault(names.layer_of(key), []).append(key)
    named = of_layers.pop(None, [])
    if crossing and all(len(its) == _NAMES_OF_CROSSING for its in crossing.values()):
        named = [f"cross-attention of layers {_ranges(sorted(crossing))}", *named]
    else:
        named += itertools.chain(*crossing.values())
    whole = []
    for layer, its in sorted(of_layers.items()):
        is_bert, is_elmo = (its[0].startswith(n) for n in ("bert", _OF_ELMO))
        if is_elmo or len(its) < _NAMES_OF_LAYER["BERT" if is_bert else "GPT"]:
            named += its
        else:
            whole.append(layer)
    return ", ".join([*(["layers " + _ranges(whole)] if whole else []), *named])


def _ranges(numbers):
    """[0, 1, 2, 5] to "0 to 2 and 5"."""
    runs = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " and ".join(
        f"{first} to {last}" if last > first else str(first) for first, last in runs
    )
