"""Measurements as a Markdown table, with the machine that they were made on."""

import os
import platform
import statistics

from benchmarks import rows
from contract import cores, file_names
from training.distribution import processor

OURS, PEER = "ours", "peer"
TITLES = {OURS: "this project", PEER: "Hugging Face"}
HEADER = ("row", "unit", *TITLES.values(), "ratio (of each pair)")
HEADER += ("memory, ours", "theirs")
_RULE = ("---",) * len(HEADER)
LEGEND = (
    "Ratio: this project divided by Hugging Face, median of the pairs; for ms and s, "
    "lower is better. Memory: peak of the process, in MB. Matrix product: of {size} x "
    "{size}, in the best turn of a side."
)
# These decide which kernels a library may take.
INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe_machine(cpu_info=processor.PATH):
    """Processor, instruction sets, cores and memory in 10^9 bytes.

    Instruction sets are [] where there is no /proc/cpuinfo, and memory is 0 where the
    system has no sysconf.
    """
    available = processor.instruction_sets(cpu_info)
    num_bytes = 0
    if hasattr(os, "sysconf"):
        num_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor.name(cpu_info) or platform.machine(),
        "instruction_sets": [name for name in INSTRUCTION_SETS if name in available],
        "cores": cores.usable(),
        "memory_gb": round(num_bytes / 1e9, 1),
    }


def read_scores(directory):
    """{name: number} of the eval_results.txt of a run."""
    text = (directory / file_names.EVAL_RESULTS).read_text("utf-8")
    lines = (line.split(" = ") for line in text.splitlines())
    return {name: float(value) for name, value in lines}


def add_figures(row, num_examples, runs):
    """A side's turns with "figure", in the unit of the row."""
    if row.is_rate:
        return [{**run, "figure": num_examples / run["seconds"]} for run in runs]
    return [{**run, "figure": run[rows.FIGURES[row.unit]]} for run in runs]


def markdown(results):
    """The whole report, from the object that compare.py writes as JSON."""
    rows, machine = results["rows"], results["machine"]
    sets = ", ".join(machine["instruction_sets"]) or "unknown instruction sets"
    cells = [_cells(row) for row in rows.values() if "runs" in row]
    skipped = [
        f"{name}: skipped, {row['skipped']}."
        for name, row in rows.items()
        if "skipped" in row
    ]
    parts = [
        f"{machine['processor']}, {machine['cores']} cores, {sets}, "
        f"{machine['memory_gb']} GB",
        "\n".join(f"* {line}" for line in _sides(rows)),
        "\n".join(f"| {' | '.join(row)} |" for row in (HEADER, _RULE, *cells)),
        LEGEND.format(size=results["peak_size"]),
        *skipped,
    ]
    return "\n\n".join(parts) + "\n"


def _sides(rows):
    """A line for each side: versions, environment, peak."""
    for side, title in TITLES.items():
        turns = [
            run for row in rows.values() for run in row.get("runs", {}).get(side, ())
        ]
        if not turns:
            continue
        versions = ", ".join(f"{k} {v}" for k, v in turns[0]["versions"].items())
        variables = " ".join(f"{k}={v}" for k, v in turns[0]["environment"].items())
        peak = max(run["peak_gflops"] for run in turns)
        yield (
            f"{title}: {versions}; {variables or 'default environment'}; "
            f"matrix product {peak:.0f} GFLOP/s"
        )


def _cells(row):
    ours, peer = (row["runs"].get(side) for side in (OURS, PEER))
    variant = f" ({row['variant']})" if row.get("variant") else ""
    return (
        row["title"],
        row["unit"],
        _median(ours, "figure", "{:.1f}"),
        _median(peer, "figure", "{:.1f}") + variant,
        _ratio(ours, peer),
        *(_median(runs, "peak_memory_mb", "{:,.0f}") for runs in (ours, peer)),
    )


def _median(runs, name, form):
    if not runs or name not in runs[0]:
        return "-"
    return form.format(statistics.median(run[name] for run in runs))


def _ratio(ours, peer):
    if not peer:
        return "-"
    ratios = [a["figure"] / b["figure"] for a, b in zip(ours, peer, strict=True)]
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"**{statistics.median(ratios):.2f}** ({each})"
