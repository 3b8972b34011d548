"""Tags of words: training, evaluation, predictions and export."""

import functools

from contract import features
from data_pipeline import findings
from data_pipeline.tables import label_files
from data_pipeline.tagging import files as tagged_files
from data_pipeline.tagging import graph, scores, windows
from data_pipeline.text import offsets, opening
from modeling import losses, models
from serving import windowed
from tasks import fine_tuning, networks, run_plans
from tasks.settings.tagger import TaggerSettings
from training import run_plan


def prepare(settings: TaggerSettings) -> tuple["TaggerTask", run_plan.Plan]:
    """The task, and how to do it; InputError for wrong input."""
    strategy = run_plans.set_up(settings)
    opened = networks.open_for_task(settings, settings.max_seq_length)
    opening.check_exports(opened.tokenizer, settings.do_export)
    reading = run_plans.reading(settings, opened.files)
    names = label_files.read_labels(settings.labels) if settings.labels else ()
    form = tagged_files.Layout(**settings.layout(), tag_names=names)
    splits = windows.read(settings.sentence_files(), form, findings.show)
    tag_set = windows.find_tags(
        splits.get("train"),
        names=names,
        scheme=settings.tag_scheme,
        head=run_plans.first_head(settings, opened, "tagger"),
        show=findings.show,
    )
    data = windows.load(
        splits,
        tag_set,
        opened.tokenizer,
        accepts_unknown=settings.accept_unknown_tags,
        document_context=settings.document_context,
        show=findings.show,
        **settings.limits(),
    )
    plan = run_plans.fine_tuning_plan(
        settings,
        strategy,
        opened,
        num_examples=len(data.get("train", ())),
        score_names=scores.score_names(tag_set.scheme),
    )
    return TaggerTask(settings, opened, data, tag_set, reading), plan


class TaggerTask(fine_tuning.FineTuningTask):
    """Tags words: the likeliest tag of each first piece.

    `data` is {split: windows.SentenceSplit}.
    """

    kind = "token-classification"

    def __init__(self, settings, opened, data, tag_set, reading):
        self.objective = losses.tagger(settings.label_smoothing)
        identity = {"labels": list(tag_set.names)}
        super().__init__(
            settings, opened, data, classes=tag_set, reading=reading, identity=identity
        )

    def make_model(self):
        return models.BertTagger(
            self.config,
            self.classes.num_outputs,
            reading=self.reading,
            recompute=self.settings.recompute,
        )

    def outputs(self, model):
        """Best tag and probability of each token, and the loss of a known tag."""

        def forward(batch, training):
            logits = model(batch, training=training)["logits"]
            outputs = graph.best_tags(logits)
            if features.LABEL_IDS in batch:
                outputs["losses"] = losses.tag_losses(logits, batch[features.LABEL_IDS])
            return outputs

        return forward

    def score(self, split, outputs, batch_size):
        return scores.decide(self.data[split], outputs, self.classes)

    def outcomes(self, split, scored):
        scheme = self.classes.scheme
        return scores.outcomes(split, self.data[split], scored, scheme)

    def predict(self, scored, plan, step):
        if plan.writes:
            sentences, scheme = self.data["test"].sentences, self.classes.scheme
            names = scores.write_all(plan.output_dir, sentences, scored, scheme)
            print("\n".join(f"predictions: {name}" for name in names))
        return scored.results("test")

    def served(self, model, variables):
        """Text or words in, tags out."""
        return windowed.WordTagger(
            functools.partial(offsets.split_words, rules=self.tokenizer.rules),
            graph.encoder(self.tokenizer, **self.settings.limits()),
            functools.partial(model, training=False),
            graph.chooser(self.classes),
            variables,
            (None, *self.tokenizer.token_shape),
            model.config,
        )


def run(settings: TaggerSettings) -> None:
    """What run_tagger.py does."""
    run_plans.fine_tune(prepare, settings)
