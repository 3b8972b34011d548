"""A trained tagger as a SavedModel that takes raw text or words; for TF Serving."""

import tensorflow as tf

from serving import export


class WordTagger(tf.Module):
    """Three signatures over one model.

    `serving_default` takes text, `words` what is split into words already, `ids`
    features. Sentences of any length are cut into windows inside the graph, all of
    which go through the network at once.
    """

    def __init__(self, split, encode, forward, choose, variables):
        """Keeps the parts.

        Args:
            split: text [B] -> {words [B, W] string, starts, ends [B, W] int32}.
            encode: words [B, W], "" being none -> windows, whose `features` are
                {input_ids, input_mask, segment_ids} int32 [N, S], as in training.
            forward: features -> {logits} float32 [N, S, C].
            choose: windows, logits -> {tags string, probabilities float32}, [B, W].
            variables: of the model.
        """
        super().__init__()
        self._tracked = list(variables)
        self._split = split
        self._encode = encode
        self._forward = forward
        self._choose = choose
        self.tag = export.text_function(self._tag_text, "text")
        words = tf.TensorSpec([None, None], tf.string, name="words")
        self.tag_words = tf.function(self._tag_words, input_signature=[words])
        self.predict = export.ids_function(forward)

    def signatures(self):
        """What a server offers, by name."""
        return {
            "serving_default": self.tag.get_concrete_function(),
            "words": self.tag_words.get_concrete_function(),
            "ids": self.predict.get_concrete_function(),
        }

    def _tag_text(self, text):
        found = self._split(text)
        return {**self._tag_words(found["words"]), **found}

    def _tag_words(self, words):
        windows = self._encode(words)
        logits = self._forward(windows.features)["logits"]
        return {"words": words, **self._choose(windows, logits)}
