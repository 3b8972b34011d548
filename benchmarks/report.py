"""Measurements as a page, with the machine that they were made on."""

import json
import operator
import os
import pathlib
import platform
import statistics

from scipy import stats

from benchmarks import rows
from contract import cores, file_names
from training.distribution import processor

# {what a turn has: (title of its column, form)}.
_COLUMNS = {
    "p50_ms": ("p50, ms", "{:,.1f}"),
    "p99_ms": ("p99, ms", "{:,.1f}"),
    "peak_memory_mb": ("memory, MB", "{:,.0f}"),
    "score": ("score", "{:.3f}"),
}
_BUSY = 0.3  # of each core; others ran where the load was higher
_PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "cpu.md"
_MARK = "<!-- make bench writes what follows. -->"
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


def add_figures(row, num_examples, right, turn):
    """Gives a turn its "figure", in the unit of the row, and the "score" of answers."""
    name = rows.FIGURES.get(row.unit)
    turn["figure"] = turn[name] if name else num_examples / turn["seconds"]
    if answers := turn.pop("answers", None):
        turn["score"] = (
            float(stats.spearmanr(answers, right).statistic)
            if row.head == "text_encoder"
            else statistics.mean(map(operator.eq, answers, right))
        )


def page(folder):
    """The page of all figures in a folder, Markdown; it begins as docs/cpu.md does."""
    parts = [_PAGE.read_text("utf-8").partition(_MARK)[0] + _MARK]
    for path in sorted(folder.glob("*.json")):
        results = json.loads(path.read_text("utf-8"))
        parts += _section(path.stem, f"{folder.name}/{path.name}", results)
    return "\n\n".join(parts) + "\n"


def _section(name, file, results):
    machine, measured = results["machine"], results["rows"]
    sets = ", ".join(machine["instruction_sets"]) or "unknown instruction sets"
    yield f"## {name}"
    yield (
        f"{results['date']}, commit {results['commit']}: {machine['processor']}, "
        f"{machine['cores']} cores, {sets}, {machine['memory_gb']} GB "
        f"([all turns]({file}))."
    )
    if results["load"] > _BUSY * machine["cores"]:
        yield (
            f"**Other programs ran meanwhile** (the load was {results['load']:.1f} "
            "before): these figures show that all sides run, and compare nothing."
        )
    flags = [*results["flags"], f"--rows={','.join(measured)}"]
    yield f"```\npython -m benchmarks.compare {' '.join(flags)}\n```"
    yield "\n".join(f"* {line}" for line in _libraries(measured))
    for row in measured.values():
        yield from _table(row) if "runs" in row else ()
    whys = [f"* {name}: {row['why']}" for name, row in measured.items() if "why" in row]
    if whys:
        yield "Rows that were not timed:\n\n" + "\n".join(whys)


def _libraries(measured):
    """A line for each set of versions, with the fastest product of its turns."""
    peaks: dict[str, float] = {}
    for row in measured.values():
        for side, turns in row.get("runs", {}).items():
            for turn in turns:
                line = ", ".join(f"{k} {v}" for k, v in turn["versions"].items())
                line += ", bfloat16" if "bfloat16" in side else ""
                line += "".join(f", {k}={v}" for k, v in turn["environment"].items())
                peaks[line] = max(turn["peak_gflops"], peaks.get(line, 0.0))
    return [
        f"{line}: matrix product {peak:.0f} GFLOP/s" for line, peak in peaks.items()
    ]


def _name(side, turn):
    """The name of a side; ours in bold, with the runtime that runs an export."""
    if not side.startswith(rows.OURS):
        return side
    names = [title for key, title in rows.RUNTIMES.items() if key in turn["versions"]]
    return f"**{side}**" + "".join(f", in {title}" for title in names)


def _table(row):
    """The table of a row, its fastest side first, and who took no part."""
    runs, unit = row["runs"], row["unit"]
    figures = {side: [turn["figure"] for turn in turns] for side, turns in runs.items()}
    medians = {side: statistics.median(each) for side, each in figures.items()}
    is_rate = rows.is_rate(unit)
    order = sorted(medians, key=medians.__getitem__, reverse=is_rate)
    others = [figures[side] for side in order if not side.startswith(rows.OURS)]
    rounds = max(map(len, others), default=0)  # sides with fewer did not go on
    peers = [each for each in others if len(each) == rounds]
    every = [turn for turns in runs.values() for turn in turns]
    names = {name for turn in every for name in turn} - {rows.FIGURES.get(unit)}
    columns = {k: v for k, v in _COLUMNS.items() if k in names}
    header = ["side", f"{unit} (least, most)", "to the fastest peer"]
    header += [title for title, _ in columns.values()]
    lines = [header, ["---"] * len(header)]
    for side in order:
        least, most = min(figures[side]), max(figures[side])
        pairs = zip(figures[side], peers[0] if peers else (), strict=False)
        ratios = [own / other for own, other in pairs]
        cells = [_name(side, runs[side][0])]
        cells.append(f"{medians[side]:,.1f} ({least:,.1f}, {most:,.1f})")
        cells.append(f"{statistics.median(ratios):.2f}" if ratios else "")
        for name, (_, form) in columns.items():
            values = [turn[name] for turn in runs[side] if name in turn]
            cells.append(form.format(statistics.median(values)) if values else "")
        lines.append(cells)
    yield f"### {row['title'][0].upper()}{row['title'][1:]}"
    yield "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    if row["skipped"]:
        yield "\n".join(f"* {side}: {why}" for side, why in row["skipped"].items())
