"""NomicBERT (Nussbaum et al., 2024, arXiv:2402.01613): BERT with rotary positions.

Its layers have no biases, and their feed-forward has a gate. Variables have the names
of the code with which it was released, in files of transformers as well; a config has
the keys of that code, of transformers, or both.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from keras import ops

from contract import errors
from contract import features as feature_names
from modeling import activations, bert, kernels, rotary
from modeling.checkpoints import names
from modeling.features import attention_maps
from modeling.networks import bert_family, bert_names
from modeling.networks.modernbert import network as modernbert
from modeling.networks.modernbert import onnx

# Keys of the released code, all of which have to be there where one is. Where those of
# transformers are as well, these count.
_RELEASED = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "rotary_emb_base": "rope_theta",
    "layer_norm_epsilon": "layer_norm_epsilon",
}
_GATE, _GATES = "activation_function", {"swiglu": "silu", "geglu": "gelu"}
_USUAL = {"rope_type": "default", "rope_theta": 0}
_SHOWN = "vocab_size", "hidden_size", "type_vocab_size"  # by the shapes of a file
_GIVE = "give a model of this network, and its whole config"
_BIASES = "qkv_proj_bias mlp_fc1_bias mlp_fc2_bias"
_OTHERS = _GATE, *_BIASES.split(), "rotary_emb_fraction"
_NOT_DONE = """
    causal is_causal last_layer_subset norm_mlp num_experts num_heads_kv parallel_block
    parallel_block_tied_norm prenorm rope_scaling rotary_emb_interleaved rotary_head_dim
    rotary_emb_scale_base rotary_scaling_factor use_rms_norm
"""
_WITHOUT_EFFECT = """
    add_pooling_layer auto_map dense_seq_output embd_pdrop fused_bias_fc
    fused_dropout_add_ln max_trained_positions pad_vocab_size_multiple use_flash_attn
    use_xentropy
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NomicBertConfig(bert_family.RelativeConfig):
    """NomicBERT; the defaults are those of transformers."""

    model_type: str = "nomic_bert"
    vocab_size: int = 30528
    hidden_act: str = "silu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 2048
    type_vocab_size: int = 2
    rope_theta: float = 1000.0
    has_pooler: ClassVar[bool] = True
    attention_bias: ClassVar[bool] = False
    scales_outputs: ClassVar[bool] = False
    kind: ClassVar[str] = "NomicBERT"
    required: ClassVar[Mapping[str, Sequence[Any]]] = {
        **bert_family.RelativeConfig.required,
        **dict.fromkeys(_BIASES.split(), (False,)),
        **dict.fromkeys(_NOT_DONE.split(), (None, False)),
        "rotary_emb_fraction": (1.0,),
        "partial_rotary_factor": (1.0, None),
        _GATE: (*_GATES,),
    }
    tolerated = bert_family.RelativeConfig.tolerated.union(_WITHOUT_EFFECT.split())

    def __post_init__(self) -> None:
        super().__post_init__()
        rotary.check_width(self)

    @property
    def table_rows(self) -> dict[str, int]:
        """Rows of the tables of words and segments."""
        rows = super().table_rows
        del rows["position_embeddings"]
        return rows

    @classmethod
    def keys(cls) -> dict[str, str]:
        """Returns the keys of both."""
        return {**_RELEASED, **super().keys()}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "NomicBertConfig":
        """Builds a config, as in RelativeConfig; ValueError for other angles, too."""
        raw = dict(raw)
        rope, head = raw.pop("rope_parameters", None) or {}, raw.pop("head_dim", None)
        if "n_embd" in raw:
            raw.setdefault("hidden_act", _GATES.get(str(raw.get(_GATE)), "silu"))
        lacks = [key for key in (*_RELEASED, *_OTHERS) if key not in raw]
        is_usual = {"rope_type": "default", **rope, "rope_theta": 0} == _USUAL
        errors.refuse(
            ("n_embd" in raw and lacks, f"{', '.join(lacks)} missing; {_GIVE}"),
            (not is_usual, f"rope_parameters={rope!r} are not supported; {_GIVE}"),
        )
        raw |= {key: rope[key] for key in rope if key == "rope_theta"}
        config: NomicBertConfig = super().from_dict(raw)
        width = config.hidden_size // config.num_attention_heads
        errors.refuse(
            (head not in (None, width), f"head_dim={head!r} is not {width}; {_GIVE}")
        )
        longest = max(config.max_position_embeddings, raw.get("n_positions", 0))
        return dataclasses.replace(config, max_position_embeddings=longest)

    def to_dict(self) -> dict[str, Any]:
        """The keys of transformers' config.json."""
        raw = super().to_dict()
        return raw | {"rope_parameters": _USUAL | {"rope_theta": raw.pop("rope_theta")}}

    def _num_layer_weights(self) -> int:
        width, inner = self.hidden_size, self.intermediate_size
        return 4 * width * width + 3 * width * inner + 4 * width


class NomicBertBlock(bert.EncoderBlock):
    """BERT's, of turned queries and keys, with a gate; its bias is a View."""

    attention_kind = functools.partial(modernbert.ModernBertAttention, is_local=False)
    dense_kind = functools.partial(bert.dense, use_bias=False)

    def __init__(self, config, index, **kwargs):
        super().__init__(config, index, **kwargs)
        size = config.intermediate_size
        self.ffn_up = self.dense_kind(config, size, "ffn_up", self.given_dtype)

    def build(self, input_shape, *_):
        super().build(input_shape)
        self.ffn_up.build(input_shape)

    def call(self, hidden, view, positions=None, seed=None):
        rate, site = self.config.hidden_dropout_prob, self.site
        x = self.attention(hidden, view, positions, seed=seed)
        if positions is not None:
            hidden = kernels.take_rows(hidden, positions)
        x = kernels.norm_of_sum(self.attention_norm, hidden, x, rate, seed, site + 1)
        outer = self._feed_forward(x, seed)
        return kernels.norm_of_sum(self.ffn_norm, x, outer, rate, seed, site + 2)

    def _feed_forward(self, x, seed):
        rows = ops.reshape(x, (-1, self.config.hidden_size))
        parts = self.ffn_in(rows), self.ffn_up(rows)
        inner = activations.gate(self.config.hidden_act, parts, 0.0, seed, self.site)
        return ops.reshape(self.ffn_out(inner), kernels.shape_for_reshape(x))


class NomicBertEncoder(bert.BertEncoder):
    """BERT's, without a table of positions."""

    block_kind = NomicBertBlock

    def bias(self, mask, positions=None, position_ids=None):
        """A modernbert.View."""
        config, places = self.config, position_ids
        places = ops.arange(ops.shape(mask)[-1]) if places is None else places
        width = config.hidden_size // config.num_attention_heads
        rotation = rotary.Rotation.of(places, width, config.rope_theta)
        return modernbert.View(super().bias(mask, positions), rotation)


class Writer(onnx.RotaryWriter):
    """Writes the network as operations of ONNX."""

    def embed(self, layer):
        graph, node = self.graph, self.graph.node
        rotation = self.rotation(self.places(), self.config.rope_theta)
        self.view = self.key_bias(), *rotation
        inputs = feature_names.INPUT_IDS, feature_names.SEGMENT_IDS
        tables = map(graph.weight, (layer.word_embeddings, layer.token_type_embeddings))
        parts = (node("Gather", *pair) for pair in zip(tables, inputs, strict=True))
        return self.norm(layer.norm, node("Add", *parts))

    def attention(self, layer, hidden):
        return self.mix(layer, hidden, *self.view)

    def attention_of(self, layer, hidden, queries):
        return self.first(self.attention(layer, hidden))

    def block(self, block, queries, mixed):
        graph = self.graph
        x = self.norm(block.attention_norm, graph.node("Add", queries, mixed))
        inner = self.gated(graph.dense(block.ffn_in, x), graph.dense(block.ffn_up, x))
        return self.norm_of_sum(block.ffn_norm, x, inner, block.ffn_out)


def _attention_weights(block, hidden, view):
    query, key, _ = block.attention.project(hidden, view.rotation)
    return attention_maps.weigh(query, key, view.bias)


_KERNEL = names.DENSE[:1]
NETWORK = bert_family.FamilySpec(
    **{
        **bert_family.OF_BLOCKS,
        "attention_weights": _attention_weights,
        "joined_projections": None,
        "onnx": Writer,
    },
    kind="NomicBERT",
    config=NomicBertConfig,
    layers=NomicBertEncoder,
    model_types=("nomic_bert",),
    classes={"nomic_bert": "NomicBert"},
    sizes={key: bert_family.BERT_SIZES[key] for key in _SHOWN},
    prefix="nomic_bert",
    bare=(*bert_family.BARE, "emb_ln."),
    renaming=bert_names.Renaming(
        hugging_face=(
            ("bert.", "nomic_bert."),
            ("embeddings.LayerNorm.", "emb_ln."),
            ("encoder.layer.", "encoder.layers."),
            ("transform.LayerNorm.", "transform.layer_norm."),
        ),
        google=(("bert/", "nomic_bert/"),),
        absent=("bert/embeddings/position", "next_sentence/"),
    ),
    parts=(
        ("attention/query_key_value", "attn/Wqkv", _KERNEL),
        ("attention/output", "attn/out_proj", _KERNEL),
        ("attention_norm", "norm1", names.NORM),
        ("ffn_in", "mlp/fc12", _KERNEL),
        ("ffn_up", "mlp/fc11", _KERNEL),
        ("ffn_out", "mlp/fc2", _KERNEL),
        ("ffn_norm", "norm2", names.NORM),
    ),
)
