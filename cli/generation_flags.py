"""Flags of run_generation.py: what to write, how to draw, and what to score."""

from typing import Any

from absl import flags

from cli import command_line, model_flags, table_flags, training_flags
from data_pipeline.classification import tables
from data_pipeline.tables import text_rows

FLAGS = flags.FLAGS
SCORED_AS = ("texts", "document", "choices", "last_word", "labels")
FORMATS = (
    "auto",
    *text_rows.FORMATS,
    "copa",
    "story_cloze",
    "swag",
    "race",
    "winograd",
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
    flags.DEFINE_multi_string("prompt", [], "Beginning of a text; may be repeated.")
    flags.DEFINE_string(
        "prompt_file",
        None,
        "Prompts, one a line, or in a .jsonl file objects with `prompt`; - is standard "
        "input. Without prompts a text begins with the token that ends texts.",
    )
    flags.DEFINE_bool(
        "keep_end",
        False,
        "Keep the end of a prompt that is longer than the network's context, instead "
        "of refusing it; also for texts of --score_as=choices, last_word and labels.",
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
        "Divisor of the logits; 0 takes the likeliest token each time.",
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
    table_flags.define_header()
    table_flags.define_columns("Columns of the answers, or one that holds JSON lists.")
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
    prompts, path = FLAGS.prompt or FLAGS.prompt_file, FLAGS.output_file
    endings = (".jsonl",) if FLAGS.score_file else (".jsonl", ".txt")
    command_line.refuse(
        (
            FLAGS.score_file and prompts,
            "--score_file scores and --prompt writes texts; give one of them",
        ),
        (
            FLAGS.do_export and (FLAGS.score_file or prompts),
            "--do_export writes neither texts nor scores; leave out --prompt and "
            "--score_file",
        ),
        *(
            (
                FLAGS[name].value
                and not (FLAGS.score_file and FLAGS.score_as in kinds),
                f"--{name} is for --score_file with --score_as={' or '.join(kinds)}; "
                "add these, or leave it out",
            )
            for name, kinds in _OF_SCORES.items()
        ),
        (
            FLAGS.score_file and FLAGS.score_as == "labels" and not FLAGS.template,
            "--score_as=labels needs a --template",
        ),
        (
            bool(FLAGS.num_examples) != bool(FLAGS.examples_file),
            "--num_examples and --examples_file need each other",
        ),
        no_token_to_draw(),
        (
            "" in FLAGS.stop,
            "--stop is empty, so no text could begin; give one such as .",
        ),
        (
            FLAGS.do_export and not FLAGS.output_dir,
            "--do_export needs an --output_dir",
        ),
        (
            path and not path.endswith(endings),
            f"--output_file={path} ends in none of {', '.join(endings)}, which say "
            "what is written; rename it",
        ),
    )
    model_flags.check(needs_weights=True)
    command_line.check_files("prompt_file", "score_file", "examples_file")


def no_token_to_draw() -> tuple[bool, str]:
    """The row of a --top_p that leaves no token."""
    return (
        FLAGS.top_p <= 0,
        f"--top_p={FLAGS.top_p} is not above 0; give one such as 0.9",
    )


def sampling() -> dict[str, Any]:
    """How tokens are drawn, by the names of sampling.Sampling."""
    names = ("temperature", "top_k", "top_p", "released_top_p")
    return {name: FLAGS[name].value for name in names}


def scores() -> dict[str, Any]:
    """How a file is scored, by the names of kinds.Settings."""
    names = ("stride", "labels", "template", "label_words", "examples_file")
    return {name: FLAGS[name].value for name in (*names, "num_examples", "seed")}


def layout() -> tables.Layout:
    """Where the columns of a table are."""
    return table_flags.layout(FLAGS.score_format)
