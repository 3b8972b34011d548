"""A trained question answerer as a SavedModel that takes raw text; for TF Serving."""

import tensorflow as tf

from serving import export


class QuestionAnswerer(tf.Module):
    """Two signatures over one model: `serving_default` takes text, `ids` features.

    Contexts of any length are cut into windows inside the graph, all of which go
    through the network at once.
    """

    def __init__(self, encode, forward, choose, variables):
        """Keeps the parts.

        Args:
            encode: question [B], context [B] -> windows, whose `features` are
                {input_ids, input_mask, segment_ids} int32 [N, S], as in training.
            forward: features -> {start_logits, end_logits} float32 [N, S].
            choose: windows, start_logits, end_logits -> the answers, a dict of [B].
            variables: of the model.
        """
        super().__init__()
        self._tracked = list(variables)
        self._encode = encode
        self._forward = forward
        self._choose = choose
        self.answer = export.text_function(self._answer_text, "question", "context")
        self.predict = export.ids_function(forward)

    def signatures(self):
        """What a server offers, by name."""
        return {
            "serving_default": self.answer.get_concrete_function(),
            "ids": self.predict.get_concrete_function(),
        }

    def _answer_text(self, question, context):
        windows = self._encode(question, context)
        logits = self._forward(windows.features)
        return self._choose(windows, logits["start_logits"], logits["end_logits"])
