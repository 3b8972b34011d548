"""Measurements as a Markdown table, with the machine that they were made on."""

import os
import platform
import statistics

import tabulate

from benchmarks import rows, sides
from training.distribution import processor

OURS, PEER = "ours", "peer"
TITLES = {OURS: "this project", PEER: "Hugging Face"}
BACKENDS = {"jax": "JAX", "torch": "PyTorch"}
HEADER = (
    "row",
    "unit",
    *TITLES.values(),
    "ratio (of each pair)",
    "share of peak, ours",
    "theirs",
    "memory, ours",
    "theirs",
)
LEGEND = (
    "Ratio: this project divided by Hugging Face, median of the pairs; for ms and s, "
    "lower is better. Share of peak: operations per second, divided by those of a "
    "{size} x {size} matrix product on the same side in its best turn. Operations: 2 "
    "per token and weight of the blocks, 2 per predicted token and weight of the head; "
    "three times as many in training. Padding, attention between tokens and everything "
    "but matrix products are not counted. Memory: peak of the process, in MB."
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
        "cores": sides.cores(),
        "memory_gb": round(num_bytes / 1e9, 1),
    }


def add_figures(row, prepared, runs):
    """A side's turns with "figure" and, where work is counted, "share_of_peak".

    The peak is the highest of all turns: other load may lower that of one.
    """
    if not row.is_rate:
        return [{**run, "figure": run[rows.FIGURES[row.unit]]} for run in runs]
    results = [{**run, "figure": prepared["examples"] / run["seconds"]} for run in runs]
    if prepared["gflop"] is not None:
        peak = max(run["peak_gflops"] for run in runs)
        for run in results:
            run["share_of_peak"] = prepared["gflop"] / run["seconds"] / peak
    return results


def markdown(results):
    """The whole report, from the object that compare.py writes as JSON."""
    rows = results["rows"]
    cells = [_cells(row) for row in rows.values() if "runs" in row]
    table = tabulate.tabulate(cells, HEADER, "github", disable_numparse=True)
    sides_lines = "\n".join(f"* {line}" for line in _sides(rows))
    skipped = [
        f"{name}: skipped, {row['skipped']}."
        for name, row in rows.items()
        if "skipped" in row
    ]
    legend = LEGEND.format(size=results["peak_size"])
    parts = [machine_line(results["machine"]), sides_lines, table, legend, *skipped]
    backends = [cells for row in rows.values() for cells in _on_backends(row)]
    if backends:
        header = "row", "backend", "unit", "figure", "ratio to TensorFlow", "compiling"
        parts.append(tabulate.tabulate(backends, header, "github"))
    return "\n\n".join(parts) + "\n"


def machine_line(machine):
    """Processor, cores, instruction sets and memory."""
    sets = ", ".join(machine["instruction_sets"]) or "unknown instruction sets"
    return (
        f"{machine['processor']}, {machine['cores']} cores, {sets}, "
        f"{machine['memory_gb']} GB"
    )


def _sides(rows):
    """A line for each side and precision: versions, environment, peak."""
    turns: dict[tuple[str, str], list] = {}
    for row in rows.values():
        for side, runs in row.get("runs", {}).items():
            turns.setdefault((side, row["precision"]), []).extend(runs)
    for (side, precision), runs in sorted(turns.items()):
        versions = ", ".join(f"{k} {v}" for k, v in runs[0]["versions"].items())
        variables = " ".join(f"{k}={v}" for k, v in runs[0]["environment"].items())
        peak = max(run["peak_gflops"] for run in runs)
        title = (TITLES | BACKENDS)[side]
        yield (
            f"{title}: {versions}; {variables or 'default environment'}; "
            f"matrix product {peak:.0f} GFLOP/s ({precision})"
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
        *(_median(runs, "share_of_peak", "{:.2f}") for runs in (ours, peer)),
        *(_median(runs, "peak_memory_mb", "{:,.0f}") for runs in (ours, peer)),
    )


def _on_backends(row):
    """A line of a row for each backend that it was timed on."""
    for backend, title in BACKENDS.items():
        if runs := row.get("runs", {}).get(backend):
            figure = _median(runs, "figure", "{:.1f}")
            ratio = _ratio(runs, row["runs"][OURS])
            seconds = _median(runs, "compile_s", "{:.1f} s")
            yield row["title"], title, row["unit"], figure, ratio, seconds


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
