"""The functions of bert_reborn.py that open a model, and what they return."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from cli import argument_names, command_line
from contract import (
    errors,
    features,
    file_names,
    remote_files,
    wording,
)
from data_pipeline import head_classes, label_maps
from data_pipeline.batches import batching, packing
from data_pipeline.classification import encoding, labels, predictions
from data_pipeline.generation import sentence_scores
from data_pipeline.pretraining import cloze
from data_pipeline.seq2seq import graph
from data_pipeline.tables import label_files, memory_rows
from data_pipeline.text import base, wordpiece
from loading import model_directory
from modeling import (
    kernels_tf,
    losses,
    models,
    pretrainers,
    sequences,
    text_encoder,
)
from modeling.checkpoints import (
    checkpoint,
    conversion,
    hugging_face,
    output_directory,
    sentence_transformers,
)
from modeling.configs import config, config_limits
from modeling.features import attention_maps, text_vectors, vectors
from modeling.generation import beam_search, scoring
from modeling.networks.encoder_decoder import config as encoder_decoder_config
from serving import classifiers, export, formats, predictor, search
from training import inference
from training.optimizers import bert_adam, warmup

tf.get_logger().setLevel("WARNING")  # a notebook shows its notes on exports, too
tf.get_logger().addFilter(command_line.is_for_the_reader)
_BATCH_SIZE = 64

_OF_FITTED = "fit", "evaluate", "report", "read"

# The names of other modules that pages use; one a line, or mypy takes no type of them.
Predictor = predictor.Predictor
SearchIndex = search.Index
BertAdam = bert_adam.BertAdam
LinearWithWarmup = warmup.LinearWithWarmup
BertClassifier = models.BertClassifier
BertModel = models.BertModel
BertConfig = config.BertConfig
BertTokenizer = wordpiece.BertTokenizer
keras_in_order = batching.keras_in_order
keras_training = batching.keras_training


@dataclasses.dataclass(frozen=True, repr=False)
class Loaded:
    """A network with what its inputs and outputs mean.

    Attributes:
        model: one of modeling/models.py, an ordinary Keras model with its weights.
        classes: names of a classifier's or tagger's outputs, or None.
        source: the file of the weights, and the account of every name.
        num_texts: 2 for pairs of texts; None where the weights do not say it.
        drawn: random values of variables that `save` leaves out, by Google name: those
            that `model` does not need, or that a trained head needs.
        modules: of a TextEncoder, with its prompts; else None.
        threshold: the least probability of each label that is predicted of several.
        random: random values of variables that the weights lack and answers depend on,
            and those of the head; else empty. While all are as they were, nothing is
            answered.
        lacks: why they are random, and the remedy.
    """

    model: Any
    tokenizer: base.Tokenizer
    classes: label_maps.Classes | None
    max_seq_length: int  # in tokens, [CLS] and [SEP] included
    source: str
    num_texts: int | None = None
    drawn: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    modules: sentence_transformers.SentenceTransformer | None = None
    threshold: float = model_directory.USUAL_THRESHOLD
    random: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    lacks: str = ""

    def __reduce__(self):  # functions are compiled again
        fields = dataclasses.fields(self)
        return type(self), tuple(getattr(self, field.name) for field in fields)

    def __getattr__(self, name):
        text = f"'Loaded' object has no attribute {name!r}"
        if name in _OF_FITTED:
            text += "; bert.classifier, tagger, reader or embedder(directory) has it"
        raise AttributeError(text)

    def __post_init__(self):
        if self.classes is not None:
            self.model.make_loss = functools.partial(_keras_loss, self.classes)

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
        answers; its inputs are [B, C, S], and of a model that reads windows [B, W, S].

        Raises:
            ValueError: there are not as many `seconds` or `choices` as texts, or the
                model reads single texts, or pairs alone.
        """
        packed = self._pack.pack(*self._checked(texts, seconds, choices))
        inputs = packing.gather(packed, np.arange(len(packed)))
        return {k: keras.ops.convert_to_tensor(grid) for k, grid in inputs.items()}

    def tokens(self, text, second=None) -> list[str]:
        """The tokens that the model reads of a text, [CLS] and [SEP] among them.

        They are those of the first window, of several.
        """
        encode = encoding.Encoder(self.tokenizer, self.max_seq_length)
        seconds = None if second is None else [second]
        packed = encode.pack(*encode.checked([text], seconds))
        return self.tokenizer.ids_to_tokens(packed.tokens)

    def predict(
        self, texts, seconds=None, choices=None, *, allow_empty_text=False
    ) -> list[dict[str, Any]]:
        """A classifier's answers for each text, as in test_predictions.jsonl.

        Arguments and errors are those of `encode`; an empty text is refused as in a
        test file, unless `allow_empty_text`.
        """
        label_set = self._label_set("predict")
        rows = self._checked(texts, seconds, choices)
        if not allow_empty_text:
            encoding.refuse_empty(*rows)
        if not rows[0]:
            return []
        shares = self._shares(rows)
        decisions = predictions.decide(label_set, shares, threshold=self.threshold)
        pairs = zip(shares, decisions, strict=True)
        return [predictions.described(label_set, *pair) for pair in pairs]

    @argument_names.in_errors
    def rerank(
        self, query, passages, *, label: str | None = None
    ) -> list[tuple[int, float]]:
        """Places of passages and their scores for a query, the best first.

        A score is the number of a regression, else the probability of `label`, by
        default the last of two. ValueError is raised for more labels without `label`,
        and for a model that is no classifier, or known to be made for single texts: by
        `classifier`, or by a run on single texts.
        """
        column = self._label_set("rerank").ranking_column(label)
        encoding.listed("query", [query])
        passages = encoding.listed("passages", passages)
        rows = self._checked([query] * len(passages), passages)
        if not passages:
            return []
        return predictions.ranked(self._shares(rows)[:, column])

    @argument_names.in_errors
    def embed(
        self,
        texts,
        seconds=None,
        *,
        pooling: str | None = None,
        layers: Sequence[int] | None = None,
        normalize: bool | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> np.ndarray:
        """Vectors of texts, float32 [B, D], or [B, K, D] of K layers.

        A TextEncoder computes what its directory describes, projections included, after
        its default prompt. Where `pooling` or `layers` is passed, and for all other
        models, vectors are those of `extract_features.py`: `pooling` is mean (the
        default), or cls for the vector of [CLS]; `layers` are (-1,) by default.
        `normalize` scales each vector of any model to the length 1. A text that a
        classifier reads in windows has the mean of their vectors.

        Args:
            prompt_name: of a prompt of the directory, which is put before each text.
            prompt: a prompt itself, such as "query: ".

        Raises:
            ValueError: the network has no such layer or prompt; or as in `encode`.
        """
        self._check_encodes("embed")
        chosen = (pooling, layers) != (None, None)
        is_encoder = isinstance(self.model, text_encoder.TextEncoder) and not chosen
        has_windows = bool(getattr(self.classes, "windows", None))
        if self.model.config.spec.text_vectors == "trained" and not is_encoder:
            raise errors.InputError(
                "embed: a GPT has no special tokens before it is fine-tuned; use "
                "extract_features.py"
            )
        if is_encoder:
            self.check_trained("embed")
            forward, shape, name = self._forward, (self.model.width,), "vectors"
        else:
            layers = (-1,) if layers is None else memory_rows.ordered("layers", layers)
            if (pooling := pooling or "mean") not in ("cls", "mean"):
                raise errors.InputError(f"pooling={pooling!r} is not one of cls, mean")
            choice = vectors.choose(
                self.model.config,
                layers=layers,
                pooling=pooling,
                normalize=bool(normalize) and not has_windows,
            )
            shape = (*((len(layers),) if len(layers) > 1 else ()), choice.width)
            forward, name = self._pooled(choice), "vector"
        before = sentence_transformers.choose_prompt(
            self.modules, prompt_name, prompt, has_default=is_encoder
        )
        encoding.listed("prompt", [before])
        encode = encoding.Encoder(self.tokenizer, self.max_seq_length)
        encode = self._pack if has_windows else encode
        rows = self._checked(texts, seconds, encode=encode)
        if not rows[0]:
            return np.zeros((0, *shape), np.float32)
        prompted = [before + text for text in rows[0]]
        embedded = _joined(forward, encode.pack(prompted, *rows[1:]), name, "mean")
        if normalize and (is_encoder or has_windows):
            embedded = keras.ops.convert_to_numpy(vectors.normalize(embedded))
        return embedded

    def similarity(self, texts, others) -> np.ndarray:
        """The similarities of A texts and B others, float32 [A, B].

        They are cosines of the vectors of `embed`, unless the directory of a
        TextEncoder has another function: products, or distances with a minus.
        """
        similarity = self.modules.similarity if self.modules else text_vectors.COSINE
        pair = [self.embed(texts), self.embed(encoding.listed("others", others))]
        if similarity == text_vectors.COSINE:
            pair = [vectors.normalize(each) for each in pair]
        first, second = map(keras.ops.convert_to_numpy, pair)
        return text_vectors.compare(first, second, similarity)

    def attention(self, text, second=None) -> np.ndarray:
        """Attention probabilities of one text, float32 [L, N, S, S], query by key.

        They are those of the first window, of several.
        """
        self._check_encodes("attention")
        inputs = self.encode([text], None if second is None else [second])
        inputs = sequences.as_rows(inputs)
        outputs, mask = self.model.encode(inputs, None), inputs[features.INPUT_MASK]
        maps = attention_maps.compute(self.model.network, outputs, mask)
        return keras.ops.convert_to_numpy(maps)[0]

    @argument_names.in_errors
    def fill_mask(self, text: str, top_k: int = 5) -> list[tuple[str, float]]:
        """The likeliest tokens for the [MASK] of a text, with their probabilities.

        ValueError is raised where the model has no head of masked words, or the text
        not one [MASK] within `max_seq_length`.
        """
        if not isinstance(self.model, pretrainers.BertPretrainer):
            raise errors.InputError(
                f"fill_mask: a {type(self.model).__name__} has no head of masked "
                'words; load a pretrained BERT with head="pretraining"'
            )
        self.check_trained("fill_mask")
        errors.check_count("top_k", top_k)
        texts = encoding.listed("text", [text])
        cloze.check(self.tokenizer, top_k)
        length, mask = self.max_seq_length, self.tokenizer.mask_token
        encode = cloze.encoder(self.tokenizer, length, max_predictions=length)
        clozes = encode(texts)
        if (count := len(clozes.places)) != 1:
            raise errors.InputError(
                f"fill_mask: {count} {mask} in {length} tokens; give a text with one"
            )
        logits = self.model(clozes.features)["masked_lm_logits"]
        filled = cloze.chooser(self.tokenizer, top_k)(clozes, logits)
        tokens, shares = (filled[n][0, 0].numpy() for n in ("tokens", "probabilities"))
        return [(t.decode(), float(p)) for t, p in zip(tokens, shares, strict=True)]

    @argument_names.in_errors
    def score(self, texts, *, masking="token", mean=False) -> np.ndarray:
        """Logarithms of the probabilities of texts, float64 [B], as score_sentences.py.

        A network from left to right predicts each token from those before it, one that
        fills masks from both sides. `masking` is what it does not see: token, word (the
        token and those after it in its word), or none; `mean` divides by the tokens.

        Raises:
            ValueError: the model has no head that predicts tokens, or a text no token,
                or more than fit, or `masking` is of a network from left to right.
        """
        kinds = pretrainers.BertPretrainer, pretrainers.LanguageModel
        if not isinstance(self.model, kinds):
            raise errors.InputError(
                f"score: a {type(self.model).__name__} predicts no tokens; load a "
                'pretrained network with head="pretraining" or head="language_model"'
            )
        self.check_trained("score")
        scorer = sentence_scores.Scorer(
            self.tokenizer,
            self.model.config.max_position_embeddings,
            isinstance(self.model, pretrainers.LanguageModel),
            masking,
        )
        texts = encoding.listed("texts", texts)
        cut = scorer.cut([(text, f"texts[{i}]") for i, text in enumerate(texts)])
        return sentence_scores.totals(scorer(cut, self._score_tokens), mean)

    @functools.cached_property
    def _score_tokens(self):
        return scoring.make_token_scorer(self.model)

    def write(self, texts, **settings) -> list[str]:
        """The text that an encoder-decoder writes for each text, as in run_seq2seq.py.

        A string is one text. `settings` have the names and, but for those of a
        generation_config.json, the defaults of flags: max_target_length (by default the
        decoder's positions), min_target_length, num_beams, length_penalty,
        early_stopping and no_repeat_ngram_size.

        Raises:
            ValueError: this is no encoder-decoder, or a setting is unknown or wrong.
        """
        config = self.model.config
        if not config.spec.has_decoder:
            raise errors.InputError(
                f"write: {config.kind} is no encoder-decoder; load one"
            )
        check_keys("settings", settings, encoder_decoder_config.SETTINGS)
        settings = config.settings(**settings)
        positions = config.decoder.max_position_embeddings
        most = settings.pop("max_new_tokens", positions)
        if not 1 <= most <= positions:
            raise errors.InputError(
                f"max_target_length={most}: give 1 to {positions}, the positions"
            )
        rules = beam_search.BeamConfig(
            **{"num_beams": 1, **settings},
            end_ids=(config.eos_token_id,),
            num_tokens=self.tokenizer.vocab_size,
        )
        texts, search = encoding.listed("texts", texts), self._search(rules, most)
        tokens, size = config.decoder_tokens, _BATCH_SIZE
        written: list[str] = []
        for first in range(0, len(texts), size):
            batch = tf.constant(texts[first : first + size])
            source = packing.encode(self.tokenizer, batch, self.max_seq_length)
            spelled = graph.decode(self.tokenizer, tokens, search(source))
            written += [text.decode("utf-8") for text in spelled.numpy()]
        return written

    @argument_names.in_errors
    def save(self, directory, file_format="google", *, overwrite=False) -> None:
        """Writes weights, config, vocabulary and labels, for `load` and `--pretrained`.

        `file_format` is google or hugging_face. Variables that are `drawn`, and that no
        training has changed since, are not written. `model.save` writes Keras' file.

        Raises:
            ValueError: the directory holds something that may not be replaced.
        """
        directory = remote_files.resolve(directory, "directory")
        left_out = conversion.list_unchanged(self.model, self.drawn)
        of_run = {
            "max_seq_length": self.max_seq_length,
            "multi_label_threshold": self.threshold,
            "num_texts": self.num_texts,
        }
        if not self._is_random():
            left_out = [name for name in left_out if name not in self.random]
        with output_directory.complete(
            directory,
            own_files=conversion.OWN_FILES,
            always=conversion.ALWAYS,
            overwrite=overwrite,
        ) as temporary:
            conversion.write_directory(
                temporary,
                self.model,
                file_format,
                tokenizer=self.tokenizer,
                left_out=left_out,
                modules=self.modules,
                **label_maps.written(self.classes, of_run),
            )

    @argument_names.in_errors
    def export(
        self,
        export_dir,
        *,
        export_format="saved_model",
        quantization="none",
        texts=None,
        seconds=None,
    ) -> str:
        """Writes the next version of an export that takes raw text; its path.

        Formats as of `--export_format` and `--quantization`. By `texts`, and `seconds`
        of pairs, `static_int8` learns how large activations are.
        """
        label_set, model = self._label_set("export"), self.model
        rows = None
        if texts is not None or seconds is not None:
            given = self._checked(texts, seconds)
            if not any(map(str.strip, given[0])):
                raise errors.InputError("texts: all are blank; pass some with words")
            rows = self._pack.pack(*given)

        def make(variables):
            return classifiers.served(self._pack, label_set, model, variables)

        files = {file_names.LABEL_MAP: label_maps.text(label_set)}
        form = {"export_format": export_format, "quantization": quantization}
        return write_export(model, make, export_dir, files, calibration=rows, **form)

    @functools.cached_property
    def _pack(self):
        classes = self.classes
        label_set = classes if isinstance(classes, labels.Labels) else None
        length, has_pairs = self.max_seq_length, self.num_texts == 2
        return encoding.Encoder(self.tokenizer, length, label_set, has_pairs)

    def _shares(self, rows):
        classes, packed = self._label_set("predict"), self._pack.pack(*rows)
        logits = _joined(self._forward, packed, "logits", classes.window_logits)
        shares = losses.probabilities(classes.shares_as, logits)
        return keras.ops.convert_to_numpy(shares)

    @functools.cached_property
    def _forward(self):
        return inference.packed_function(self.model, _BATCH_SIZE)

    @functools.cached_property
    def _pooled(self):
        """A function of a VectorSpec to the compiled function of its vectors."""
        model = self.model

        def compile_for(choice):
            def pool(inputs, training):
                return {"vector": vectors.encode(model, choice, inputs, pools=True)}

            return inference.packed_function(pool, _BATCH_SIZE)

        return functools.cache(compile_for)

    @functools.cached_property
    def _search(self):
        """A function of rules and a length to the compiled search; ids of the best."""
        grid = tf.TensorSpec([None, None], tf.int32)
        spec = dict.fromkeys(features.ENCODER_INPUTS, grid)

        def compile_for(rules, most):
            @tf.function(autograph=False, input_signature=[spec])
            def search(source):
                num_texts = tf.shape(source[features.INPUT_IDS])[0]
                ids, lengths = self.model.start(num_texts)
                best = beam_search.search(
                    self.model, rules, ids, lengths, most, (source,)
                )
                return tf.where(best.is_text[:, 0], best.ids[:, 0], -1)

            return search

        return functools.cache(compile_for)

    def _check_encodes(self, action):
        if self.model.config.spec.has_decoder:
            raise errors.InputError(
                f'{action}: load an encoder-decoder with head="none", for its encoder'
            )

    def _checked(self, texts, seconds=None, choices=None, *, encode=None):
        if seconds is not None or choices is not None:
            config_limits.check_segments(self.model.config, "config")
        if encode:  # without a head
            return encode.checked(texts, seconds)
        return self._pack.checked(texts, seconds, choices, num_texts=self.num_texts)

    def _label_set(self, action):
        if not isinstance(self.classes, labels.Labels):
            raise errors.InputError(
                f"{action}: a {type(self.model).__name__} is no classifier; make "
                "one by bert.classifier, or open it by bert.tagger or bert.reader"
            )
        self.check_trained(action)
        return self.classes

    def check_trained(self, action: str) -> None:
        """Raises InputError where answers depend on weights that are still random."""
        if self._is_random():
            raise errors.InputError(f"{action}: {self.lacks}")

    def _is_random(self):
        drawn = self.random
        return drawn and conversion.list_unchanged(self.model, drawn) == [*drawn]


@argument_names.in_errors
def load(
    directory,
    *,
    head="auto",
    labels: Sequence[str] = (),
    max_seq_length: int | None = None,
    do_lower_case: bool | None = None,
    check_case=True,
    check_tokenizer=True,
) -> Loaded:
    """Opens a model: config, vocabulary, weights, and labels if it has some.

    Args:
        directory: as --pretrained: a release of Google's, a directory of Hugging Face
            or Keras, of a run, or the id of a model on Hugging Face's hub.
        head: a name in pretrainers.HEADS; "auto" takes that of the weights, and leaves
            the heads of pretraining out. Of an encoder-decoder "none" is the encoder.
        labels: of a classifier (or tagger, by `head`), in the order of a head of these
            classes in the weights, else of a random one. The problem type is that of
            the weights.
        max_seq_length: in tokens, [CLS] and [SEP] included; by default a run's, or 128,
            as far as there are positions.
        do_lower_case: by default as the directory has it, or True.
        check_case: whether to compare `do_lower_case` with the vocabulary.
        check_tokenizer: whether to refuse unsupported settings of a tokenizer, and
            texts of which more than half of the words are unknown.

    Raises:
        ValueError: something is missing, or does not belong together.
    """
    labels = label_names(labels)
    directory = remote_files.resolve(directory, "directory")
    opened, length = model_directory.open_directory(
        directory,
        max_seq_length,
        None if labels else head,
        do_lower_case=do_lower_case,
        check_case=check_case,
        check_tokenizer=check_tokenizer,
    )
    if not labels:
        made = make_loaded(opened.read(head), opened, length)
        has_labels = (
            made.classes and label_maps.kind(made.classes) != label_maps.TAGGING
        )
        count = opened.num_texts if has_labels else None
        return dataclasses.replace(made, num_texts=made.num_texts or count)
    wanted = "tagger" if head == "tagger" else "classifier"
    stored = opened.stored_head(wanted)
    kind = hugging_face.stated_problem_type(opened.config)
    kind = stored.problem_type if stored else kind
    kind = kind if kind in ("choice", "multi_label") else "classification"
    classes: Any = head_classes.named(labels, "" if head == "tagger" else kind)
    show = argument_names.show
    classes = label_maps.follow(stored, classes, "labels", trains=True, show=show)
    return make_loaded(opened.build_new(classes), opened, length)


def optimizer(
    num_train_steps: int, learning_rate: float = 5e-5, warmup_proportion: float = 0.1
) -> bert_adam.BertAdam:
    """The original's create_optimizer, for `compile`: BertAdam on its schedule."""
    num_warmup_steps = int(num_train_steps * warmup_proportion)
    rates = warmup.LinearWithWarmup(learning_rate, num_train_steps, num_warmup_steps)
    return bert_adam.BertAdam(rates)


def write_export(
    model, make, export_dir, files, *, export_format, quantization, calibration
) -> str:
    """Writes a version of what `make` makes of the model's variables; its path."""
    write = formats.writer(export_format, quantization, model, calibration)
    kind = getattr(model, "sequences", "single")
    formats.check(export_format, model.config, model.reading, kind)
    export_dir = remote_files.resolve(export_dir, "export_dir")
    with kernels_tf.joined_projections(model) as variables:
        return export.save(make(variables), export_dir, files, write=write)


def _joined(forward, packed, name, kind):
    """Outputs [B, ...] of texts, where these have windows joined as by join_logits."""
    if packed.counts is None:
        return forward(packed)[name]
    # Windows are in batches of so many, whatever text they are of.
    each = forward(dataclasses.replace(packed, counts=None))[name]
    rows = each.reshape(len(each), -1)
    joined = sequences.join_counted(rows, packed.counts, kind)
    return keras.ops.convert_to_numpy(joined).reshape(-1, *each.shape[1:])


def _keras_loss(classes):
    kind = label_maps.kind(classes)
    if kind == "regression" and classes.shares_as == kind:
        return keras.losses.MeanSquaredError()
    if kind in ("regression", "multi_label"):
        return keras.losses.BinaryCrossentropy(from_logits=True)
    ignored = features.IGNORED if kind == label_maps.TAGGING else None
    settings = {"from_logits": True, "ignore_class": ignored}
    return keras.losses.SparseCategoricalCrossentropy(**settings)


def label_names(labels) -> list[str]:
    """Names of classes; InputError for a string, an empty name, or one twice."""
    if isinstance(labels, str):
        raise errors.InputError(f"labels={labels!r} is a string; give a list of names")
    names = encoding.listed("labels", labels)
    if not all(map(str.strip, names)):
        raise errors.InputError(
            f"labels={names!r:.80}: one is empty; name or remove it"
        )
    label_files.check_distinct(names, "labels:")
    return names


def check_keys(name, keys, known):
    """Raises InputError for a key that is not known."""
    if wrong := [key for key in keys if key not in known]:
        raise errors.InputError(
            f"{name} has the key {wrong[0]!r}; its keys are {', '.join(known)}"
        )


def make_loaded(built, opened, max_seq_length):
    """The Loaded of a model that was built; prints the account of its weights."""
    print(f"weights: {built.report}")
    model, missing = built.model, built.report.missing
    drawn = conversion.copy_random(model, missing)
    random = conversion.copy_needed(model, missing)
    needed = [name for name in random if name in missing]
    lacks, has_classes = "", built.head in pretrainers.CLASS_HEADS
    if needed:
        lacks = f"{checkpoint.lacks(built.report.source, needed)}; "
        fit = f"call fit of bert.{built.head} first, or " if has_classes else ""
        lacks += f"{fit}give the directory of a trained model"
    if has_classes and opened.starts_head(built.classes):
        lacks = (
            f"the head for {wording.listing(built.classes.names)} is random, for the "
            "weights have one of other labels; call fit of "
            f"bert.{built.head} first, or leave labels out"
        )
    if len(needed) < len(random):  # which have a head that needs them
        drawn = {**drawn, **{name: random[name] for name in needed}}
    return Loaded(
        model,
        opened.tokenizer,
        built.classes,
        max_seq_length,
        str(built.report),
        num_texts=2 if model.reading.joins_pairs else None,
        drawn=drawn,
        modules=built.modules,
        threshold=opened.threshold,
        random=random,
        lacks=lacks,
    )
