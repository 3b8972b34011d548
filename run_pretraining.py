r"""Pretrains BERT on masked words and next sentences, a network left to right, or ELMo.

Takes every flag of google-research/bert's run_pretraining.py, and records of its
create_pretraining_data.py or of ours: see docs/pretraining.md.

    python run_pretraining.py --bert_config_file=configs/bert_tiny.json --do_train \
        --input_file='records-*' --output_dir=output/pretraining
"""

import dataclasses
import functools
from typing import Any

from absl import flags

from cli import (
    command_line,
    device_flags,
    model_flags,
    pretraining_flags,
    training_flags,
)

FLAGS = flags.FLAGS
ACTIONS = ("do_train", "do_eval", "do_export")


def define_flags():
    model_flags.define(max_seq_length=128)
    training_flags.define()
    training_flags.define_actions(*ACTIONS)
    training_flags.define_report()
    device_flags.define()
    pretraining_flags.define()


if __name__ == "__main__":  # before the imports that take seconds
    command_line.parse(define_flags, pretraining_flags.check)


from cli import networks, run_flags
from contract import errors
from data_pipeline.batches import packing
from data_pipeline.extraction import lines
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import (
    cloze,
    denoising_batches,
    masking,
    word_streams,
)
from modeling import losses, models, pretrainers, replaced
from modeling.checkpoints import checkpoint, pretrained
from modeling.elmo import objective as both_directions
from modeling.features import vectors
from reports import run_report
from serving import pretrained as served
from training import driver, facts, metrics, run, run_directory


def prepare():
    """The settings, and the task of --objective."""
    pretraining_flags.check()
    strategy = run_flags.set_up()
    opened = networks.open_for_task(
        FLAGS.max_seq_length,
        for_tasks=False,
        takes_encoder_decoder=True,
        takes_records=not FLAGS.do_export,
    )
    files = opened.files
    pretraining_flags.check_network(opened.config, files.config_file)
    task = TASKS[FLAGS.objective](opened)
    if task.records:
        pretraining_flags.check_eval_batch_size(task.records.held_out.count)
    settings = run_flags.make_settings(
        strategy,
        run_flags.pretraining_plan(),
        config=task.config.to_dict(),
        init_checkpoint=files.init_checkpoint,
        length_flag="--num_train_steps",
        adagrad_settings=pretraining_flags.adagrad_settings(task.config),
    )
    return task, driver.Settings(
        run=settings,
        evaluates=FLAGS.do_eval,
        exports=FLAGS.do_export,
        eval_batch_size=FLAGS.eval_batch_size,
        max_eval_steps=FLAGS.max_eval_steps or None,
        reports=FLAGS.write_report,
        default_flags=command_line.defaults(),
    )


class Objective(driver.PretrainingTask):
    """A PretrainingTask on an open network; the tokenizer may be None."""

    model_class: Any = models.BertModel

    def __init__(self, opened):
        self.config, self.tokenizer = opened.config, opened.tokenizer
        self.load(opened.files)
        self.files = pretrained.files(self.config, self.tokenizer)

    def load(self, files):
        """Reads the records of the flags, and checks the network and its files."""
        raise NotImplementedError

    def make_model(self):
        return self.model_class(self.config, recompute=FLAGS.recompute)

    def load_weights(self, model, path, **stage):
        return networks.load_weights(model, path, **stage)

    def load_records(self, rule=None):
        """The records of the flags."""
        return record_batches.load(
            pretraining_flags.files(),
            self.tokenizer,
            rule,
            type_vocab_size=self.config.type_vocab_size,
            has_mask_flags=pretraining_flags.masks_are_asked_for(),
            **self.sizes(),
        )

    def sizes(self):
        """Sizes that records have to fit."""
        vocab_size, tokenizer = self.config.vocab_size, self.tokenizer
        spare_rows = vocab_size - tokenizer.vocab_size if tokenizer else 0
        return {
            "max_seq_length": FLAGS.max_seq_length,
            "vocab_size": vocab_size,
            "spare_rows": max(spare_rows, pretrained.SPARE_ROWS),
        }

    def write_report(self, model, settings, outcome, *ended):
        if self.records and settings.reports and settings.run.writes:
            step, seconds = ended
            named = self.kind, self.records.summary(), step, outcome.results, seconds
            run_report.write(
                None,
                settings.run.output_dir,
                explanations=[],
                defaults=settings.default_flags,
                **facts.collect(settings.run, model, *named),
            )

    def export(self, model, output_dir):
        """Writes output_dir/export/<n>: text in, tokens for [MASK] and vectors out."""
        length, filler, tokenizer = FLAGS.max_seq_length, None, self.tokenizer
        generator = getattr(model, "generator", model)
        if isinstance(generator, pretrainers.BertPretrainer):
            filler = served.MaskFiller(
                cloze.encoder(tokenizer, length, FLAGS.max_predictions_per_seq),
                functools.partial(generator, training=False),
                cloze.chooser(tokenizer, FLAGS.top_k),
            )
        else:
            print("export: without fill_mask, for which the weights have no head")
        choice = vectors.choose(model.config, **model_flags.vector_choice())

        def make(variables):
            return served.PretrainedModel(
                functools.partial(packing.encode, tokenizer, max_seq_length=length),
                functools.partial(vectors.encode, model, choice),
                lines.speller(tokenizer.vocab),
                variables,
                filler,
                model.config,
            )

        return run_flags.export(model, make, output_dir)


class MaskedLM(Objective):
    """Masked words and, where records and network have it, the second sentence."""

    kind = "fill-mask"
    model_class = pretrainers.BertPretrainer
    generator_size = None

    def load(self, files):
        config, trains = self.config, FLAGS.do_train
        path = files.init_checkpoint if trains else run_flags.first_weights(files)
        if config.kind == "ELECTRA" and pretrained.is_there(path):
            pretrained.check_generator(config, path, self.generator_size)
        if trains or FLAGS.do_eval:
            rule = masking.Rule(**pretraining_flags.masking_rule())
            self.records = self.load_records(rule)
            self.identity = pretraining_flags.masking_identity(self.records.mask)
            task = self.records.train.sentence_task
            has_sentences = config.has_next_sentence and task != "none"
            self.objective = losses.pretraining(has_sentences)
        elif not pretrained.fills_masks(config, path):
            self.model_class = models.BertModel
        if FLAGS.do_export:
            vectors.choose(config, **model_flags.vector_choice())
            if self.model_class is not models.BertModel:
                cloze.check(self.tokenizer, FLAGS.top_k)

    def load_weights(self, model, path, **stage):
        if not self.records:  # heads and pooler may be missing
            report = checkpoint.load(model, path)
            return str(report), report.global_step or 0
        return super().load_weights(model, path, **stage)


class ReplacedTokens(MaskedLM):
    """Masked words by a generator, and by a discriminator what it has replaced."""

    def load(self, files):
        size = self.generator_size = FLAGS.generator_size
        self.config.generator(size)  # refuses a size before long work
        self.model_class = functools.partial(
            replaced.ReplacedTokenDetector, generator_size=size
        )
        super().load(files)
        if self.records:
            self.records = dataclasses.replace(self.records, has_draws=True)
            self.objective = replaced.objective(FLAGS.discriminator_loss_weight)


class LeftToRight(Objective):
    """Each token from those before it, by GPT or a BERT with a causal mask."""

    kind = "text-generation"
    model_class = pretrainers.LanguageModel
    objective = losses.next_token()

    def load(self, files):
        if not self.config.is_left_to_right:
            raise errors.InputError(
                f"--objective=left_to_right: the network of {files.config_file} sees "
                'what follows; add "attention": "causal" for a BERT, or give a GPT'
            )
        self.records = self.load_records()

    def score(self, scores):
        return metrics.score_tokens("next_token", self.records.held_out, scores)


class BidirectionalLM(Objective):
    """Each word from those before it, and apart from that from those after it."""

    kind = "feature-extraction"
    model_class = both_directions.BidirectionalLM
    objective = both_directions.objective()

    def load(self, files):
        words = word_streams.WordIds(self.tokenizer)
        self.config = pretraining_flags.streams_config(self.config, words.count)
        parts = FLAGS.gradient_accumulation_steps
        self.records = word_streams.load(
            pretraining_flags.files(),
            words,
            steps_per_batch=self.config.unroll_steps,
            micro_batches=parts,
        )
        print(self.records.describe())
        digest = words.digest()
        self.identity = {"gradient_accumulation_steps": parts, "words": digest}

    def score(self, scores):
        return metrics.score_both_directions(scores)

    def states(self, model):
        return model.states


class Denoising(Objective):
    """A text without its noise to what the noise replaced, by an encoder-decoder."""

    kind = "text2text-generation"
    model_class = pretrainers.HEADS["seq2seq"]
    objective = losses.target_token()

    def load(self, files):
        rule = denoising_batches.rule(**pretraining_flags.noise_rule())
        self.records = denoising_batches.load(
            pretraining_flags.files(),
            self.tokenizer,
            rule,
            tokens=self.config.decoder_tokens,
            **self.sizes(),
        )
        print(self.records.describe(self.tokenizer))
        self.identity = dataclasses.asdict(rule)

    def score(self, scores):
        return metrics.score_tokens("target_token", None, scores)


TASKS = {
    "masked_lm": MaskedLM,
    "replaced_tokens": ReplacedTokens,
    "left_to_right": LeftToRight,
    "bidirectional_lm": BidirectionalLM,
    "denoising": Denoising,
}


def main(_):
    command_line.quiet_libraries()
    with errors.explained():
        task, settings = prepare()
        explain = task.records.explain if task.records else lambda error: None
        lost = run.lost_workers_named(settings.run.strategy)
        with errors.named(explain), run_directory.held(settings.run), lost:
            driver.run_once(task, settings)
        print(f"output: {FLAGS.output_dir}")


if __name__ == "__main__":
    command_line.run(main)
