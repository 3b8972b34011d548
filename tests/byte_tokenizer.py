"""A tokenizer of bytes, with the interface of data_pipeline/text, for quick tests."""

import tensorflow as tf


class ByteTokenizer:
    """Each byte of a text is a token; 256 ends texts, unless there is no such token."""

    in_graph = False
    vocab_size = 257

    def __init__(self, *, has_end=True):
        self.document_end_id = 256 if has_end else None

    def tokenize(self, texts):
        return tf.ragged.constant([list(t.encode()) for t in texts], tf.int32, 1)

    def decode(self, ids):
        return bytes(index for index in ids if index < 256).decode("utf-8", "replace")
