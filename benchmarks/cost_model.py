"""What a step of pretraining costs on GPUs: a model, not a measurement.

    python -m benchmarks.cost_model

Prints a Markdown table: for each --bert_config_files and --gpus the bytes that a step
exchanges, its compute, its input and the memory of a GPU. docs/distributed.md has the
table and what the model leaves out. The functions know neither flags nor TensorFlow;
benchmarks.growth divides the operations they count by the time it measures.
"""

import dataclasses
import pathlib

from absl import app, flags

from contract import errors
from modeling.configs import config as config_lib

FLAGS = flags.FLAGS
TRAINING = 3  # the gradients of a product are two products of its size
FLOAT_BYTES, HALF_BYTES = 4, 2
CLASSES = 2  # of the next-sentence task, or of a classifier
HEADER = (
    "model",
    "GPUs",
    "batch",
    "TFLOP/GPU",
    "compute, ms",
    "sent/GPU, MB",
    "exchange, ms",
    "read/host, MB/s",
    "input/host, ms",
    "memory/GPU, GB",
    "sequences/s",
    "efficiency",
    "waits for",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hardware:
    """GPUs, what lies between them, and what reading costs a host."""

    gpu_teraflops: float  # peak of dense products in the half type, TFLOP/s
    utilisation: float  # share of it that a step reaches, 0..1
    link_gb_per_second: float  # out of a GPU to others of its host
    nic_gbit_per_second: float  # out of a host, for each GPU of it
    gpus_per_host: int
    record_bytes_per_token: float
    read_microseconds: float  # a record of a whole batch
    parse_microseconds: float  # a record of 128 tokens of a host's share


@dataclasses.dataclass(frozen=True)
class Batch:
    """What a GPU gets: `size` sequences of `length` tokens, some of them masked."""

    size: int
    length: int
    predictions: int = 0  # masked tokens a sequence; 0 for a classifier


@dataclasses.dataclass(frozen=True)
class Step:
    """What one step on `gpus` GPUs costs; seconds, bytes and operations of one GPU."""

    gpus: int
    operations: float
    compute_seconds: float
    sent_bytes: float
    exchange_seconds: float
    read_bytes: float  # by each host
    input_seconds: float  # of one core of each host
    memory_bytes: float

    @property
    def seconds(self) -> float:
        """Nothing overlaps but reading, which is done ahead."""
        return max(self.compute_seconds + self.exchange_seconds, self.input_seconds)

    @property
    def waits_for(self) -> str:
        """What most of the step is spent on."""
        costs = {
            "compute": self.compute_seconds,
            "exchange": self.exchange_seconds,
            "input": self.input_seconds,
        }
        if self.input_seconds < self.compute_seconds + self.exchange_seconds:
            del costs["input"]
        return max(costs, key=costs.__getitem__)


def parameters(config: config_lib.BertConfig) -> int:
    """Numbers in all variables of pretrainers.BertPretrainer."""
    width, vocab_size = config.hidden_size, config.vocab_size
    pooler = (width + 1) * width
    masked_lm = (width + 1) * width + 2 * width + vocab_size  # the table is shared
    next_sentence = (width + 1) * CLASSES
    return config.num_weights() + pooler + masked_lm + next_sentence


def kernel_weights(config: config_lib.BertConfig) -> int:
    """Numbers in the matrices of one block."""
    return 4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size


def forward_operations(config: config_lib.BertConfig, batch: Batch) -> float:
    """Multiplications and additions in the matrix products of one pass.

    The last layer computes keys and values of all positions, and the rest for those
    that are read: [CLS] and the masked tokens. Without predictions it is that of
    models.BertClassifier with two classes. Embeddings, norms, softmax, gelu and dropout
    are no products and do not count.
    """
    width, length = config.hidden_size, batch.length
    kernels = kernel_weights(config)
    read = 1 + batch.predictions
    keys_and_values = 2 * width**2
    blocks = (config.num_hidden_layers - 1) * length * (kernels + 2 * width * length)
    last = length * keys_and_values
    last += read * (kernels - keys_and_values + 2 * width * length)
    sentence = width**2 + CLASSES * width
    words = batch.predictions * (width**2 + width * config.vocab_size)
    return 2 * batch.size * (blocks + last + sentence + words)


def training_operations(config: config_lib.BertConfig, batch: Batch) -> float:
    """The same of a training step."""
    return TRAINING * forward_operations(config, batch)


def state_bytes(config: config_lib.BertConfig, type_bytes: int) -> float:
    """Weights, two moments and gradients, and copies of the weights in a half type."""
    copies = type_bytes if type_bytes < FLOAT_BYTES else 0
    return parameters(config) * (4 * FLOAT_BYTES + copies)


def activation_bytes(
    config: config_lib.BertConfig, batch: Batch, type_bytes: int
) -> float:
    """What a training step keeps for its gradient, without --recompute.

    Of a block and token: its input, query, key, value, the mixed values twice, and the
    first norm's output, in the compute type; before and after gelu; both norms before
    gamma in float32; and of each head and key the softmax in float32 and its dropout.
    Dropout masks are not kept.
    """
    width, inner = config.hidden_size, config.intermediate_size
    pairs = config.num_attention_heads * batch.length * (FLOAT_BYTES + type_bytes)
    token = width * (7 * type_bytes + 2 * FLOAT_BYTES) + 2 * inner * type_bytes + pairs
    whole = (config.num_hidden_layers - 1) * batch.length * token
    read = 1 + batch.predictions
    last = 3 * batch.length * width * type_bytes + read * token
    embeddings = batch.length * width * (2 * FLOAT_BYTES + type_bytes)
    # Logits and their gradient in float32, and once in the compute type.
    logits = batch.predictions * config.vocab_size * (2 * FLOAT_BYTES + type_bytes)
    return batch.size * (whole + last + embeddings + logits)


def sent_bytes(num_bytes: float, gpus: int) -> float:
    """Bytes that each GPU sends to sum `num_bytes` over all: a ring's all-reduce.

    Each part goes round once to be summed, and once as the sum (Patarasuk and Yuan,
    2009): 2 (n - 1) / n of the bytes.
    """
    return 2 * (gpus - 1) / gpus * num_bytes


def exchange_seconds(num_bytes: float, gpus: int, hardware: Hardware) -> float:
    """Seconds of this all-reduce.

    Over hosts there are as many rings as a host has GPUs, each through another of its
    network cards and with its share of the bytes, so the slower of link and all
    cards together decides.
    """
    rate = hardware.link_gb_per_second * 1e9
    if gpus > hardware.gpus_per_host:
        cards = hardware.gpus_per_host * hardware.nic_gbit_per_second / 8 * 1e9
        rate = min(rate, cards)
    return sent_bytes(num_bytes, gpus) / rate


def step(
    config: config_lib.BertConfig, batch: Batch, gpus: int, hardware: Hardware
) -> Step:
    """Costs of a step in mixed bfloat16, with gradients summed in float32."""
    operations = training_operations(config, batch)
    gradients = FLOAT_BYTES * parameters(config)
    records = gpus * batch.size
    own = min(gpus, hardware.gpus_per_host) * batch.size
    parsing = hardware.parse_microseconds * batch.length / 128
    return Step(
        gpus=gpus,
        operations=operations,
        compute_seconds=operations
        / (hardware.gpu_teraflops * 1e12 * hardware.utilisation),
        sent_bytes=sent_bytes(gradients, gpus),
        exchange_seconds=exchange_seconds(gradients, gpus, hardware),
        read_bytes=records * batch.length * hardware.record_bytes_per_token,
        input_seconds=(records * hardware.read_microseconds + own * parsing) / 1e6,
        memory_bytes=state_bytes(config, HALF_BYTES)
        + activation_bytes(config, batch, HALF_BYTES),
    )


def row(name: str, batch: Batch, costs: Step, alone: Step) -> str:
    """A line of the table; efficiency is relative to as many times one GPU alone."""
    cells = (
        name,
        f"{costs.gpus}",
        f"{costs.gpus * batch.size:,}",
        f"{costs.operations / 1e12:.1f}",
        f"{1e3 * costs.compute_seconds:.1f}",
        f"{costs.sent_bytes / 1e6:,.0f}",
        f"{1e3 * costs.exchange_seconds:.1f}",
        f"{costs.read_bytes / costs.seconds / 1e6:,.0f}",
        f"{1e3 * costs.input_seconds:.1f}",
        f"{costs.memory_bytes / 1e9:.1f}",
        f"{costs.gpus * batch.size / costs.seconds:,.0f}",
        f"{alone.seconds / costs.seconds:.2f}",
        costs.waits_for,
    )
    return f"| {' | '.join(cells)} |"


def define_flags():
    """The networks, the batch and the hardware."""
    real, integer = flags.DEFINE_float, flags.DEFINE_integer
    flags.DEFINE_list(
        "bert_config_files",
        ["configs/bert_base.json", "configs/bert_large.json"],
        "Networks.",
    )
    flags.DEFINE_list("gpus", ["1", "8", "64"], "Numbers of GPUs.")
    integer("gpu_batch_size", 128, "Sequences of a step on each GPU.", lower_bound=1)
    integer("max_seq_length", 128, "Tokens a sequence.", lower_bound=1)
    integer("max_predictions_per_seq", 20, "Masked tokens a sequence.", lower_bound=0)
    real(
        "gpu_teraflops",
        989.0,
        "Peak of a GPU's dense bfloat16 products, TFLOP/s; NVIDIA H100 SXM, datasheet.",
        lower_bound=0.001,
    )
    real(
        "utilisation",
        0.35,
        "Share of the peak that a step reaches: assumed, see docs/distributed.md.",
        lower_bound=0.001,
        upper_bound=1.0,
    )
    real(
        "link_gb_per_second",
        450.0,
        "Out of a GPU to others of its host, GB/s; NVLink 4, half of the datasheet's "
        "900 both ways.",
        lower_bound=0.001,
    )
    real(
        "nic_gbit_per_second",
        400.0,
        "Out of a host for each of its GPUs, Gbit/s; NVIDIA DGX H100, datasheet.",
        lower_bound=0.001,
    )
    integer("gpus_per_host", 8, "NVIDIA DGX H100, datasheet.", lower_bound=1)
    real(
        "record_bytes_per_token",
        6.5,
        "Of masked records of 128 tokens, as create_pretraining_data.py writes them.",
        lower_bound=0.0,
    )
    real(
        "read_microseconds",
        3.0,
        "To read a record of a whole batch; benchmarks.hosts.",
        lower_bound=0.0,
    )
    real(
        "parse_microseconds",
        19.0,
        "To parse a record of 128 tokens of a host's share; benchmarks.hosts.",
        lower_bound=0.0,
    )


def networks(batch: Batch) -> dict[str, config_lib.BertConfig]:
    """The configurations by name of their file."""
    found = {}
    for path in FLAGS.bert_config_files:
        config = config_lib.BertConfig.from_json_file(path)
        if batch.length > config.max_position_embeddings:
            raise errors.InputError(
                f"--max_seq_length={batch.length} exceeds max_position_embeddings="
                f"{config.max_position_embeddings} in {path}; lower the flag"
            )
        found[pathlib.Path(path).stem] = config
    return found


def numbers_of_gpus() -> list[int]:
    """The values of --gpus."""
    found = [int(text) if text.isdecimal() else 0 for text in FLAGS.gpus]
    if 0 in found:
        wrong = FLAGS.gpus[found.index(0)]
        raise errors.InputError(f"--gpus={wrong} is not a whole number of 1 or more")
    return found


def main(_):
    """Prints the table."""
    with errors.explained():
        hardware = Hardware(
            **{
                field.name: FLAGS[field.name].value
                for field in dataclasses.fields(Hardware)
            }
        )
        batch = Batch(
            FLAGS.gpu_batch_size, FLAGS.max_seq_length, FLAGS.max_predictions_per_seq
        )
        configs, numbers = networks(batch), numbers_of_gpus()
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for name, config in configs.items():
        alone = step(config, batch, 1, hardware)
        for gpus in numbers:
            print(row(name, batch, step(config, batch, gpus, hardware), alone))


if __name__ == "__main__":
    define_flags()
    app.run(main)
