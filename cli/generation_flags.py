"""Flags of run_generation.py: what to write, how to draw, and what to score."""

from typing import Any

from absl import flags

from cli import command_line, model_flags, training_flags

FLAGS = flags.FLAGS
SCORED_AS = ("texts", "document")


def define() -> None:
    """Prompts and draws, scores, and where results go."""
    _define_prompts()
    _define_draws()
    _define_scores()
    _define_output()
    training_flags.define_actions("do_export")


@command_line.heading("Data")
def _define_prompts() -> None:
    flags.DEFINE_multi_string("prompt", [], "Prompt that a generated text continues")
    flags.DEFINE_string(
        "prompt_file",
        None,
        "File with one prompt per line, or with objects with `prompt` if it ends in "
        ".jsonl; - is standard input. Without a prompt, a text begins with the "
        "end-of-text token.",
    )
    flags.DEFINE_bool(
        "keep_end",
        False,
        "Keep the end of a prompt that is too long for the context of the network, "
        "instead of refusing it.",
    )
    flags.DEFINE_integer(
        "batch_size", 8, "Number of texts to generate or score together.", lower_bound=1
    )


@command_line.heading("Text")
def _define_draws() -> None:
    flags.DEFINE_integer(
        "num_samples", 1, "Number of texts to generate for each prompt.", lower_bound=1
    )
    flags.DEFINE_integer(
        "max_new_tokens",
        None,
        "Maximum number of tokens to generate per text. By default half of the "
        "context of the network or, without a prompt, all of it.",
        lower_bound=1,
    )
    define_sampling()
    flags.DEFINE_bool(
        "released_top_p",
        False,
        "Leave out the token that reaches --top_p, as the release of GPT-2 does.",
    )
    flags.DEFINE_integer(
        "seed",
        0,
        "Random seed; draws depend only on it and on the numbers of the prompt and of "
        "the text.",
        0,
        2**31 - 1,
    )
    flags.DEFINE_multi_string(
        "stop", [], "Stop sequence: a generated text ends before it"
    )
    flags.DEFINE_bool(
        "stop_at_end",
        True,
        "End a text at the end-of-text token; the release of GPT-2 continues after it.",
    )


@command_line.heading("Text")
def define_sampling() -> None:
    """How tokens are drawn, for every script that draws some."""
    command_line.define_float(
        "temperature",
        1.0,
        "Divisor of the logits; 0 takes the most likely token at each step.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "top_k",
        0,
        "Draw from this many of the most likely tokens; 0 for all tokens.",
        0,
    )
    command_line.define_float(
        "top_p",
        1.0,
        "Draw from the smallest set of most likely tokens with probabilities that add "
        "up to this value or more; 1 for all tokens.",
        lower_bound=0,
        upper_bound=1,
    )


@command_line.heading("Scores")
def _define_scores() -> None:
    flags.DEFINE_string(
        "score_file", None, "File to score, instead of generating texts."
    )
    flags.DEFINE_enum(
        "score_as",
        "texts",
        SCORED_AS,
        "texts: each line, or each `text` in a .jsonl file. document: the whole file "
        "as one text.",
    )
    flags.DEFINE_integer(
        "stride",
        0,
        "Stride in tokens between the windows of a long text; 0 for half of the "
        "context.",
        lower_bound=0,
    )


@command_line.heading("Output")
def _define_output() -> None:
    flags.DEFINE_string(
        "output_file",
        None,
        "Output file: .jsonl for objects with texts or scores, or .txt for texts "
        "alone.",
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
        (
            FLAGS.stride and not FLAGS.score_file,
            f"--stride={FLAGS.stride} is for --score_file; add it, or leave it out",
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
    command_line.check_files("prompt_file", "score_file")


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
