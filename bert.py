"""BERT in a notebook, and in Keras' way; docs/python.md shows how.

    import bert

    model = bert.load("models/minilm").model

Import it before TensorFlow: like a script it first sets what TensorFlow reads when it
is imported (training/environment.py).
"""

from training import environment

environment.prepare_notebook()

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from contract import file_names
from data_pipeline import label_maps
from data_pipeline.classification import (
    encoding,
    label_sets,
    labelled_texts,
    predictions,
    sources,
    tables,
)
from data_pipeline.examples import batching, packing
from data_pipeline.seq2seq import text_graph
from data_pipeline.text import tokenization, vocabulary_checks
from modeling import heads, pretrainers
from modeling.checkpoints import checkpoint, conversion, output_directory, pretrained
from modeling.checkpoints.formats import hugging_face
from modeling.configs import readings
from modeling.generation import beam_search
from modeling.inspection import attention_maps
from modeling.operations import joined_weights, sequences
from serving import export, formats
from training import steps
from training.flags import model_flags
from training.optimization import keras_schedule
from training.optimization import optimizer as optimizer_lib
from training.results import evaluation, metrics

_PREDICTED = 64  # texts a batch
_PAIR = "encoder_decoder"


@dataclasses.dataclass(frozen=True, repr=False)
class Loaded:
    """A network with what its inputs and outputs mean.

    Attributes:
        model: one of modeling/models.py, an ordinary Keras model with its weights.
        classes: what a classifier's or tagger's outputs are called, or None.
        source: where the weights are from, and what became of every name.
        num_texts: of an example, 2 for pairs.
    """

    model: Any
    tokenizer: tokenization.Tokenizer
    classes: label_maps.Classes | None
    max_seq_length: int  # in tokens, [CLS] and [SEP] included
    source: str
    num_texts: int = 1

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

        Of a model of choice [B, C, S], for B contexts, `seconds` that stand before each
        answer, if it was trained on such, and `choices`, lists of C answers.
        """
        pack = self._pack(texts, seconds, self._checked(choices))
        return packing.pad(*pack[:2], num_sequences=self._pack.num_sequences)

    def tokens(self, text, second=None) -> list[str]:
        """The tokens that the model reads of a text, [CLS] and [SEP] among them."""
        seconds = None if second is None else [second]
        ids = self._pack([text], seconds)[0][0]
        return self.tokenizer.ids_to_tokens(ids.numpy())

    def predict(self, texts, seconds=None, choices=None) -> list[dict[str, Any]]:
        """A classifier's answers for each text, as in test_predictions.jsonl."""
        label_set = self._label_set("predict")
        pack = self._pack(texts, seconds, self._checked(choices))
        packed = packing.unpad(pack[0], pack[1], self._pack.num_sequences)
        order = batching.evaluation_order(packed.lengths, min(_PREDICTED, len(packed)))
        batches = batching.batches(packed, order)
        strategy = tf.distribute.get_strategy()
        outputs = evaluation.predict(self._forward, batches, order, strategy)
        shares = np.asarray(
            heads.probabilities(label_set.problem_type, outputs["logits"])
        )
        decisions = predictions.decide(label_set, shares, threshold=0.5)
        pairs = zip(shares, decisions, strict=True)
        return [predictions.described(label_set, *pair) for pair in pairs]

    def attention(self, text, second=None) -> np.ndarray:
        """Attention probabilities of one text, float32 [L, N, S, S], query by key."""
        if self.model.config.network == _PAIR:
            raise ValueError(
                "attention is of one text, and an encoder-decoder reads two; load it "
                'with head="none" for its encoder'
            )
        features = self.encode([text], None if second is None else [second])
        outputs = self.model.encode(features, None)
        choice = attention_maps.choose(self.model.config)
        maps = attention_maps.compute(
            self.model.network, outputs, features["input_mask"], choice
        )
        return np.asarray(maps)[0]

    def write(
        self, texts, *, max_target_length: int | None = None, num_beams=1
    ) -> list[str]:
        """What an encoder-decoder writes for each text, as run_seq2seq.py predicts it.

        Targets have at most `max_target_length` tokens, by default as many as the
        decoder has positions; `num_beams` are open at a time, 1 takes the likeliest
        token each time. Longer sources are cut to `max_seq_length` tokens.

        Raises:
            ValueError: this is no encoder-decoder, or has not so many positions or
                tokens.
        """
        config = self.model.config
        if config.network != _PAIR:
            raise ValueError(
                f"write is for encoder-decoders, and this is a network of "
                f"{config.kind}; load the directory of one"
            )
        positions = config.decoder.max_position_embeddings
        most = positions if max_target_length is None else max_target_length
        if not 1 <= most <= positions:
            raise ValueError(
                f"max_target_length={most}: the decoder has {positions} positions; "
                f"give 1 to {positions}"
            )
        rules = beam_search.Rules(
            num_beams,
            end_ids=(config.eos_token_id,),
            num_tokens=self.tokenizer.vocab_size,
        )
        written: list[str] = []
        for first in range(0, len(texts), _PREDICTED):
            batch = tf.constant(list(texts[first : first + _PREDICTED]))
            source = text_graph.encode(self.tokenizer, batch, self.max_seq_length)
            ids, lengths = self.model.start(len(batch))
            found = beam_search.search(
                *(self.model, rules, ids, lengths, most), (source,)
            )
            ids = tf.where(found.is_text[:, 0], found.ids[:, 0], -1)
            spelled = text_graph.decode(self.tokenizer, config.decoder_tokens, ids)
            written += [text.decode("utf-8") for text in spelled.numpy()]
        return written

    def save(self, directory, file_format="google", *, overwrite=False) -> None:
        """Writes weights, config, vocabulary and labels, for `load` and `--pretrained`.

        `file_format` is google, hugging_face or keras. ValueError if the directory
        holds something that may not be replaced.
        """
        output_directory.check(
            directory, own_files=conversion.OWN_FILES, overwrite=overwrite
        )
        texts = {}
        if self.classes:
            texts[file_names.LABEL_MAP] = label_maps.text(self.classes)
        with output_directory.complete(directory) as temporary:
            conversion.write_directory(
                *(temporary, self.model, file_format),
                tokenizer=self.tokenizer,
                labels=self.classes.names if self.classes else (),
                problem_type=getattr(self.classes, "problem_type", ""),
                files=texts,
            )

    def export(
        self, export_dir, *, export_format="saved_model", quantization="none"
    ) -> str:
        """Writes the next version of an export that takes raw text; its path.

        Formats as of `--export_format` and `--quantization`.
        """
        label_set = self._label_set("export")
        formats.check(
            export_format, readings.lstms(self.model.config, self.model.reading)
        )
        label_map = {file_names.LABEL_MAP: label_sets.label_map_text(label_set)}
        with joined_weights.joined(self.model) as variables:
            module = export.TextClassifier(
                self._pack.served,
                heads.answering(label_set.problem_type, self.model),
                variables,
                label_set.names if label_set.has_one_label else (),
                self._pack.text_names,
                self._pack.ids_shape,
                self.model.config,
            )
            write = formats.writer(export_format, quantization)
            return export.save(module, export_dir, label_map, write=write)

    @functools.cached_property
    def _pack(self):
        is_set = isinstance(self.classes, label_sets.LabelSet)
        label_set = self.classes if is_set else None
        settings = self.tokenizer, self.max_seq_length, label_set, self.num_texts > 1
        return encoding.Encoder(*settings)

    @functools.cached_property
    def _forward(self):
        strategy = tf.distribute.get_strategy()
        return steps.predict_function(self.model, strategy, jit_compile=False)

    def _checked(self, choices):
        """Refuses choices of another number than the model knows."""
        is_choice = getattr(self.classes, "problem_type", "") == "choice"
        taken = self._pack.num_sequences if is_choice else 0
        for row in choices or ((),):
            if len(row) != taken:
                raise ValueError(
                    f"choices: {len(row)} are given for a text, and the model takes "
                    f"{taken}; give a list of as many for each text"
                )
        return choices

    def _label_set(self, action):
        if not isinstance(self.classes, label_sets.LabelSet):
            raise ValueError(
                f"{action} is for classifiers with labels, and this is a "
                f"{type(self.model).__name__}; call its `model` with `encode(texts)`, "
                "or use the script of the task"
            )
        return self.classes


def load(
    directory,
    *,
    head="auto",
    labels: Sequence[str] = (),
    max_seq_length=128,
    do_lower_case: bool | None = None,
) -> Loaded:
    """Opens a model: config, vocabulary, weights, and labels if it has some.

    Args:
        directory: as --pretrained: a release of Google's, a directory of Hugging Face
            or Keras, of a run, or the id of a model on Hugging Face's hub.
        head: a name in pretrainers.HEADS; "auto" takes that of the weights, and leaves
            the heads of pretraining out. Of an encoder-decoder "none" is the encoder.
        labels: of a new classifier (or tagger, by `head`), with random values.
        do_lower_case: by default what the directory says, or True.

    Raises:
        ValueError: something is missing, or does not belong together.
    """
    opened = _open(
        directory, max_seq_length, do_lower_case, takes_encoder_decoder=not labels
    )
    if not labels:
        return _with_its_head(opened, head, max_seq_length)
    is_tagger = head == "tagger"
    classes = label_maps.named(labels, "" if is_tagger else "classification")
    return _with_new_head(opened, classes, max_seq_length)


def classifier(
    directory,
    files: Mapping[str, str],
    *,
    problem_type="classification",
    columns: Mapping[str, Any] | None = None,
    max_seq_length=128,
    do_lower_case: bool | None = None,
) -> tuple[Loaded, labelled_texts.LabelledTexts]:
    """A new classifier for the labels of tables, and their rows, read and tokenized.

    Args:
        directory: as in `load`.
        files: paths of tables, {"train": ..., "dev": ..., "test": ...}.
        problem_type: classification, multi_label or regression.
        columns: of tables.Layout, where they have no usual names: text_a, label, ...

    Raises:
        ValueError: as `load`, and for rows that are wrong.
    """
    opened = _open(directory, max_seq_length, do_lower_case)
    layout = tables.Layout(**(columns or {}))
    source = sources.Source(files=dict(files), layout=layout, problem_type=problem_type)
    data = labelled_texts.load(
        *(source, files, opened[1], max_seq_length),
        label_map="",
        default_metrics=metrics.DEFAULTS,
    )
    found = _with_new_head(opened, data.label_set, max_seq_length)
    return dataclasses.replace(found, num_texts=2 if data.encode.has_pairs else 1), data


def optimizer(num_train_steps, learning_rate=5e-5, warmup_proportion=0.1):
    """The original's create_optimizer, for `compile`: BertAdam on its schedule."""
    warmup = int(num_train_steps * warmup_proportion)
    rates = keras_schedule.LinearWithWarmup(learning_rate, num_train_steps, warmup)
    return optimizer_lib.BertAdam(rates)


def _open(directory, max_seq_length, do_lower_case, **accepted):
    found = pretrained.locate(directory, "directory")
    files = model_flags.files_found(found, do_lower_case)
    tokenizer = vocabulary_checks.open_for_tasks(files, checks_case=True)
    config = pretrained.open_config(
        files, tokenizer.vocab_size, max_seq_length, **accepted
    )
    return found.checkpoint, tokenizer, config


def _with_new_head(opened, classes, max_seq_length):
    path, tokenizer, config = opened
    if isinstance(classes, label_sets.LabelSet):
        num_outputs, settings = classes.num_outputs, _reading(classes)
        model = pretrainers.build("classifier", num_outputs, config, **settings)
    else:
        model = pretrainers.build("tagger", len(classes.names), config)
    report = checkpoint.load(model, path)
    return _loaded(model, tokenizer, classes, max_seq_length, report)


def _reading(classes):
    """How a classifier with these classes reads the sequences of an example."""
    if not isinstance(classes, label_sets.LabelSet):
        return {}
    return {"sequences": sequences.kind(classes.problem_type, classes.pair_input)}


def _with_its_head(opened, head, max_seq_length):
    path, tokenizer, config = opened
    label_map = label_maps.find(path)
    asked, file = label_maps.head(label_map, head), checkpoint.open_file(path, config)
    found, num_classes = conversion.find_head(file, config, asked)
    if head == "auto" and found == "pretraining":
        found = "none"
    classes = None
    if num_classes:
        tell = functools.partial(hugging_face.labels_in, config, num_classes)
        classes = label_maps.of_head(found, label_map, num_classes, tell)
    read = conversion.read(path, config, found, **_reading(classes))
    return _loaded(read.model, tokenizer, classes, max_seq_length, read.report)


def _loaded(model, tokenizer, classes, max_seq_length, report):
    print(f"weights: {report}")
    rest = max_seq_length, str(report), 2 if model.reading.joins_pairs else 1
    return Loaded(model, tokenizer, classes, *rest)
