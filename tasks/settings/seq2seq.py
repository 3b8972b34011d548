"""Settings of run_seq2seq.py: sources, targets, their lengths, and how one writes."""

import dataclasses
from typing import Any, ClassVar

from contract import errors, export_formats
from data_pipeline.seq2seq import pairs
from modeling.networks.encoder_decoder import config as encoder_decoder_config
from tasks.settings import fields, fine_tuning, sampling, tables, training

_BEAMS = ("num_beams", "length_penalty", "early_stopping")
_DRAWN = {"do_sample": True}


def _column(role: str, place: str) -> Any:
    return fields.data(
        None,
        f"Name, or number from 0, of the column of {role}s. By default the one called "
        f"{role} or, where there are no such names, the {place}.",
        changes=fields.ANSWERS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seq2seqSettings(
    sampling.Sampling,
    tables.Form,
    tables.Files,
    training.Evaluates,
    fine_tuning.FineTuning,
):
    """Sources and targets, their lengths, and how texts are written."""

    program: ClassVar[str] = "run_seq2seq"

    seed: int = fields.again(
        training.Training, "seed", 1, changes=fields.ANSWERS
    )  # of draws
    source_column: str | None = _column("source", "first")
    target_column: str | None = _column("target", "second")
    max_source_length: int = fields.model(
        128,
        "Maximum number of tokens of a source, including [CLS] and [SEP]; longer "
        "sources are truncated.",
        least=3,
    )
    max_target_length: int = fields.model(
        128,
        "Maximum number of tokens of a target, including the end token; longer "
        "targets are truncated, and generated texts end there.",
        least=2,
    )
    num_beams: int = fields.text(
        1,
        "Number of beams for dev rows, test rows and exports; 1 takes the most likely "
        "token at each step.",
        least=1,
        changes=fields.ANSWERS,
    )
    length_penalty: float = fields.text(
        1.0,
        "With several beams: the log probability of a text is divided by its length "
        "to this power. 0 leaves out the division and prefers short texts; larger "
        "values prefer long texts.",
        changes=fields.ANSWERS,
    )
    early_stopping: str = fields.text(
        "never",
        "With several beams: end at as many texts as beams (true), where no open text "
        "is better so far (false, transformers' default), or where none can be.",
        choices=["true", "false", "never"],
        changes=fields.ANSWERS,
    )
    no_repeat_ngram_size: int = fields.text(
        0,
        "Size of n-grams that no text has twice; 0: none.",
        least=0,
        changes=fields.ANSWERS,
    )
    min_target_length: int = fields.text(
        0,
        "Least tokens of a written text, its end included.",
        least=0,
        changes=fields.ANSWERS,
    )
    do_sample: bool = fields.text(
        False,
        "Draw tokens at random instead of taking the most likely ones. Draws depend "
        "on --seed and the number of the row.",
        changes=fields.ANSWERS,
    )
    temperature: float = fields.again(
        sampling.Sampling, "temperature", 1.0, only_with=_DRAWN
    )
    top_k: int = fields.again(sampling.Sampling, "top_k", 0, only_with=_DRAWN)
    top_p: float = fields.again(sampling.Sampling, "top_p", 1.0, only_with=_DRAWN)

    def check(self) -> None:
        """Refuses contradictions, and columns that are not there."""
        super().check()
        source, beams = self.source_column, self.num_beams
        errors.refuse(
            (
                source is not None and source == self.target_column,
                f"--source_column and --target_column are both {source}; each needs a "
                "column of its own",
            ),
            (
                self.export_format != export_formats.SAVED_MODEL,
                f"--export_format={self.export_format} runs a network once, and this "
                "one runs for each token that it writes; leave it out",
            ),
            (
                self.do_sample and beams > 1,
                f"--do_sample draws one text and --num_beams={beams} compares several; "
                "leave one of them out",
            ),
            (
                self.do_sample and self.temperature == 0,
                "--temperature=0 draws nothing; leave --do_sample out, or raise it",
            ),
        )
        for split in self.local_tables:
            self.opened_tables[split] = self.open_pairs(split)

    def open_pairs(self, split: str) -> pairs.PairRows:
        """Opens the file of a split; InputError where its targets cannot be scored."""
        if split in self.opened_tables:
            return self.opened_tables.pop(split)
        path, is_needed = getattr(self, f"{split}_file"), split != "test"
        opened = pairs.open_rows(path, self.layout(), targets_required=is_needed)
        if opened.has_targets and split != "train":
            place = f"{path}: scoring targets"
            errors.check_installed(place, "rouge_score", "sacrebleu")
        return opened

    def following(self, config: Any) -> tuple["Seq2seqSettings", Any]:
        """Settings that a config has of how texts are written, where none are given.

        Draws take nothing about beams, and a run that trains keeps its lengths. The
        config of the run comes second.
        """
        taken: dict[str, Any] = {}
        for name, key in encoder_decoder_config.SETTINGS.items():
            value = config.generation.get(key)
            value = str(value).lower() if isinstance(value, bool) else value
            keeps = name in self.given or (self.do_sample and name in _BEAMS)
            num_beams = taken.get("num_beams", self.num_beams)  # which comes first
            keeps |= num_beams == 1 and name in _BEAMS[1:]
            keeps |= self.do_train and name == "max_target_length"
            if not keeps and value not in (None, getattr(self, name)):
                taken[name] = value
                print(f"{name}: {value}, as the directory of the model has it")
        made, known = self.with_values(**taken), fields.rows(type(self))
        is_usual = all(
            getattr(made, name) == known[name].default
            for name in encoder_decoder_config.SETTINGS
        )
        generation = {} if is_usual else made.writing()
        return made, dataclasses.replace(config, generation=generation)

    def check_network(self, config_file: str, config: Any, vocab_size: int) -> None:
        """Raises InputError where texts, or beams, do not fit an encoder-decoder."""
        errors.refuse(
            *(
                (
                    getattr(self, flag) > side.max_position_embeddings,
                    f"--{flag}={getattr(self, flag)} is more than the "
                    f"{side.max_position_embeddings} positions of the {part}; lower it",
                )
                for flag, side, part in (
                    ("max_source_length", config.encoder, "encoder"),
                    ("max_target_length", config.decoder, "decoder"),
                )
            ),
            (
                self.num_beams > vocab_size,
                f"--num_beams={self.num_beams} is more than the {vocab_size} tokens of "
                f"the vocabulary ({config_file}); give fewer",
            ),
            (
                self.min_target_length > self.max_target_length,
                f"--min_target_length={self.min_target_length} is more than "
                f"--max_target_length={self.max_target_length}; lower it",
            ),
            *(
                (
                    name in self.given and self.num_beams == 1,
                    f"{self.typed(name)} compares beams; set --num_beams to 2 or "
                    "more, or leave it out",
                )
                for name in _BEAMS[1:]
            ),
        )

    def layout(self) -> pairs.Layout:
        """Where sources and targets stand."""
        return pairs.Layout(
            file_format=self.file_format,
            **self.form(),
            source=self.source_column,
            target=self.target_column,
        )

    def limits(self) -> tuple[int, int]:
        """The most tokens of a source and of a target, as in split.Limits."""
        return self.max_source_length, self.max_target_length

    def draws(self) -> dict[str, Any]:
        """How tokens are drawn, by the names of sampling.Sampling."""
        draws = {
            name: getattr(self, name) for name in ("temperature", "top_k", "top_p")
        }
        return draws if self.do_sample else {**draws, "temperature": 0.0}

    def writing(self) -> dict[str, Any]:
        """How texts are written, by the keys of generation_config.json."""
        names = encoder_decoder_config.SETTINGS.items()
        values = {key: getattr(self, name) for name, key in names}
        ends = {"true": True, "false": False}.get(self.early_stopping, "never")
        return {**values, "early_stopping": ends}
