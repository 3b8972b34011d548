r"""Builds an index over a file of texts, and prints the texts nearest to queries.

    python -m serving.search --pretrained=DIR \
        --input_file=texts.txt --index_dir=output/index
    python -m serving.search --index_dir=output/index "a query" "another"
    python -m serving.search --index_dir=output/index --reranker=DIR "a query"
    python -m serving.search --index_dir=output/index --add --input_file=more.txt
    python -m serving.search --index_dir=output/index --serve

The file has a text on each line, or in JSONL objects with "_id", "title" and "text".
The same command continues a build that was stopped.
"""

from absl import flags

from cli import command_line, serve_flags

FLAGS = flags.FLAGS
_OF_BUILDS = [
    "query_prompt",
    "passage_prompt",
    "quantization",
    "max_seq_length",
    "passage_tokens",
    "passage_stride",
]


def define() -> None:
    """Defines the flags of `python -m serving.search`."""
    string = flags.DEFINE_string
    with command_line.heading("Model and vocabulary"):
        string(
            "pretrained",
            None,
            "Directory of a model of vectors of texts, or of a BERT; its id on the "
            "Hugging Face hub. By default, for queries, that of the index.",
        )
        string("export_dir", None, "Export of run_embedding.py, in place of a model.")
    with command_line.heading("Data"):
        string("index_dir", None, "Directory of the index.")
        string("input_file", None, "Texts to build the index of, plain or .gz.")
        flags.DEFINE_bool(
            "add", False, "Add the texts of --input_file to an index that is there."
        )
        string("queries_file", None, "File with a query on each line, or JSONL.")
        define_prompts("query of a build", "text of the index")
        flags.DEFINE_integer(
            "max_seq_length",
            None,
            "Maximum number of tokens of a text, including [CLS] and [SEP]; longer "
            "texts are truncated. By default that of the model.",
            lower_bound=4,
        )
        flags.DEFINE_integer(
            "passage_tokens",
            None,
            "Cut texts into passages of at most this many tokens, which are searched "
            "in place of whole texts.",
            lower_bound=1,
        )
        flags.DEFINE_integer(
            "passage_stride",
            None,
            "Stride in tokens between passages of a text; by default --passage_tokens, "
            "so that none overlap.",
            lower_bound=1,
        )
    with command_line.heading("Vectors"):
        define_pooling()
        flags.DEFINE_enum(
            "quantization",
            "none",
            ["none", "int8"],
            "Numbers that are searched: float32, or int8, a quarter of the size. The "
            "best by int8 are ranked by float32.",
        )
        flags.DEFINE_bool(
            "approximate",
            False,
            "Build a graph of the vectors, and search it instead of all vectors; needs "
            "faiss-cpu.",
        )
    with command_line.heading("Answers"):
        flags.DEFINE_integer("top_k", 5, "Texts to print for a query.", lower_bound=1)
        define_reranker(
            "Directory of a classifier of pairs, or its export, which ranks the best "
            "--num_candidates texts of a query once more."
        )
        flags.DEFINE_integer(
            "num_candidates",
            None,
            "Texts that --reranker ranks for a query; by default 5 * --top_k, at most "
            "100, and at least --top_k.",
            lower_bound=1,
        )
        flags.DEFINE_bool("json", False, "Print one JSON object for a query.")
    serve_flags.define()


def define_reranker(about: str) -> None:
    """--reranker with its help, and --reranker_label."""
    flags.DEFINE_string("reranker", None, about)
    flags.DEFINE_string(
        "reranker_label",
        None,
        "Label of --reranker whose probability ranks passages; by default the last of "
        "two.",
    )


def lacks_reranker() -> tuple[object, str]:
    """A row of command_line.refuse for a --reranker_label alone."""
    label = FLAGS.reranker_label
    text = f"--reranker_label={label} is of --reranker; set that, too"
    return label and not FLAGS.reranker, text


def define_prompts(query: str, passage: str) -> None:
    """Texts before others; the arguments are what they stand before."""
    for name, texts in (("query", query), ("passage", passage)):
        help_text = f"Text to put before each {texts}. By default that of the model, "
        flags.DEFINE_string(f"{name}_prompt", None, help_text + "or none.")


def define_pooling() -> None:
    """How the vector of a text is made of those of its tokens."""
    flags.DEFINE_enum(
        "pooling",
        None,
        ["cls", "mean", "max", "last"],
        "Vector of a text: cls is that of the first token, mean and max are over all "
        "tokens, last is that of the last one. By default that of the model, or mean.",
    )


def check() -> None:
    """Raises ValueError where flags are missing or contradict each other."""
    command_line.refuse(
        (
            not FLAGS.index_dir,
            "--index_dir is missing; name the directory of the index",
        ),
        (
            FLAGS.pretrained and FLAGS.export_dir,
            "--pretrained and --export_dir are both set; leave out one of them",
        ),
        (
            FLAGS.add and not FLAGS.input_file,
            "--input_file is missing; --add takes the texts of it",
        ),
        (
            FLAGS.input_file
            and not (FLAGS.add or FLAGS.pretrained or FLAGS.export_dir),
            "--pretrained is missing; set it to the directory of a model, or set "
            "--export_dir to an export",
        ),
        *(
            (
                FLAGS.export_dir and FLAGS[name].value,
                f"--{name}={FLAGS[name].value} is not for an export, which has one; "
                "leave it out",
            )
            for name in ("pooling", "max_seq_length")
        ),
        *(
            (
                FLAGS[name].present and (FLAGS.add or not FLAGS.input_file),
                f"--{name} is for a build; set --input_file without --add, or leave it "
                "out",
            )
            for name in _OF_BUILDS
        ),
        (
            FLAGS.add and FLAGS.approximate,
            "--approximate is for a build or for queries; leave it or --add out",
        ),
        (
            FLAGS.passage_stride and not FLAGS.passage_tokens,
            f"--passage_stride={FLAGS.passage_stride} is of --passage_tokens; set that",
        ),
        (
            FLAGS.num_candidates and not FLAGS.reranker,
            f"--num_candidates={FLAGS.num_candidates} is for --reranker; set that, too",
        ),
        (
            not FLAGS.serve and (FLAGS.num_candidates or FLAGS.top_k) < FLAGS.top_k,
            f"--num_candidates={FLAGS.num_candidates} is below --top_k={FLAGS.top_k}; "
            "raise it, or lower --top_k",
        ),
        lacks_reranker(),
    )
    command_line.check_files("input_file", "queries_file")
    serve_flags.check()
