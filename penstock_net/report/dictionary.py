"""The output dictionary: what every file and column of a run directory means. docs/outputs.md is generated here."""

from penstock_net.results.columns import COLUMNS, FILES, SUMMARY
from penstock_net.results.run import Run
from penstock_net.version import version


def markdown() -> str:
    """The page docs/outputs.md (`penstock explain --markdown`)."""
    lines = [
        "# What a run directory holds",
        "",
        "<!-- made by `penstock explain --markdown`; change the tables in penstock_net/results/columns.py instead -->",
        "",
        "`penstock run` with one scheme writes these files into the folder given with `--out`; with several schemes "
        "it writes them into a folder per scheme, and `comparison.csv`, `slowdown.pdf` and `slowdown.png` beside them.",
        "`penstock explain RUN` prints this page for a run. The unit and meaning of every column are also in the "
        "metadata of each Parquet file, under the key `columns`.",
        "",
        "Times are nanoseconds as Float64, exact to the picosecond for an hour. Nodes are numbered hosts first, then switches.",
        "",
    ]
    for name, columns in COLUMNS.items():
        lines += [
            f"## {name}.parquet",
            "",
            f"{_sentence(FILES[name])}",
            "",
            "| column | type | unit | meaning |",
            "|---|---|---|---|",
        ]
        lines += [f"| `{name}` | {column.dtype} | {column.unit} | {column.text} |" for name, column in columns.items()]
        lines.append("")
    lines += ["## summary.json", "", "| key | unit | meaning |", "|---|---|---|"]
    lines += [f"| `{key}` | {unit} | {text} |" for key, (unit, text) in SUMMARY.items()]
    lines += [
        "",
        "## spec.toml",
        "",
        "The whole experiment: `penstock run` accepts it and repeats the run, `penstock run --dry-run` prints all its defaults.",
        "`[inputs]` holds the SHA-256 of the files in `inputs/`, which are copies of those that the experiment names.",
        "",
        "## SHA256SUMS",
        "",
        "The digests of all these files, as `sha256sum` writes them. They are checked when the run is read, and by",
        "`penstock check RUN`; without this file the run is read as it is.",
        "",
    ]
    return "\n".join(lines)


def text(run: Run) -> str:
    """The dictionary for one run: its files and columns, the numbers of rows, and its warnings."""
    made = run.summary.get("penstock", version())
    lines = [f"{run.label}: {run.flows.height:,} flows, made by penstock {made}"]
    frames = run.frames
    for name in frames:
        frame = run.samples.rows if name == "switches" else frames[name]
        columns = COLUMNS.get(name, {})
        lines += ["", f"{name}.parquet   {frame.height:,} rows   {FILES.get(name, '')}"]
        width = max(map(len, frame.columns))
        for column in frame.columns:
            known = columns.get(column)
            unit, what = (known.unit, known.text) if known else ("", "(not penstock's)")
            lines.append(f"  {column:<{width}}  {unit:<8} {what}")
    lines += ["", "summary.json"]
    for key, value in run.summary.items():
        unit, what = SUMMARY.get(key, ("", "")) if isinstance(key, str) else ("", "")
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        if isinstance(value, (dict, list)) or len(shown) > 24 or "\n" in shown:
            shown = "..."
        lines.append(f"  {key:<20} {shown:>24} {unit:<8} {what}")
    for warning in run.summary.get("warnings") or []:
        lines.append(f"warning: {warning}")
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
