"""The record of a network: all that other packages have to know of it.

The file of a network makes one; `catalogue.NETWORKS` lists them. What a network cannot
do is left at its default, and whoever wants it refuses the network by its name.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from contract import errors
from contract import features as feature_names
from modeling.checkpoints import names

# {parts of a model beside its network: the end of the name of a class of transformers}.
TAGGER, CHOICE = "ForTokenClassification", "ForMultipleChoice"
ENDINGS = {
    (): "Model",
    ("classifier",): "ForSequenceClassification",
    ("tagger",): TAGGER,
    ("span",): "ForQuestionAnswering",
    ("masked_lm", "next_sentence"): "ForPreTraining",
    ("discriminator",): "ForPreTraining",
    ("masked_lm",): "ForMaskedLM",
    ("next_sentence",): "ForNextSentencePrediction",
}
_LEFT_TO_RIGHT = "LMHeadModel"
_SOME_LAYER = 65521  # a number that no key has otherwise
# The heads that every network may have; `pretrainers.HEADS` has their models.
TASKS = frozenset(("none", "classifier", "tagger", "span", "text_encoder"))


class Ties(NamedTuple):
    """Keys of Hugging Face's files that hold a weight another key holds as well.

    Attributes:
        keys: {copy: original}; a file may keep either.
        path: the variable with which both are compared, where a file has both.
    """

    keys: Mapping[str, str] = {}
    path: str = ""


class Classifier(NamedTuple):
    """A classifier with a dense layer, which reads the first token.

    Attributes:
        activation: after the dense layer.
        rate: of dropout before the logits.
        drops_input: whether there is dropout before the dense layer, too.
        has_summary: whether the dense layer is another one for choices.
        input_rate: of the dropout before the dense layer; None where it is `rate`.
    """

    activation: str
    rate: float
    drops_input: bool
    has_summary: bool = False
    input_rate: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NetworkSpec:
    """What a network is, and what can be done with it.

    Attributes:
        kind: its name in messages; that of its configs.
        config: the class of its configs, a config.NetworkConfig. Paths of variables
            begin with its `network`.
        layers: a class such as bert.Network, made of (config, recompute).
        model_types: transformers' names of it, in config.json.
        classes: {model type: how names of transformers' classes begin}.
        architectures: {parts of a model: class of transformers}, where these follow no
            rule; as `ENDINGS`.
        other_classes: of transformers, which are read and never written.
        config_file: the name of the config file in its own releases; "*" for sizes and
            dates before it.
        vocabulary: a pattern of its vocabulary, where that has no usual name.
        file_keys: keys of a config file by which it is known without a model type.
        field: of the config, which no other network's has; "" where a field model_type
            tells it.
        heads: names of pretrainers.HEADS that it may have.
        usual_head: of a checkpoint without one that is known.
        pretraining_head: the head whose weights predict words.
        free_head: the head that needs no weights of its own.
        objectives: of run_pretraining.py, the usual one first.
        targets: formats of conversion that can hold it.
        has_google_release: whether its checkpoints are called bert_model.ckpt.
        sizes: {size of the config: (variable, its axis)}, which a file shows.
        inputs: beginnings of the paths of variables below the first layer; None where
            its layers have no order, so that rates do not go by layer.
        above: beginnings of paths above the last layer that belong to no head.
        prefix: with which transformers' names of its variables begin.
        bare: how these begin where a network was saved without prefix.
        unprefixed: how names begin that show a network without any prefix.
        renamed: {part of a name in earlier files: that of today}.
        stacked: {key of a table in Hugging Face's files: that of a second one, whose
            rows follow those of the first here}.
        read_whole: keys of tables in Hugging Face's files that transformers reads
            without calling their module, so that PEFT's adapters of them have no effect
            before they are merged.
        token_table: the path of a table that gets rows for special tokens.
        new_tokens: how many rows that may be.
        classifier: a Classifier; None for bert's.
        has_wide_kernels: whether a classifier's kernel is [D, C], as of GPT.
        token_head: the class of a layer that predicts tokens from the table.
        task_heads: {classifier, tagger or span: class of a layer, made of (config, C)},
            of a network whose heads are not those of heads.py.
        discriminator_head: the class of a layer that tells replaced tokens.
        attention_weights: a function of a block, its input [B, S, D] and attention_bias
            to probabilities [B, N, S, T]; None where there are none to show.
        joined_projections: a function of the network to pairs of a bert.SelfAttention
            and those of its projections that read the same; see kernels_tf.
        packs_rows: whether sequences may share rows; see packed_rows.
        text_vectors: how it gives vectors of texts: "untrained", "trained" for them
            alone, or "" where it does not.
        onnx: a class such as bert_onnx.Writer, which writes the network as operations
            of ONNX; None where it is not written.
        weighs_words: whether words may be weighed by gradients, for --explain.
        reads_characters: whether it reads characters, without a table of tokens.
        is_recurrent: whether it is made of LSTMs.
        writes_texts: whether it goes on from a cache of what it has read; see
            generation/key_value_cache.py.
        fills_pairs: whether it can be a side of an encoder-decoder.
        has_decoder: whether it is one.
    """

    kind: str
    config: Any
    layers: Callable[..., Any]
    model_types: Sequence[str] = ()
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    architectures: Mapping[tuple[str, ...], str] = dataclasses.field(
        default_factory=dict
    )
    other_classes: Sequence[str] = ()
    config_file: str = ""
    vocabulary: str = "*.model"
    file_keys: Sequence[str] = ()
    field: str = ""
    heads: frozenset[str] = TASKS
    usual_head: str = "none"
    pretraining_head: str = "pretraining"
    free_head: str = ""
    objectives: Sequence[str] = ()
    targets: Sequence[str] = ("google", "hugging_face")
    has_google_release: bool = False
    sizes: Mapping[str, tuple[str, int]] = dataclasses.field(default_factory=dict)
    inputs: Sequence[str] | None = None
    above: Sequence[str] = ()
    prefix: str = ""
    bare: tuple[str, ...] = ()
    unprefixed: str = ""
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stacked: Mapping[str, str] = dataclasses.field(default_factory=dict)
    read_whole: Sequence[str] = ()
    token_table: str = ""
    new_tokens: int = 0
    classifier: Classifier | None = None
    has_wide_kernels: bool = False
    token_head: Any = None
    task_heads: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    discriminator_head: Any = None
    attention_weights: Callable[..., Any] | None = None
    joined_projections: Callable[..., Any] | None = None
    packs_rows: bool = False
    text_vectors: str = ""
    onnx: Callable[..., Any] | None = None
    weighs_words: bool = False
    reads_characters: bool = False
    is_recurrent: bool = False
    writes_texts: bool = False
    fills_pairs: bool = False
    has_decoder: bool = False

    # Names of variables.

    def input_rows(self) -> list[names.Name]:
        """The rows of variables of the network that are in no layer."""
        raise NotImplementedError

    def layer_rows(self, number: int) -> list[names.Name]:
        """The rows of a layer."""
        raise NotImplementedError

    def rows(self, config: Any) -> list[names.Name]:
        """The rows of the network of a config, without a pooler."""
        layers = map(self.layer_rows, range(config.num_blocks))
        return [*self.input_rows(), *(row for layer in layers for row in layer)]

    def head_rows(self, config: Any) -> list[names.Name]:
        """The rows of a pooler and of all heads; of equal paths the last counts."""
        return [*names.HEADS]

    def classifier_of(self, config: Any) -> Classifier | None:
        """The `classifier` of a model with this config."""
        return self.classifier

    def is_head(self, path: str) -> bool:
        """Whether a variable belongs to a head and not to the network."""
        return not path.startswith(f"{self.config.network}/")

    def part(self, path: str) -> str:
        """The part of a model that has a variable: encoder, pooler, or its head."""
        first, second, *_ = path.split("/")
        if self.is_head(path):
            return first
        return "pooler" if second == "pooler" else "encoder"

    def ties(self) -> Ties:
        """Keys of Hugging Face's files that are copies."""
        return Ties()

    def modern_key(self, key: str) -> str:
        """The name in `rows` of a variable that a checkpoint may call otherwise."""
        return key

    # What a file shows.

    @functools.cached_property
    def marks(self) -> list[names.Name]:
        """The rows of a network of one layer, by which its files are known."""
        return [*self.input_rows(), *self.layer_rows(0)]

    def find_sizes(
        self, shapes: Mapping[str, tuple[int, ...]], format: str
    ) -> dict[str, Any]:
        """{size of the config: value}, as far as the shapes of a file show it."""
        keys, values = {row.path: row.key(format) for row in self.marks}, {}
        for size, (path, axis) in self.sizes.items():
            shape = shapes.get(keys[path], ())
            if len(shape) > axis:
                values[size] = shape[axis]
        numbers = [n for n in map(self.layer_number, shapes) if n is not None]
        return values | ({names.DEPTH: max(numbers) + 1} if numbers else {})

    @functools.cached_property
    def _before_numbers(self) -> list[str]:
        """What stands before the number of a layer, in keys of all formats."""
        number, rows = str(_SOME_LAYER), self.layer_rows(_SOME_LAYER)
        keys = (row.key(format) for row in rows for format in names.FORMATS)
        return sorted({key.split(number)[0] for key in keys if key})

    def layer_number(self, key: str) -> int | None:
        """The number of the layer that a key of any format belongs to, or None."""
        for before in self._before_numbers:
            number = key.removeprefix(before).replace(".", "/").split("/")[0]
            if key.startswith(before) and number.isdecimal():
                return int(number)
        return None

    # What becomes of a variable in training.

    def depth(self, path: str) -> int | None:
        """Of a variable: 0 below the first layer, i + 1 in layer i, None above all.

        Raises:
            InputError: the layers of the network have no order.
            KeyError: the record does not say where the variable is.
        """
        if self.inputs is None:
            raise errors.InputError(
                f"rates by layer: a network of {self.kind} has no order of layers; "
                "leave them out, or take BERT, GPT or ELMo"
            )
        if path.startswith(tuple(self.inputs)):
            return 0
        if (number := self.layer_number(path)) is not None:
            return number + 1
        if self.is_head(path) or path.startswith(tuple(self.above)):
            return None
        raise KeyError(f"{path} of {self.kind} is neither an input nor above")

    # Transformers' classes.

    def class_name(self, config: Any, parts: tuple[str, ...]) -> str:
        """The class of transformers of a model with these parts; "" if it has none."""
        if not self.classes:
            return self.architectures.get(parts, self.architectures.get((), ""))
        ending = ENDINGS.get(parts, ENDINGS[()])
        if config.is_left_to_right and parts == ("masked_lm",):
            ending = _LEFT_TO_RIGHT
        return self._class(config, ending)

    def choice_class(self, config: Any) -> str:
        """The class of transformers that compares choices, or ""."""
        return self._class(config, CHOICE) if self.classes else ""

    def _class(self, config, ending):
        usual = next(iter(self.classes))
        return self.classes[getattr(config, "model_type", usual)] + ending

    def known_classes(self) -> Iterator[str]:
        """All classes of transformers whose heads are known."""
        endings = *ENDINGS.values(), CHOICE, _LEFT_TO_RIGHT
        yield from (a + b for a in self.classes.values() for b in endings)
        yield from (*self.architectures.values(), *self.other_classes)

    # Files and batches.

    def check_generator(self, config: Any, file: Any, size: float | None) -> None:
        """Refuses an open checkpoint that another objective has trained.

        `size` is that of a generator, or None where the network predicts masked words.

        Raises:
            InputError: it is of the other one, or has a generator of another size.
        """

    def rows_of_part(self, rows: Sequence[names.Name]) -> Iterable[names.Name]:
        """In a file of the network, the rows of a model of `part_alone`."""
        return rows

    def part_alone(self, config: Any) -> Any:
        """The config of what `head="none"` keeps."""
        return config

    def beside(self, config: Any, for_library: bool) -> dict[str, str]:
        """{file name: text} of further settings, to lie beside the config."""
        return {}

    def as_released(self, config: Any, files: dict[str, Any]) -> dict[str, Any]:
        """The files {name: text} as they lie beside a checkpoint of the original."""
        return files

    def draw_ids(self, config: Any, rng: Any, mask: Any) -> Any:
        """input_ids of an example batch, int32 [B, S], for a mask of this shape."""
        return rng.integers(0, config.vocab_size, mask.shape, "int32") * mask

    def draw_more(self, config: Any, rng: Any) -> dict[str, Any]:
        """Features of an example batch that the network reads besides."""
        return {}

    def input_shapes(self, config: Any) -> dict[str, tuple[int | None, ...]]:
        """{feature: shape} of a call."""
        return dict.fromkeys(feature_names.ENCODER_INPUTS, (None, None))
