"""Measurements as a Markdown table."""

import statistics

from benchmarks import turns

OURS, PEER = "ours", "peer"
TITLES = {OURS: "this project", PEER: "Hugging Face"}
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
    "Ratio: ours to theirs, the median of the pairs; less is better for ms. Share of "
    "peak: 2 operations for each weight of the blocks and token, and of the head "
    "and predicted token, three times as many in training, over the time and over "
    "the side's own product of {size} x {size}, the best of all turns; padding, "
    "attention between tokens and all that is no matrix product do not count. Memory: "
    "most that the process held, in MB."
)


def measured(row, prepared, runs):
    """A side's turns with "figure" and, where work is counted, "share_of_peak".

    The peak is the highest of all its turns: other load may lower that of one.
    """
    if not row.is_rate:
        return [{**run, "figure": run["p50_ms"]} for run in runs]
    found = [{**run, "figure": prepared["examples"] / run["seconds"]} for run in runs]
    if prepared["gflop"] is not None:
        peak = max(run["peak_gflops"] for run in runs)
        for run in found:
            run["share_of_peak"] = prepared["gflop"] / run["seconds"] / peak
    return found


def markdown(results):
    """The whole report of what compare.py writes as JSON."""
    lines = [machine_line(results["machine"]), ""]
    lines += [f"* {line}" for line in _sides(results["rows"])]
    lines += ["", _line(HEADER), _line("---" for _ in HEADER)]
    lines += [_line(_cells(row)) for row in results["rows"].values() if "runs" in row]
    lines += ["", LEGEND.format(size=results["peak_size"])]
    for name, row in results["rows"].items():
        if "skipped" in row:
            lines += ["", f"{name}: skipped, {row['skipped']}."]
    return "\n".join(lines) + "\n"


def machine_line(machine):
    """Processor, cores, instruction sets and memory."""
    sets = ", ".join(machine["instruction_sets"]) or "unknown instruction sets"
    return (
        f"{machine['processor']}, {machine['cores']} cores, {sets}, "
        f"{machine['memory_gb']} GB"
    )


def _sides(rows):
    """A line for each side and precision: versions, environment, peak."""
    found = {}
    for row in rows.values():
        for side, runs in row.get("runs", {}).items():
            found.setdefault((side, row["precision"]), []).extend(runs)
    for (side, precision), runs in sorted(found.items()):
        versions = ", ".join(f"{k} {v}" for k, v in runs[0]["versions"].items())
        variables = " ".join(f"{k}={v}" for k, v in runs[0]["environment"].items())
        peak = max(run["peak_gflops"] for run in runs)
        yield (
            f"{TITLES[side]}: {versions}; {variables or 'environment as it is'}; "
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
        _ratio(row["runs"]),
        *(_median(runs, "share_of_peak", "{:.2f}") for runs in (ours, peer)),
        *(_median(runs, "peak_memory_mb", "{:,.0f}") for runs in (ours, peer)),
    )


def _median(runs, name, form):
    if not runs or name not in runs[0]:
        return "-"
    return form.format(turns.median(runs, name))


def _ratio(runs):
    if len(runs) < 2:
        return "-"
    ratios = turns.ratios({side: runs[side] for side in (OURS, PEER)}, "figure")
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"**{statistics.median(ratios):.2f}** ({each})"


def _line(cells):
    return f"| {' | '.join(cells)} |"
