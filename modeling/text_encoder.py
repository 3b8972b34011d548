"""One vector a text: a network, a pooling, and affine maps (Sentence-BERT, 2019).

Texts of equal meaning have near vectors after training with a loss of contrastive.py.
"""

from modeling import bert, models, sequences
from modeling.features import vectors
from modeling.features.text_vectors import TextVectors

DEFAULT = TextVectors()


class TextEncoder(models.BertModel):
    """Vectors of texts, as `text_vectors`, a TextVectors, describes.

    Call shapes: three features [B, S] -> {"vectors": [B, W]} float32; where an example
    is G texts, features are [B, G, S] and vectors [B, G, W].
    """

    arguments = (*models.BertModel.arguments, "text_vectors")

    def __init__(self, config, text_vectors=DEFAULT, **kwargs):
        super().__init__(config, **kwargs)
        self.text_vectors = text_vectors
        self.uses_pooler = False
        self.projections = [
            bert.Dense(
                each.units,
                activation=each.activation,
                use_bias=each.use_bias,
                name=f"projection_{number}",
                dtype="float32",
            )
            for number, each in enumerate(text_vectors.projections)
        ]

    @property
    def width(self):
        """W, the values of a vector."""
        return self.text_vectors.width(self.config.hidden_size)

    def build(self, input_shape=None):
        """Creates every variable; input shapes do not matter."""
        width = self.config.hidden_size
        for layer in self.projections:
            layer.build((None, width))
            width = layer.units
        super().build(input_shape)

    def call(self, features, training=False, seed=None):
        seed = self.dropout_seed(training, seed)
        rows = sequences.as_rows(features)
        values = vectors.of_texts(self, rows, seed, self.text_vectors.pooling)  # [R, D]
        for layer in self.projections:
            values = layer(values)
        if self.text_vectors.is_normalized:
            values = vectors.normalize(values)
        if size := self.text_vectors.truncate_dim:
            values = values[:, :size]
        return {"vectors": sequences.by_example(values, features)}
