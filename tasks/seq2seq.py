"""Texts that an encoder-decoder writes for texts: training, scores and export."""

import functools

import tensorflow as tf

from contract import errors, features
from data_pipeline import findings
from data_pipeline.batches import packing
from data_pipeline.seq2seq import graph, results
from data_pipeline.seq2seq import split as pair_rows
from data_pipeline.text import opening
from modeling import losses
from modeling.generation import beam_search, decoding, sampling
from modeling.networks.encoder_decoder import config as encoder_decoder_config
from modeling.networks.encoder_decoder import decoding as sequence_to_sequence
from modeling.networks.encoder_decoder import warm_start
from serving import generation
from tasks import fine_tuning, networks, run_plans
from tasks.settings.seq2seq import Seq2seqSettings
from training import run_plan


def prepare(settings: Seq2seqSettings) -> tuple["Seq2seqTask", run_plan.Plan]:
    """The task, and how to do it; InputError for wrong input."""
    strategy = run_plans.set_up(settings)
    opened = networks.open_for_task(settings, takes_encoder_decoder=True)
    opening.check_exports(opened.tokenizer, settings.do_export)
    settings, config = settings.following(make_config(opened))
    fills_both = not opened.config.spec.has_decoder
    opened.config = config
    vocab_size = opened.tokenizer.vocab_size
    settings.check_network(opened.files.config_file, config, vocab_size)
    config.check_lengths(settings.writing())
    data = {}
    for split in settings.paths(settings.wanted_splits, "pairs"):
        data[split] = pair_rows.load(
            split,
            settings.open_pairs(split),
            opened.tokenizer,
            config.decoder_tokens,
            pair_rows.Limits(*settings.limits()),
            findings.show,
        )
    plan = run_plans.fine_tuning_plan(
        settings,
        strategy,
        opened,
        num_examples=len(data.get("train", ())),
        score_names=results.NAMES,
    )
    return Seq2seqTask(settings, opened, data, fills_both), plan


def make_config(opened):
    """The config of an encoder-decoder; one BERT fills both sides."""
    config = opened.config
    if config.spec.has_decoder:
        return config
    if not config.spec.fills_pairs:
        raise errors.InputError(
            f"{opened.files.config_file}: a {config.kind} cannot read and write; give "
            "the config.json of an encoder-decoder, or a BERT for both sides"
        )
    return encoder_decoder_config.EncoderDecoderConfig.from_berts(
        config,
        config,
        decoder_start_token_id=opened.tokenizer.start_id,
        eos_token_id=opened.tokenizer.end_id,
    )


class Seq2seqTask(fine_tuning.FineTuningTask):
    """Writes a text for each text.

    `data` is {split: PairSplit}; `fills_both` loads one BERT into both sides.
    """

    kind = "text2text-generation"
    objective = losses.target_token()

    def __init__(self, settings, opened, data, fills_both):
        tokens = opened.config.decoder_tokens
        super().__init__(
            settings, opened, data, identity={"decoder_tokens": list(tokens)}
        )
        if fills_both:
            self.load_weights = functools.partial(
                self.load_weights, fill=warm_start.load
            )
        self._decode = functools.partial(graph.decode, self.tokenizer, tokens)

    def examples(self, split):
        return self.data[split].examples(is_numbered=split != "train")

    def make_model(self):
        return sequence_to_sequence.SequenceToSequence(
            self.config, recompute=self.settings.recompute
        )

    def outputs(self, model):
        """Ids [B, N], -1 after a text, and losses of targets."""

        def forward(batch, training):
            ids, is_text = self._write(model, batch, batch[features.UNIQUE_IDS])
            results = {"ids": tf.where(is_text, ids, -1)}
            if features.LABELS in batch:
                losses = model(batch, training=training)["next_token_losses"]
                mask = tf.cast(batch[features.DECODER_MASK], losses.dtype)
                count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
                results["losses"] = tf.reduce_sum(losses * mask, axis=1) / count
            return results

        return forward

    def _write(self, model, batch, rows):
        """Ids [B, N] for the sources of a batch, and which of them belong to texts."""
        source = {name: batch[name] for name in features.ENCODER_INPUTS}
        ids, lengths = model.start(tf.shape(rows)[0])
        common = {
            "end_ids": (model.config.eos_token_id,),
            "num_tokens": self.tokenizer.vocab_size,
        }
        how = self.settings.writing()
        most = how.pop("max_new_tokens")
        if self.settings.num_beams > 1:
            beams = beam_search.BeamConfig(**how, **common)
            best = beam_search.search(model, beams, ids, lengths, most, (source,))
            return best.ids[:, 0], best.is_text[:, 0]
        rules = decoding.GenerationConfig(
            sampling.Sampling(**self.settings.draws()),
            **common,
            **{name: how[name] for name in ("min_length", "no_repeat_ngram_size")},
        )
        rows = tf.cast(rows, tf.int64)
        seeds = tf.fill(tf.shape(rows), tf.constant(self.settings.seed, tf.int64))
        return decoding.write(model, rules, ids, lengths, seeds, most, (source,), rows)

    def score(self, split, outputs, batch_size):
        return results.decide(self.data[split], outputs, self._decode)

    def outcomes(self, split, scored):
        return results.outcomes(split, self.data[split], scored)

    def predict(self, scored, plan, step):
        if plan.writes:
            paths = results.write_all(plan.output_dir, self.data["test"], scored)
            print("\n".join(f"predictions: {path}" for path in paths))
        return scored.results("test")

    def served(self, model, variables):
        """Text in, text out."""
        limit, _ = self.settings.limits()

        def write(batch):
            rows = tf.range(tf.shape(batch[features.INPUT_IDS])[0])
            return self._write(model, batch, rows)

        return generation.TargetWriter(
            lambda texts: packing.encode(self.tokenizer, texts, limit),
            write,
            self._decode,
            variables,
        )


def run(settings: Seq2seqSettings) -> None:
    """What run_seq2seq.py does."""
    run_plans.fine_tune(prepare, settings)
