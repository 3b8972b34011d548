"""Flags of run_generation.py: what to write, how to draw, and what to score."""

from typing import Any

from absl import flags

from cli import command_line, model_flags, training_flags
from contract import errors

FLAGS = flags.FLAGS
SCORED_AS = ("texts", "document", "choices", "last_word", "labels")
FORMATS = (
    *("auto", "tsv", "csv", "jsonl"),
    *("copa", "story_cloze", "swag", "race", "winograd"),
)
# Flags that mean something with one value of --score_as alone.
_OF_SCORES = {
    "choice_columns": ("choices",),
    "labels": ("choices", "labels"),
    "template": ("labels",),
    "label_words": ("labels",),
    "examples_file": ("labels",),
    "num_examples": ("labels",),
    "stride": ("texts", "document"),
}


def define() -> None:
    """Prompts and draws, scores, and where results go."""
    _define_prompts()
    _define_draws()
    _define_scores()
    _define_output()
    training_flags.define_actions("do_export")


@command_line.heading("Data")
def _define_prompts() -> None:
    flags.DEFINE_multi_string("prompt", [], "What a text begins with.")
    flags.DEFINE_string(
        "prompt_file",
        None,
        "Prompts, one a line, or in a .jsonl file objects with `prompt`; - is standard "
        "input. Without prompts a text begins with the token that ends texts.",
    )
    flags.DEFINE_bool(
        "keep_end",
        False,
        "Of a prompt that is longer than the network's context, keep the end instead "
        "of refusing it; so with texts of --score_as=choices, last_word and labels.",
    )
    flags.DEFINE_integer(
        "batch_size", 8, "Texts that are written or scored together.", lower_bound=1
    )


@command_line.heading("Text")
def _define_draws() -> None:
    flags.DEFINE_integer("num_samples", 1, "Texts for each prompt.", lower_bound=1)
    flags.DEFINE_integer(
        "max_new_tokens",
        None,
        "Most tokens of a text. By default half of the network's context, or without a "
        "prompt all of it.",
        lower_bound=1,
    )
    define_sampling()
    flags.DEFINE_bool(
        "released_top_p",
        False,
        "Leave out the token that reaches --top_p, as GPT-2's release does.",
    )
    flags.DEFINE_integer(
        "seed",
        0,
        "Draws follow from it, the number of the prompt and of the text alone.",
        0,
        2**31 - 1,
    )
    flags.DEFINE_multi_string("stop", [], "A text before which a text ends.")
    flags.DEFINE_bool(
        "stop_at_end",
        True,
        "End a text at the token that ends texts; GPT-2's release writes on.",
    )


@command_line.heading("Text")
def define_sampling() -> None:
    """How tokens are drawn, for every script that draws some."""
    command_line.define_float(
        "temperature",
        1.0,
        "What logits are divided by; 0 takes the likeliest token each time.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "top_k", 0, "Draw among so many of the likeliest tokens; 0 for all.", 0
    )
    command_line.define_float(
        "top_p",
        1.0,
        "Draw among the fewest tokens whose probabilities reach this; 1 for all.",
        lower_bound=0,
        upper_bound=1,
    )


@command_line.heading("Scores")
def _define_scores() -> None:
    flags.DEFINE_string(
        "score_file", None, "Score what is in this file instead of writing texts."
    )
    flags.DEFINE_enum(
        "score_as",
        "texts",
        SCORED_AS,
        "texts: one a line, or objects with `text` in a .jsonl file. document: the "
        "file is one text. choices: which answer is likeliest. last_word: of each "
        "passage. labels: of a labelled table, by --template.",
    )
    flags.DEFINE_enum(
        "score_format", "auto", FORMATS, "Layout of choices or labels; auto: by name."
    )
    flags.DEFINE_integer(
        "stride",
        0,
        "Tokens from one window of a long text to the next; 0 for half the context.",
        lower_bound=0,
    )
    enum = flags.DEFINE_enum
    enum("has_header", "auto", ["auto", "true", "false"], "Whether line 1 has names.")
    for column in ("text_a", "text_b", "label"):
        flags.DEFINE_string(
            f"{column}_column", None, "Name, or number from 0, of the column."
        )
    flags.DEFINE_list(
        "choice_columns", [], "Columns of the answers, or one that holds JSON lists."
    )
    flags.DEFINE_list(
        "labels", [], "Labels in the order of their ids, or what choices are called."
    )
    flags.DEFINE_string(
        "template",
        None,
        r"'Review: {text}\nSentiment: {label}', with {text_a} and {text_b} for pairs.",
    )
    flags.DEFINE_list(
        "label_words", [], "LABEL=WORDS where other words are to stand for a label."
    )
    flags.DEFINE_string(
        "examples_file", None, "Labelled rows that are shown before each prompt."
    )
    flags.DEFINE_integer(
        "num_examples", 0, "How many of them, of all labels alike.", lower_bound=0
    )


@command_line.heading("Output")
def _define_output() -> None:
    flags.DEFINE_string(
        "output_file",
        None,
        "Where texts or scores go: .jsonl for objects, of texts also .txt.",
    )


def check() -> None:
    """Raises ValueError where flags contradict each other."""
    if FLAGS.score_file and (FLAGS.prompt or FLAGS.prompt_file):
        raise errors.InputError(
            "--score_file scores and --prompt writes texts; give one of them"
        )
    if FLAGS.do_export and (FLAGS.score_file or FLAGS.prompt or FLAGS.prompt_file):
        raise errors.InputError(
            "--do_export writes neither texts nor scores; leave out --prompt and "
            "--score_file"
        )
    for name, kinds in _OF_SCORES.items():
        is_asked = FLAGS.score_file and FLAGS.score_as in kinds
        if FLAGS[name].value and not is_asked:
            raise errors.InputError(
                f"--{name} is for --score_file with --score_as={' or '.join(kinds)}; "
                "add these, or leave it out"
            )
    if FLAGS.score_file and FLAGS.score_as == "labels" and not FLAGS.template:
        raise errors.InputError("--score_as=labels needs a --template")
    if bool(FLAGS.num_examples) != bool(FLAGS.examples_file):
        raise errors.InputError("--num_examples and --examples_file need each other")
    check_sampling()
    if "" in FLAGS.stop:
        raise errors.InputError(
            "--stop is empty, so no text could begin; give one such as ."
        )
    if FLAGS.do_export and not FLAGS.output_dir:
        raise errors.InputError("--do_export needs an --output_dir")
    _check_output()
    model_flags.check(needs_weights=True)
    command_line.check_files("prompt_file", "score_file", "examples_file")


def check_sampling() -> None:
    """Raises ValueError where there would be no token to draw."""
    if FLAGS.top_p <= 0:
        raise errors.InputError(
            f"--top_p={FLAGS.top_p} is not above 0; give one such as 0.9"
        )


def _check_output() -> None:
    path = FLAGS.output_file
    endings = (".jsonl",) if FLAGS.score_file else (".jsonl", ".txt")
    if path and not path.endswith(endings):
        raise errors.InputError(
            f"--output_file={path} ends in none of {', '.join(endings)}, which say "
            "what is written; rename it"
        )


def sampling() -> dict[str, Any]:
    """How tokens are drawn, by the names of sampling.Sampling."""
    names = ("temperature", "top_k", "top_p", "released_top_p")
    return {name: FLAGS[name].value for name in names}


def scores() -> dict[str, Any]:
    """How a file is scored, by the names of kinds.Settings."""
    names = ("stride", "labels", "template", "label_words", "examples_file")
    return {name: FLAGS[name].value for name in (*names, "num_examples", "seed")}


def layout() -> dict[str, Any]:
    """Where the columns of a table are, by the names of tables.Layout."""
    found = {
        "file_format": FLAGS.score_format,
        "has_header": {"auto": None, "true": True, "false": False}[FLAGS.has_header],
        "text_a": FLAGS.text_a_column,
        "text_b": FLAGS.text_b_column,
        "label": FLAGS.label_column,
    }
    if FLAGS.choice_columns:
        found["choices"] = tuple(FLAGS.choice_columns)
    return found
