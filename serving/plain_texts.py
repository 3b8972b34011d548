"""Texts to ids, and numbers to labels or vectors, without calls of TensorFlow.

Those take longer than the tokenizer itself. An export for another runtime has its
tokenizer in tokenizer.json as well, for any program with the package tokenizers. That
package cuts texts as wordpiece.BertTokenizer does, but for sigma and characters of
later versions of Unicode, all of which are beyond `_LAST`; texts that have a character
beyond go through TensorFlow. RoBERTa's byte pairs are there, too.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tokenizers

from contract import errors, file_names
from contract import features as feature_names
from serving import export

_LAST = "\u02ff"  # Latin letters; combining marks follow


def write(module: export.ServedModel, directory: str) -> None:
    """Writes tokenizer.json, where an example is one sequence of word pieces."""
    encoder = module.encoder
    if encoder is None or encoder.ids_shape != (None,):
        return
    library = encoder.tokenizer.library()
    if library is None or getattr(encoder.tokenizer, "added_tokens", None):
        return
    if not encoder.tokenizer.rules.splits_punctuation:
        return  # a word may be [MASK], which is no special token in the graph
    encoder.tokenizer.frame(library)
    library.enable_truncation(encoder.max_seq_length)
    text = library.to_str(pretty=True)
    with tf.io.gfile.GFile(os.path.join(directory, file_names.TOKENIZER), "w") as file:
        file.write(text)


class PlainTexts:
    """The tokenizer of an export, and the labels of its probabilities.

    Args:
        directory: of the version.
        text_names: the inputs of an example.
        label_names: C names as bytes, or None where an example has no single label.
    """

    def __init__(
        self, directory: str, text_names: list[str], label_names: np.ndarray | None
    ):
        path = os.path.join(directory, file_names.TOKENIZER)
        remedy = f"copy {directory} again, or export the model again"
        explain = f"{path}: cannot be loaded ({{}}); {remedy}".format
        with errors.named(explain), tf.io.gfile.GFile(path) as file:
            self._tokenizer = tokenizers.Tokenizer.from_str(file.read())
        ids = self._tokenizer.get_vocab().values()
        if max(ids, default=0) >= 2 * len(
            ids
        ):  # tokens that are there twice leave gaps
            raise errors.InputError(explain(f"it has an id of {max(ids)}"))
        self._tokenizer.enable_padding(pad_id=0)
        self._text_names, self._label_names = text_names, label_names

    def encode(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
        """Texts [B] to features int32 [B, S]; None where TensorFlow has to do it.

        It also cuts pairs that are too long, because tokenizers has another rule.
        """
        columns = []
        for name in self._text_names:
            try:
                column = [t if isinstance(t, str) else t.decode() for t in arrays[name]]
            except UnicodeDecodeError:
                return None
            if max(map(max, filter(None, column)), default="") > _LAST:
                return None
            columns.append(column)
        is_pair = len(columns) == 2
        rows = list(zip(*columns, strict=True)) if is_pair else columns[0]
        encoded = self._tokenizer.encode_batch(rows)
        if not encoded or (is_pair and any(each.overflowing for each in encoded)):
            return None
        grids = {
            feature_names.INPUT_IDS: [each.ids for each in encoded],
            feature_names.INPUT_MASK: [each.attention_mask for each in encoded],
            feature_names.SEGMENT_IDS: [each.type_ids for each in encoded],
        }
        return {name: np.array(values, np.int32) for name, values in grids.items()}

    def finish(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The answers of an export.TextModel."""
        if "vectors" in outputs:
            return {"vector": outputs["vectors"]}
        results = {"probabilities": outputs["probabilities"]}
        if self._label_names is not None:
            best = results["probabilities"].argmax(axis=-1)
            results["label"] = self._label_names[best]
        return results
