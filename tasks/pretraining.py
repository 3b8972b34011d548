"""Pretraining: a task for each objective."""

import abc
import dataclasses
import functools
import os
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from contract import errors, file_names, remote_files
from data_pipeline.batches import packing, sharing
from data_pipeline.extraction import lines
from data_pipeline.pretraining import batches as record_batches
from data_pipeline.pretraining import (
    cloze,
    denoising_batches,
    masking,
    word_streams,
)
from modeling import losses, models, pretrainers, replaced
from modeling.checkpoints import conversion, names, places
from modeling.configs import config_limits
from modeling.features import vectors
from modeling.networks.elmo import objective as both_directions
from reports import run_report
from serving import pretrained as served
from tasks import networks, run_plans
from tasks.settings.pretraining import PretrainingSettings
from training import (
    carried_states,
    driver,
    facts,
    inference,
    loop,
    metrics,
    run_directory,
    run_plan,
)
from training import run as training_run
from training.distribution import devices


def prepare(settings: PretrainingSettings) -> tuple["Objective", run_plan.Plan]:
    """The task of --objective, and how to do it; InputError for wrong input."""
    strategy = run_plans.set_up(settings)
    opened = networks.open_for_task(
        settings,
        settings.max_seq_length,
        for_tasks=False,
        takes_encoder_decoder=True,
        takes_records=not settings.do_export,
    )
    files = opened.files
    settings.check_network(opened.config, files.config_file)
    task = TASKS[settings.objective](settings, opened)
    if task.records:
        settings.check_eval_batch_size(task.records.held_out.count)
    plan = run_plans.make_plan(
        settings,
        strategy,
        config=task.config.to_dict(),
        init_checkpoint=files.init_checkpoint,
        optimizer_settings=settings.optimizer_settings(task.config),
        timetable=timetable(settings),
        length_flag="--num_train_steps",
        evaluates=settings.do_eval,
        max_eval_steps=settings.max_eval_steps or None,
    )
    return task, plan


def timetable(settings: PretrainingSettings) -> run_plan.Timetable:
    """When a run does what; the last checkpoint counts, as in the original."""
    if settings.do_train and settings.num_warmup_steps >= settings.num_train_steps:
        logging.warning(
            "--num_warmup_steps=%d is not less than --num_train_steps=%d, so the rate "
            "never reaches --learning_rate=%s; a tenth of the steps is usual",
            settings.num_warmup_steps,
            settings.num_train_steps,
            settings.learning_rate,
        )
    return run_plans.timetable_of_steps(
        settings, settings.num_train_steps, settings.num_warmup_steps
    )


class Objective(abc.ABC):
    """An objective of pretraining on an open network; the tokenizer may be None.

    Attributes:
        kind: what the hub calls this kind of task.
        load_weights: what loads the first weights; as networks.load_weights.
        records: what to train and evaluate on; None to export alone.
        objective: the loss; None where nothing is trained.
        files: {name: text} to store beside the weights.
        identity: what besides the data must match to resume a run.
    """

    kind = ""
    load_weights: Callable[..., tuple[str, int]]
    model_class: Any = models.BertModel
    records: Any = None
    objective: losses.Objective | None = None
    identity: Mapping[str, Any] = types.MappingProxyType({})

    def __init__(self, settings, opened):
        self.settings = settings
        self.config, self.tokenizer = opened.config, opened.tokenizer
        self.load_weights = functools.partial(networks.load_weights, settings)
        self.load(opened.files)
        self.files = conversion.files_of(self.config, self.tokenizer)

    @abc.abstractmethod
    def load(self, files):
        """Reads the records of the settings, and checks the network and its files."""

    def make_model(self):
        return self.model_class(self.config, recompute=self.settings.recompute)

    def load_records(self, rule=None):
        """The records of the self.settings."""
        return record_batches.load(
            self.settings.record_files(),
            self.tokenizer,
            rule,
            type_vocab_size=self.config.type_vocab_size,
            has_mask_flags=self.settings.wants_masks,
            **self.sizes(),
        )

    def sizes(self):
        """Sizes that records have to fit."""
        vocab_size, tokenizer = self.config.vocab_size, self.tokenizer
        spare_rows = vocab_size - tokenizer.vocab_size if tokenizer else 0
        return {
            "max_seq_length": self.settings.max_seq_length,
            "vocab_size": vocab_size,
            "spare_rows": max(spare_rows, config_limits.SPARE_ROWS),
        }

    def score(self, scores: dict[str, Any]) -> dict[str, Any]:
        """The scores to report, of those of inference.objective_scores."""
        return scores

    def states(self, model: Any) -> Mapping[str, Sequence[int]] | None:
        """As carried_states.CarriedStates: what the model carries between batches."""
        return None

    def trained_on(self) -> dict[str, Any]:
        """The values that must match to resume a run."""
        assert self.records
        contents = remote_files.digest(self.records.train.files)
        return {**self.identity, "contents": contents}

    def begin(
        self, model: Any, plan: run_plan.Plan
    ) -> tuple["Objective", inference.CachedEvaluation]:
        """The task, and a function that returns scores."""
        if not self.records:
            return self, inference.CachedEvaluation(dict)
        assert self.objective
        strategy, jit_compile = plan.strategy, plan.jit_compile
        size = devices.fitting_batch_size(plan.eval_batch_size, strategy)
        states = self._carried(model, size, strategy)
        function = inference.evaluate_function(
            model, self.objective, strategy, jit_compile=jit_compile, states=states
        )
        count = self.records.num_evaluation_batches(size, plan.max_eval_steps)
        limit = count if plan.max_eval_steps else None
        batches = functools.partial(self.records.evaluation_batches, size, limit)

        def evaluate() -> dict[str, Any]:
            if states:
                states.reset()
            scores = inference.objective_scores(function, batches, count, strategy)
            return self.score(scores)

        return self, inference.CachedEvaluation(evaluate)

    def _carried(
        self, model: Any, rows: int, strategy: tf.distribute.Strategy
    ) -> carried_states.CarriedStates | None:
        states = self.states(model)
        if states is None:
            return None
        return carried_states.CarriedStates.make(states, rows, strategy)

    def train(
        self,
        model: Any,
        plan: run_plan.Plan,
        origin: str,
        evaluation: inference.CachedEvaluation,
    ) -> int:
        """Trains to the last step of the plan; returns the step it reached."""
        records = self.records
        assert plan.timetable is not None and records and self.objective
        order = plan.batch_size, plan.seed
        return training_run.train(
            plan,
            loop.Training(
                model=model,
                origin=origin,
                objective=self.objective,
                batches_from=lambda step: functools.partial(self._batches, plan, step),
                evaluate=evaluation,
                on_evaluated=evaluation.keep,
                names=lambda step: records.batch_names(*order, step),
                states=self._carried(model, plan.batch_size, plan.strategy),
            ),
        )

    def _batches(
        self, plan: run_plan.Plan, step: int, context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        """The batches of a host, from a step on."""
        assert plan.timetable is not None and self.records
        order, end = (plan.batch_size, plan.seed), plan.timetable.num_train_steps
        made = self.records.training_batches(*order, step, end, context)
        if not plan.packs_sequences:
            return made
        replicas = context.num_replicas_in_sync // context.num_input_pipelines
        shares = plan.micro_batches * replicas
        if self.settings.objective == "masked_lm":
            made = sharing.join_predictions(made, shares)
        return sharing.share_rows(made, shares)

    def finish(
        self,
        model: Any,
        plan: run_plan.Plan,
        evaluation: inference.CachedEvaluation,
        step: int,
    ) -> driver.Outcome:
        """Evaluates, writes eval_results.txt and prints its lines."""
        outcome = driver.Outcome()
        if not plan.evaluates:
            return outcome
        outcome.scores = evaluation.at(step)
        outcome.results = {**outcome.scores, "global_step": step}
        outcome.print_results()
        run_directory.record(plan, step, outcome.scores, outcome.results)
        if plan.writes:
            path = os.path.join(plan.output_dir, file_names.EVAL_RESULTS)
            print(f"evaluation: {path}")
        return outcome

    def export(self, model, output_dir):
        """Writes output_dir/export/<n>: text in, tokens for [MASK] and vectors out."""
        length, filler, tokenizer = self.settings.max_seq_length, None, self.tokenizer
        generator = getattr(model, "generator", model)
        if isinstance(generator, pretrainers.BertPretrainer):
            filler = served.MaskFiller(
                cloze.encoder(tokenizer, length, self.settings.max_predictions_per_seq),
                functools.partial(generator, training=False),
                cloze.chooser(tokenizer, self.settings.top_k),
            )
        else:
            print("export: without fill_mask, for which the weights have no head")
        choice = vectors.choose(model.config, **self.settings.vector_choice())

        def make(variables):
            return served.PretrainedModel(
                functools.partial(packing.encode, tokenizer, max_seq_length=length),
                functools.partial(vectors.encode, model, choice),
                lines.speller(tokenizer.vocab),
                variables,
                filler,
                model.config,
            )

        return run_plans.export(self.settings, model, make, output_dir)

    def compare_export(  # noqa: B027  nothing to compare
        self, path: str, plan: run_plan.Plan, outcome: driver.Outcome
    ) -> None:
        """An export of pretraining is the model."""

    def write_report(self, model, plan, outcome, step, seconds):
        if self.records and plan.reports and plan.writes:
            named = self.kind, self.records.summary(), step, outcome.results, seconds
            run_report.write(
                None,
                plan.output_dir,
                explanations=[],
                defaults=plan.default_flags,
                **facts.collect(plan, model, *named),
            )


def fills_masks(config, path):
    """Whether a checkpoint has all of the head that predicts masked tokens."""
    if not path:
        raise errors.InputError(
            "there is no trained model in --output_dir; add --do_train, or set "
            "--pretrained"
        )
    file, rows = places.open_file(path, config), names.head_rows(config)
    wanted = [row for path, row in rows.items() if path.startswith("masked_lm/")]
    return bool(wanted) and all(row.key(file.format) in file.shapes for row in wanted)


class MaskedLM(Objective):
    """Masked words and, where records and network have it, the second sentence."""

    kind = "fill-mask"
    model_class: Any = pretrainers.BertPretrainer
    generator_size = None

    def load(self, files):
        config, trains = self.config, self.settings.do_train
        path = (
            files.init_checkpoint
            if trains
            else run_plans.first_weights(self.settings, files)
        )
        replaces = "replaced_tokens" in config.spec.objectives
        if replaces and places.is_there(path):
            file = places.open_file(path, config)
            config.spec.check_generator(config, file, self.generator_size)
        if trains or self.settings.do_eval:
            rule = masking.Rule(**self.settings.masking_rule())
            self.records = self.load_records(rule)
            self.identity = self.settings.masking_identity(self.records.mask)
            task = self.records.train.sentence_task
            has_sentences = config.has_next_sentence and task != "none"
            self.objective = losses.pretraining(has_sentences)
        else:
            self.load_weights = networks.load_network  # the pooler may be missing
            if not fills_masks(config, path):
                self.model_class = models.BertModel
        if self.settings.do_export:
            vectors.choose(config, **self.settings.vector_choice())
            if self.model_class is not models.BertModel:
                cloze.check(self.tokenizer, self.settings.top_k)


class ReplacedTokens(MaskedLM):
    """Masked words by a generator, and by a discriminator what it has replaced."""

    def load(self, files):
        size = self.generator_size = self.settings.generator_size
        self.config.generator(size)  # refuses a size before long work
        self.model_class = functools.partial(
            replaced.ReplacedTokenDetector, generator_size=size
        )
        super().load(files)
        if self.records:
            self.records = dataclasses.replace(self.records, has_draws=True)
            self.objective = replaced.objective(self.settings.discriminator_loss_weight)


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
        self.config = self.settings.streams_config(self.config, words.count)
        parts = self.settings.gradient_accumulation_steps
        self.records = word_streams.load(
            self.settings.record_files(),
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
        rule = denoising_batches.rule(**self.settings.noise_rule())
        self.records = denoising_batches.load(
            self.settings.record_files(),
            self.tokenizer,
            rule,
            tokens=self.config.decoder_tokens,
            **self.sizes(),
        )
        print(self.records.describe(self.tokenizer))
        self.identity = dataclasses.asdict(rule)

    def score(self, scores):
        return metrics.score_tokens("target_token", None, scores)


TASKS: dict[str, Callable[..., Objective]] = {
    "masked_lm": MaskedLM,
    "replaced_tokens": ReplacedTokens,
    "left_to_right": LeftToRight,
    "bidirectional_lm": BidirectionalLM,
    "denoising": Denoising,
}


def run(settings: PretrainingSettings) -> None:
    """What run_pretraining.py does."""
    task, plan = prepare(settings)
    explain = task.records.explain if task.records else lambda error: None
    lost = training_run.lost_workers_named(plan.strategy)
    with errors.named(explain), run_directory.held(plan), lost:
        driver.run_once(task, plan)
    print(f"output: {settings.output_dir}")
