"""BERT in a notebook, and in Keras' way; docs/python.md shows how.

    model = bert.load("models/minilm").model

Import it before TensorFlow, which reads variables that it sets.
"""

from cli import environment

environment.prepare_notebook()

with environment.quiet_import():
    import tensorflow as tf

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cli import argument_names, networks
from contract import errors, features, file_names
from data_pipeline import label_maps
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, labels, predictions, sources, tables
from data_pipeline.classification import split as labelled_rows
from data_pipeline.seq2seq import graph
from data_pipeline.text import base
from modeling import kernels_tf, losses, pretrainers, sequences
from modeling.checkpoints import (
    checkpoint,
    conversion,
    hugging_face,
    output_directory,
    pretrained,
)
from modeling.features import attention_maps, vectors
from modeling.generation import beam_search
from serving import export, formats
from training import inference, metrics, optimizers, run_directory

tf.get_logger().setLevel("WARNING")  # a notebook shows its notes on exports, too

__version__ = "0.2.0"
__all__ = ["Loaded", "classifier", "load", "optimizer"]

_LEAST_TOKENS = 4  # as of --max_seq_length
_PREDICTED = 64  # texts a batch
_PAIR = "encoder_decoder"


def __dir__():
    return __all__


@dataclasses.dataclass(frozen=True, repr=False)
class Loaded:
    """A network with what its inputs and outputs mean.

    Attributes:
        model: one of modeling/models.py, an ordinary Keras model with its weights.
        classes: what a classifier's or tagger's outputs are called, or None.
        source: where the weights are from, and what became of every name.
        num_texts: of an example, 2 for pairs; None where the weights do not say it.
        drawn: values of variables that the weights lack and `model` does not need, by
            their names in Google's checkpoints.
    """

    model: Any
    tokenizer: base.Tokenizer
    classes: label_maps.Classes | None
    max_seq_length: int  # in tokens, [CLS] and [SEP] included
    source: str
    num_texts: int | None = None
    drawn: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __repr__(self):
        config = self.model.config
        names = f", classes: {', '.join(self.classes.names)}" if self.classes else ""
        return (
            f"{type(self.model).__name__}, {config.num_hidden_layers} layers x "
            f"{config.hidden_size}, {self.tokenizer.vocab_size} tokens{names}\n"
            f"weights: {self.source}"
        )

    def encode(self, texts, seconds=None, choices=None):
        """The model's inputs, int32 [B, S] each, for B texts or pairs of texts.

        A string is one text. A model of choice takes B contexts, `seconds` that stand
        before each answer, if it was trained on such, and `choices`, lists of C
        answers; its inputs are [B, C, S].

        Raises:
            ValueError: there are not as many `seconds` or `choices` as texts, or the
                model reads single texts, or pairs alone.
        """
        pack = self._pack(*self._checked(texts, seconds, choices))
        return packing.pad(*pack[:2], num_sequences=self._pack.num_sequences)

    def tokens(self, text, second=None) -> list[str]:
        """The tokens that the model reads of a text, [CLS] and [SEP] among them."""
        seconds = None if second is None else [second]
        ids = self._pack([text], seconds)[0][0]
        return self.tokenizer.ids_to_tokens(ids.numpy())

    def predict(self, texts, seconds=None, choices=None) -> list[dict[str, Any]]:
        """A classifier's answers for each text, as in test_predictions.jsonl.

        Arguments and errors are those of `encode`.
        """
        label_set = self._label_set("predict")
        rows = self._checked(texts, seconds, choices)
        if not rows[0]:
            return []
        pack = self._pack(*rows)
        packed = packing.unpad(pack[0], pack[1], self._pack.num_sequences)
        outputs = _outputs(self._forward, packed)
        shares = np.asarray(
            losses.probabilities(label_set.problem_type, outputs["logits"])
        )
        decisions = predictions.decide(label_set, shares, threshold=0.5)
        pairs = zip(shares, decisions, strict=True)
        return [predictions.described(label_set, *pair) for pair in pairs]

    @argument_names.in_errors
    def embed(
        self, texts, seconds=None, *, pooling="mean", layers=(-1,), normalize=False
    ) -> np.ndarray:
        """Vectors of texts, float32 [B, D], or [B, K, D] of K layers.

        They are those of `extract_features.py --layers=-1 --pooling=mean`, and of the
        signature `embed` of an export. `pooling` is mean, or cls for the vector of
        [CLS]; `normalize` scales each vector to the length 1.

        Raises:
            ValueError: the network has no such layer; or as in `encode`.
        """
        self._check_encodes("embed")
        if self.model.config.network == "gpt":
            raise errors.InputError(
                "embed: a GPT has no special tokens before it is fine-tuned; use "
                "extract_features.py, which leaves them out"
            )
        if pooling not in ("cls", "mean"):
            raise errors.InputError(f"pooling={pooling!r} is not one of cls, mean")
        choice = vectors.choose(
            self.model.config, layers=layers, pooling=pooling, normalize=normalize
        )
        encode = encoding.Encoder(self.tokenizer, self.max_seq_length)
        rows = encode.checked(texts, seconds)
        if not rows[0]:
            num_layers = (len(layers),) if len(layers) > 1 else ()
            return np.zeros((0, *num_layers, choice.width), np.float32)
        tokens, first_lengths, _ = encode(*rows)
        packed = packing.unpad(tokens, first_lengths)
        return _outputs(self._pooled(choice), packed)["vector"]

    def attention(self, text, second=None) -> np.ndarray:
        """Attention probabilities of one text, float32 [L, N, S, S], query by key."""
        self._check_encodes("attention")
        inputs = self.encode([text], None if second is None else [second])
        outputs, mask = self.model.encode(inputs, None), inputs[features.INPUT_MASK]
        return np.asarray(attention_maps.compute(self.model.network, outputs, mask))[0]

    def write(
        self, texts, *, max_target_length: int | None = None, num_beams=1
    ) -> list[str]:
        """The text that an encoder-decoder writes for each text, as in run_seq2seq.py.

        A string is one text. Targets have at most `max_target_length` tokens, by
        default as many as the decoder has positions; `num_beams` are open at a time, 1
        takes the likeliest token each time. Longer sources are cut to `max_seq_length`
        tokens.

        Raises:
            ValueError: this is no encoder-decoder, or has not so many positions or
                tokens.
        """
        config = self.model.config
        if config.network != _PAIR:
            raise errors.InputError(
                f"write is for encoder-decoders, and this is a network of {config.kind}"
                "; load the directory of one"
            )
        positions = config.decoder.max_position_embeddings
        most = positions if max_target_length is None else max_target_length
        if not 1 <= most <= positions:
            raise errors.InputError(
                f"max_target_length={most}: the decoder has {positions} positions; "
                f"give 1 to {positions}"
            )
        rules = beam_search.BeamConfig(
            num_beams,
            end_ids=(config.eos_token_id,),
            num_tokens=self.tokenizer.vocab_size,
        )
        texts, search = encoding.listed("texts", texts), self._search(rules, most)
        written: list[str] = []
        for first in range(0, len(texts), _PREDICTED):
            batch = tf.constant(texts[first : first + _PREDICTED])
            source = graph.encode(self.tokenizer, batch, self.max_seq_length)
            ids = search(source)
            spelled = graph.decode(self.tokenizer, config.decoder_tokens, ids)
            written += [text.decode("utf-8") for text in spelled.numpy()]
        return written

    @argument_names.in_errors
    def save(self, directory, file_format="google", *, overwrite=False) -> None:
        """Writes weights, config, vocabulary and labels, for `load` and `--pretrained`.

        `file_format` is google, hugging_face or keras. Variables that are `drawn`, and
        that no training has changed since, are written for Keras alone.

        Raises:
            ValueError: the directory holds something that may not be replaced.
        """
        output_directory.check(
            directory, own_files=conversion.OWN_FILES, overwrite=overwrite
        )
        texts = {}
        if self.classes:
            texts[file_names.LABEL_MAP] = label_maps.text(self.classes)
        with output_directory.complete(directory) as temporary:
            conversion.write_directory(
                temporary,
                self.model,
                file_format,
                tokenizer=self.tokenizer,
                labels=self.classes.names if self.classes else (),
                problem_type=getattr(self.classes, "problem_type", ""),
                files=texts,
                left_out=conversion.list_unchanged(self.model, self.drawn),
            )

    @argument_names.in_errors
    def export(
        self, export_dir, *, export_format="saved_model", quantization="none"
    ) -> str:
        """Writes the next version of an export that takes raw text; its path.

        Formats as of `--export_format` and `--quantization`.
        """
        label_set = self._label_set("export")
        model = self.model
        write = formats.writer(export_format, quantization, model)
        formats.check(export_format, model.config, model.reading, model.sequences)
        label_map = {file_names.LABEL_MAP: labels.label_map_text(label_set)}
        with kernels_tf.joined_projections(model) as variables:
            module = export.TextClassifier(
                self._pack,
                losses.WithProbabilities(label_set.problem_type, model),
                variables,
                label_set.names if label_set.has_one_label else (),
                model.config,
            )
            return export.save(module, export_dir, label_map, write=write)

    @functools.cached_property
    def _pack(self):
        is_set = isinstance(self.classes, labels.Labels)
        label_set = self.classes if is_set else None
        length, has_pairs = self.max_seq_length, self.num_texts == 2
        return encoding.Encoder(self.tokenizer, length, label_set, has_pairs)

    @functools.cached_property
    def _forward(self):
        return _compiled(self.model)

    @functools.cached_property
    def _pooled(self):
        """A function of a VectorSpec to the compiled function of its vectors."""

        def compile_for(choice):
            def pool(inputs, training):
                vector = vectors.encode(self.model, choice, inputs, pools=True)
                return {"vector": vector}

            return _compiled(pool)

        return functools.cache(compile_for)

    @functools.cached_property
    def _search(self):
        """A function of rules and a length to the compiled search; ids of the best."""
        grid = tf.TensorSpec([None, None], tf.int32)
        spec = dict.fromkeys(features.ENCODER_INPUTS, grid)

        def compile_for(rules, most):
            @tf.function(autograph=False, input_signature=[spec])
            def search(source):
                start = self.model.start(tf.shape(source[features.INPUT_IDS])[0])
                best = beam_search.search(self.model, rules, *start, most, (source,))
                return tf.where(best.is_text[:, 0], best.ids[:, 0], -1)

            return search

        return functools.cache(compile_for)

    def _check_encodes(self, action):
        if self.model.config.network == _PAIR:
            raise errors.InputError(
                f"{action} is of one text, and an encoder-decoder reads two; load it "
                'with head="none" for its encoder'
            )

    def _checked(self, texts, seconds=None, choices=None):
        return self._pack.checked(texts, seconds, choices, num_texts=self.num_texts)

    def _label_set(self, action):
        if not isinstance(self.classes, labels.Labels):
            raise errors.InputError(
                f"{action} is for classifiers with labels, and this is a "
                f"{type(self.model).__name__}; make one by bert.classifier, or by "
                "bert.load(directory, labels=[...]), or call the `model` itself with "
                "`encode(texts)`"
            )
        return self.classes


def _compiled(forward):
    strategy = tf.distribute.get_strategy()
    return inference.predict_function(forward, strategy, jit_compile=False)


def _outputs(forward, packed):
    """The outputs of a function of features, an example after another."""
    order = batching.evaluation_order(packed.lengths, min(_PREDICTED, len(packed)))
    batches = batching.batches(packed, order)
    strategy = tf.distribute.get_strategy()
    return inference.predict(forward, batches, order, strategy)


@argument_names.in_errors
def load(
    directory,
    *,
    head="auto",
    labels: Sequence[str] = (),
    max_seq_length: int | None = None,
    do_lower_case: bool | None = None,
    check_case=True,
) -> Loaded:
    """Opens a model: config, vocabulary, weights, and labels if it has some.

    Args:
        directory: as --pretrained: a release of Google's, a directory of Hugging Face
            or Keras, of a run, or the id of a model on Hugging Face's hub.
        head: a name in pretrainers.HEADS; "auto" takes that of the weights, and leaves
            the heads of pretraining out. Of an encoder-decoder "none" is the encoder.
        labels: of a classifier (or tagger, by `head`); its values are random unless the
            weights have a head of as many classes. They are of a choice, or several for
            a text, where the config of Hugging Face is of such a model.
        max_seq_length: in tokens, [CLS] and [SEP] included; by default a run's, or 128.
        do_lower_case: by default as the directory has it, or True.
        check_case: whether to compare `do_lower_case` with the vocabulary.

    Raises:
        ValueError: something is missing, or does not belong together.
    """
    if isinstance(labels, str):
        raise errors.InputError(f"labels={labels!r} is a string; give a list of names")
    if (length := max_seq_length) is None:
        length = run_directory.trained_with(directory, "max_seq_length") or 128
    opened = _open(directory, length, do_lower_case, check_case, not labels)
    if not labels:
        return _with_stored_head(opened, head, length)
    kind = hugging_face.stated_problem_type(opened.config)
    kind = kind if kind in ("choice", "multi_label") else "classification"
    classes = label_maps.named(labels, "" if head == "tagger" else kind)
    return _with_new_head(opened, classes, length)


@argument_names.in_errors
def classifier(
    directory,
    files: Mapping[str, Any],
    *,
    problem_type="classification",
    columns: Mapping[str, Any] | None = None,
    max_seq_length=128,
    do_lower_case: bool | None = None,
    check_case=True,
) -> tuple[Loaded, labelled_rows.LabelledData]:
    """A new classifier for the labels of tables, and their rows, read and tokenized.

    Args:
        directory: as in `load`, and so are the three last.
        files: of "train", and "dev" and "test" if wanted, the paths of tables, or their
            rows: pairs (text, label), triples (text_a, text_b, label), dicts {column:
            value}, or a DataFrame of pandas.
        problem_type: classification, multi_label or regression.
        columns: of tables.Layout, where they have no usual names: text_a, label, ...

    Raises:
        ValueError: as `load`, and for rows that are wrong.
    """
    opened = _open(directory, max_seq_length, do_lower_case, check_case)
    _check_keys("files", files, ("train", "dev", "test"))
    known = [field.name for field in dataclasses.fields(tables.Layout)]
    _check_keys("columns", columns or {}, known)
    if "train" not in files:
        raise errors.InputError('files has no "train", which the classifier learns')
    files = {
        split: os.fspath(rows) if isinstance(rows, os.PathLike) else rows
        for split, rows in files.items()
    }
    layout = tables.Layout(**(columns or {}))
    source = sources.Source(files=files, layout=layout, problem_type=problem_type)
    data = labelled_rows.load(
        source,
        files,
        opened.tokenizer,
        max_seq_length,
        label_map="",
        default_metrics=metrics.DEFAULTS,
    )
    made = _with_new_head(opened, data.label_set, max_seq_length)
    return dataclasses.replace(made, num_texts=2 if data.encode.has_pairs else 1), data


def optimizer(num_train_steps, learning_rate=5e-5, warmup_proportion=0.1):
    """The original's create_optimizer, for `compile`: BertAdam on its schedule."""
    warmup = int(num_train_steps * warmup_proportion)
    rates = optimizers.LinearWithWarmup(learning_rate, num_train_steps, warmup)
    return optimizers.BertAdam(rates)


def _check_keys(name, keys, known):
    if wrong := [key for key in keys if key not in known]:
        raise errors.InputError(
            f"{name} has the key {wrong[0]!r}; its keys are {', '.join(known)}"
        )


def _open(
    directory, max_seq_length, do_lower_case, check_case, takes_encoder_decoder=False
):
    is_number = isinstance(max_seq_length, int) and max_seq_length is not True
    if not is_number or max_seq_length < _LEAST_TOKENS:
        raise errors.InputError(
            f"max_seq_length={max_seq_length!r} is no number of tokens; give "
            f"{_LEAST_TOKENS} or more, [CLS] and [SEP] included"
        )
    place = pretrained.locate(directory, "directory")
    return networks.open_network(
        networks.files_in(place, do_lower_case),
        max_seq_length,
        checks_case=check_case,
        takes_encoder_decoder=takes_encoder_decoder,
    )


def _with_new_head(opened, classes, max_seq_length):
    path, (_, tokenizer, config) = opened.files.init_checkpoint, opened
    if isinstance(classes, labels.Labels):
        num_outputs, settings = classes.num_outputs, _reading(classes)
        model = pretrainers.build("classifier", num_outputs, config, **settings)
    else:
        model = pretrainers.build("tagger", len(classes.names), config)
    report = checkpoint.load(model, path)
    return _loaded(model, tokenizer, classes, max_seq_length, report)


def _reading(classes):
    """How a classifier with these classes reads the sequences of an example."""
    if not isinstance(classes, labels.Labels):
        return {}
    return {
        "sequences": sequences.choose_kind(classes.problem_type, classes.pair_input)
    }


def _with_stored_head(opened, wanted, max_seq_length):
    path, (_, tokenizer, config) = opened.files.init_checkpoint, opened
    label_map, file = label_maps.find(path), checkpoint.open_file(path, config)
    head = label_maps.find_head(label_map, wanted)
    head, num_classes = conversion.find_head(file, config, head)
    if wanted == "auto" and head == "pretraining":
        head = "none"
    classes = None
    if num_classes:
        tell = functools.partial(hugging_face.read_labels, config, num_classes)
        classes = label_maps.read_classes(label_map, head, num_classes, tell)
        if classes is None and head == "classifier" and tell()[0] != "choice":
            names = hugging_face.placeholder_labels(num_classes)
            classes = label_maps.named(names, tell()[0])
    read = conversion.read(path, config, head, **_reading(classes))
    return _loaded(read.model, tokenizer, classes, max_seq_length, read.report)


def _loaded(model, tokenizer, classes, max_seq_length, report):
    print(f"weights: {report}")
    num_texts = 2 if model.reading.joins_pairs else None
    drawn = conversion.copy_random(model, report.missing)
    source = str(report)
    return Loaded(model, tokenizer, classes, max_seq_length, source, num_texts, drawn)
