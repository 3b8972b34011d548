"""ELECTRA (Clark et al., 2020)."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from contract import errors
from modeling import activations, bert
from modeling.checkpoints import names
from modeling.configs import keras_configs
from modeling.networks import bert_family, bert_names, spec


@dataclasses.dataclass(frozen=True, kw_only=True)
class ElectraConfig(bert_family.RelativeConfig):
    """ELECTRA (Clark et al., 2020), discriminator or generator: narrow embeddings."""

    model_type: str = "electra"
    embedding_size: int = 128  # E
    hidden_size: int = 256
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    hidden_act: str = "gelu_erf"
    type_vocab_size: int = 2
    head_act: ClassVar[str] = "gelu_erf"
    kind: ClassVar[str] = "ELECTRA"
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        **bert_family.RelativeConfig.required,
        "summary_type": ("first",),  # these three are of the head of choices
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
    }

    @property
    def has_projection(self) -> bool:  # type: ignore[override]
        """Whether embeddings [E] become inputs of blocks [D] by an affine map."""
        return self.embedding_size != self.hidden_size

    def generator(self, size: float) -> "ElectraConfig":
        """The config of a generator `size` times as wide (section 3.2 there).

        Raises:
            ValueError: this makes no whole number of heads.
        """
        heads = size * self.num_attention_heads
        if round(heads) < 1 or abs(heads - round(heads)) > 0.01:  # 0.333 is a third
            raise errors.InputError(
                f"--generator_size={size:g} makes {heads:g} heads; choose a multiple "
                f"of 1/{self.num_attention_heads}"
            )
        share = round(heads) / self.num_attention_heads
        return dataclasses.replace(
            self,
            hidden_size=round(share * self.hidden_size),
            num_attention_heads=round(heads),
            intermediate_size=round(share * self.intermediate_size),
            extra={},
        )


class DiscriminatorHead(keras_configs.Configured, keras.layers.Layer):
    """Whether each token was replaced (Clark et al., 2020, section 2).

    Call shapes: [B, S, D] -> logits [B, S] float32, above 0 for a replaced token.
    """

    only_dtype = "float32"
    parts = ("dense", "logits")

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = bert.dense(config, config.hidden_size, "dense")
        self.logits = bert.dense(config, 1, "logits")

    def call(self, hidden, training=False):
        hidden = self.dense(ops.cast(hidden, "float32"))
        hidden = activations.activate(self.config.hidden_act, hidden, training=training)
        return self.logits(hidden)[..., 0]


# How the Google names of a generator's layers begin that lie beside a discriminator.
_GENERATOR = "generator/"
_GENERATOR_NORM = f"{_GENERATOR}encoder/layer_0/attention/output/LayerNorm/gamma"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Electra(bert_family.FamilySpec):
    def head_rows(self, config):
        return [*super().head_rows(config), *self._generator_rows(config)]

    def check_generator(self, config: Any, file: Any, size: float | None) -> None:
        """Refuses weights that another objective has trained, or of another size."""
        rows = names.head_rows(config)
        heads = "masked_lm/bias", "discriminator/dense/bias"
        has_words, is_whole = (rows[p].key(file.format) in file.shapes for p in heads)
        (width,) = file.shapes.get(_GENERATOR_NORM, (None,))
        if size is None and width:
            wrong = "a discriminator and its generator; set --objective=replaced_tokens"
        elif size is not None and has_words and not is_whole:
            wrong = (
                "a generator alone; give a discriminator, or set --objective=masked_lm"
            )
        elif size and width not in (None, config.generator(size).hidden_size):
            share = width / config.hidden_size
            wrong = f"another generator; set --generator_size={share:g}"
        else:
            return
        raise errors.InputError(f"{file.source}: holds {wrong}")

    def _generator_rows(self, config):
        """The rows of a generator beside its discriminator, whose tables it has."""
        rows = self.renaming.of(bert_names.masked_lm_rows(config))
        rows += self.renaming.rows
        rows += (row for i in range(config.num_blocks) for row in self.layer_rows(i))
        return [
            names.Name(
                f"generator/{row.path}", row.google.replace("electra/", _GENERATOR)
            )
            for row in rows
        ]


NETWORK = _Electra(
    **bert_family.OF_BLOCKS,
    kind="ELECTRA",
    config=ElectraConfig,
    model_types=("electra",),
    classes={"electra": "Electra"},
    heads=spec.TASKS | {"pretraining", "discriminator"},
    objectives=("replaced_tokens", "masked_lm"),
    sizes=bert_family.FACTORIZED_SIZES,
    prefix="electra",
    discriminator_head=DiscriminatorHead,
    classifier=spec.Classifier("gelu_erf", 0.1, drops_input=True, has_summary=True),
    renaming=bert_names.Renaming(
        hugging_face=(
            ("bert.", "electra."),
            ("cls.predictions.transform.", "generator_predictions."),
            ("cls.predictions.decoder.", "generator_lm_head."),
            ("cls.predictions.", "generator_lm_head."),
        ),
        google=(
            ("bert/", "electra/"),
            ("cls/predictions/transform/", "generator_predictions/"),
            ("cls/predictions/", "generator_predictions/"),
        ),
        absent=("bert/pooler/", "next_sentence/"),
        rows=tuple(
            names.rows(
                names.DENSE,
                "bert/embeddings/projection",
                "electra/embeddings_project",
                "electra.embeddings_project",
            )
        ),
        head_rows=(
            *names.rows(
                names.DENSE,
                "discriminator/dense",
                "discriminator_predictions/dense",
                "discriminator_predictions.dense",
            ),
            *names.rows(
                names.DENSE,
                "discriminator/logits",
                "discriminator_predictions/dense_1",
                "discriminator_predictions.dense_prediction",
            ),
            *bert_names.dense_classifier(
                ("dense", "classifier.dense"),
                ("out_proj", "classifier.out_proj"),
                ("summary", "sequence_summary.summary"),
            ),
        ),
    ),
)
