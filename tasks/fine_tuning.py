"""The base of all fine-tuning tasks: weights, files, pictures and reports."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from data_pipeline import label_maps
from modeling.checkpoints import pretrained
from modeling.features import head_config
from reports import pictures, run_report
from serving import export, formats
from tasks import networks, run_plans
from tasks.settings import fields
from training import driver, facts, model_directory, tensorboard


class ScriptTask(driver.FineTuningTask):
    """A FineTuningTask on the network that settings name.

    Args:
        settings: of the command.
        opened: the network and its tokenizer.
        data: {split: a splits.Split}.
        classes: of the head, if it has such.
        reading: the layers and the head, of a task that lets flags choose them.
        identity: what besides data and `reading` must match to resume a run.
    """

    more_facts: Mapping[str, Any] = {}  # of the record of a run
    export_files: Mapping[str, str] = {}  # {name: text} beside an export

    def __init__(
        self,
        settings: Any,
        opened: model_directory.ModelDirectory,
        data: Mapping[str, Any],
        *,
        classes: label_maps.Classes | None = None,
        reading: head_config.HeadConfig | None = None,
        identity: Mapping[str, Any],
    ):
        self.settings, self.data, self.reading = settings, data, reading
        self.classes: Any = classes  # each task knows its own
        self.tokenizer, self.config = opened.tokenizer, opened.config
        self.splits: dict[str, Any] = {split: self.examples(split) for split in data}
        self.files = dict(pretrained.files(opened.config, opened.tokenizer))
        self.identity = identity
        if classes:
            self.export_files = label_maps.written(classes)["files"]
            self.files |= dict(self.export_files)
        if reading:
            plain = not reading.chosen()
            settings.check_packing(self.config.network, reads_plainly=plain)
            self.files |= reading.files()
            self.identity = {**identity, "reading": reading.chosen()}

    def examples(self, split: str) -> Any:
        """The rows of a split as the driver takes them."""
        return self.data[split].examples()

    def load_weights(self, model, path, **stage):
        return networks.load_weights(self.settings, model, path, self.classes, **stage)

    def served(self, model: Any, variables: Iterable[Any]) -> export.ServedModel:
        """The model as it is exported, with its joined variables."""
        raise NotImplementedError

    def export(self, model, output_dir):
        make = functools.partial(self.served, model)
        return run_plans.export(
            self.settings,
            model,
            make,
            output_dir,
            self.export_files,
            export_format=self.settings.export_format,
            quantization=self.settings.quantization,
        )

    def open_export(self, path):
        return formats.open_network(path)

    def pictures(self, rows):
        return pictures.summaries(rows)

    def explain(self, model, rows, plan) -> list[Any]:
        """Explanations of some rows, if a flag is set; on all hosts."""
        return []

    def write_report(self, model, plan, outcome, *ended):
        mix = model.learned_mix()
        if mix:
            print(tensorboard.mix_line(mix))
        for rows in filter(None, (outcome.rows, outcome.tested)):
            run_report.print_scores(rows, self.kind)
        explanations = self.explain(model, outcome.rows, plan)
        if not (plan.reports and plan.writes):
            return
        if outcome.results or plan.trains:
            step, seconds = ended
            data = {k: dataclasses.asdict(v.summary()) for k, v in self.data.items()}
            named = self.kind, data, step, outcome.results, seconds
            run_report.write(
                outcome.rows,
                plan.output_dir,
                defaults=plan.default_flags,
                answer_flags=self.settings.that_change(fields.ANSWERS),
                explanations=explanations,
                tested=outcome.tested,
                **{tensorboard.LAYER_MIX: mix},
                **facts.collect(plan, model, *named),
                **self.more_facts,
            )

    def report_runs(self, plan):
        if plan.reports and plan.writes:
            run_report.write_all(plan.output_dir)
