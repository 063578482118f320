"""penstock run"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock_net.cli import _signals, _tables
from penstock_net.stderr import say

if TYPE_CHECKING:
    from penstock_net.results.run import Run
    from penstock_net.spec import Spec


def command(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC.toml|PRESET", help="A TOML file, a run directory or a preset.", show_default=False)
    ],
    scheme: Annotated[
        list[str],
        typer.Option(
            "--scheme",
            metavar="NAME[=LABEL]",
            default_factory=list,
            show_default=False,
            help="Replaces the file's schemes; repeatable.",
        ),
    ],
    set_: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="Change one key; repeatable.", default_factory=list, show_default=False),
    ],
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the simulator; the results do not change.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of every random stream.", show_default=False)] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds", metavar="N|A..B|A,B", help="Seeds 1 to N, or these: a sweep, with intervals.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Default: an unused runs/NAME.", show_default=False)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace earlier runs, finished ones too; allow a load above 1.")
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="TIME",
            help='Keep the state of the simulation every so often, such as "600s", in DIR.checkpoint.',
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, say what it will cost, and print the full spec only.")
    ] = False,
    table: _tables.Form = "text",
) -> None:
    """Simulate an experiment, one run per scheme; runs that are finished are not repeated.

    Examples:

        penstock run quickstart

        penstock run quickstart --scheme bfc --scheme hpcc --set workload.0.load=0.7 --out runs/load70

        penstock run quickstart --scheme bfc --scheme hpcc --seeds 10

    With one scheme the results are written to DIR, with several to DIR/SCHEME, and a comparison to DIR. Ctrl-C, SIGTERM and
    SIGHUP keep the results so far; the same command then goes on with what is missing. `penstock explain DIR` describes the
    files. With --seeds the runs are those of `penstock sweep`, in its folder.

    With --checkpoint the same command goes on where an interrupted one was, however that ended, to the same results as if it had
    not been interrupted; --threads may be another number.
    """
    from penstock_net.results.rundir import locked
    from penstock_net.scratch import on_disk
    from penstock_net.spec import load_spec
    from penstock_net.topology.cautions import cautions
    from penstock_net.topology.outages import sentences
    from penstock_net.workload.expected import Expected

    _tables.check(table)
    if seeds is not None:
        _all_seeds(spec, scheme, set_, threads, seed, seeds, out, force, dry_run, checkpoint, table)
        return
    loaded = load_spec(spec, sets=set_, schemes=scheme, seed=seed, threads=threads)
    for given in loaded.schemes:
        loaded.build_scheme(given)
    topo = loaded.build_topology()
    if dry_run:
        flows = loaded.build_flows(topo, force)
        for given in loaded.schemes:
            loaded.check(given, topo, flows, built=True)
        for caution in (*cautions(topo), *sentences(topo)):
            say(f"warning: {caution}")
        typer.echo(loaded.complete().to_toml(), nl=False)
        say(f"expected of each scheme: {Expected.of(topo, flows, loaded.host.mtu)}")
        return
    with _signals.as_ctrl_c():
        work = Work(loaded, out or _default(loaded), force, checkpoint)
        work.check(0)
        with locked(work.out), on_disk(work.out):
            slim, interrupted = work.run(topo)
            _print_results(loaded, slim, work, interrupted, table)
    if interrupted:
        raise typer.Exit(_signals.status())


def _all_seeds(
    spec: str,
    schemes: list[str],
    sets: list[str],
    threads: int | None,
    seed: int | None,
    seeds: str,
    out: Path | None,
    force: bool,
    dry_run: bool,
    checkpoint: str | None,
    table: str,
) -> None:
    """The sweep over seeds that `penstock run --seeds` stands for."""
    from penstock_net.cli import sweep
    from penstock_net.errors import SpecError

    for given, name in ((seed is not None, "--seed"), (dry_run, "--dry-run"), (checkpoint is not None, "--checkpoint")):
        if given:
            raise SpecError(f"cannot be given with --seeds {seeds}", remedy="leave one out", place=name)
    sets = [*sets, *([f"run.threads={threads}"] if threads else [])]
    sweep.command(spec, [], sets, [], seeds, "local", None, out, force, table, scheme=schemes)


class Work:
    """The runs of one command: a folder per scheme, and which of them are finished already."""

    def __init__(self, spec: "Spec", out: Path, force: bool, checkpoint: str | None = None) -> None:
        from penstock_net.identity import key
        from penstock_net.sim.checkpoint import Checkpoint

        self.spec, self.out, self.force = spec, out, force
        self.folders = _folders(spec, out)
        self.keys = [key(spec.only(table)) for table in spec.schemes]
        self.checkpoints = [
            checkpoint and Checkpoint(_checkpoint_of(folder), checkpoint, name) for folder, name in zip(self.folders, self.keys)
        ]

    def finished(self) -> list[bool]:
        """By scheme: its folder holds this very run, complete."""
        from penstock_net.results.rundir import is_whole, key_of

        pairs = zip(self.folders, self.keys)
        return [not self.force and key_of(folder) == key and is_whole(folder) for folder, key in pairs]

    def begun(self) -> list[bool]:
        """By scheme: its folder holds this very run, complete or interrupted, or there is a checkpoint of it."""
        from penstock_net.results.rundir import key_of
        from penstock_net.sim.checkpoint import note_of

        return [
            key_of(folder, interrupted=True) == key or note_of(_checkpoint_of(folder)) == key
            for folder, key in zip(self.folders, self.keys)
        ]

    def check(self, flows: int) -> None:
        """SpecError: a folder holds something else, or cannot be written."""
        from penstock_net.errors import SpecError
        from penstock_net.identity import difference
        from penstock_net.results.rundir import check_writable, damage, is_run, summary_of

        if len(self.folders) > 1 and is_run(self.out):
            raise SpecError("holds one run already", place=self.out, remedy="give another --out for several schemes")
        for folder, table, ours in zip(self.folders, self.spec.schemes, self.begun()):
            if is_run(folder) and not (self.force or ours):
                made = summary_of(folder)
                why = difference(made, self.spec.only(table)) if made else damage(folder)
                remedy = "give another --out, --force to replace it, or use the version that made it"
                raise SpecError(f"holds a run already: {why}", remedy=remedy, place=folder)
            check_writable(folder, overwrite=self.force or ours, flows=flows * len(self.folders))

    def run(self, topo: Any) -> tuple[list["Run"], bool]:
        """Simulate what is missing; the runs without most of their data, and whether a signal has ended them early."""
        from penstock_net.identity import stamp
        from penstock_net.results.rundir import damage, is_run, recover

        for folder in self.folders:
            recover(folder)
        finished = self.finished()
        flows = None if all(finished) else self.spec.build_flows(topo, self.force)
        self.check(0 if flows is None else len(flows))
        if flows is not None:
            for table in self.spec.schemes:
                self.spec.check(table, topo, flows)
        slim: list[Run] = []
        replace = [self.force or ours for ours in self.begun()]
        for index, (table, folder) in enumerate(zip(self.spec.schemes, self.folders)):
            label = self.spec.label(table)
            if finished[index]:
                say(f"{label}: finished before; --force runs it again")
                slim.append(_slim(folder))
                continue
            assert flows is not None
            if is_run(folder) and (wrong := damage(folder)):
                say(f"{label}: {wrong}; it runs again")
            if self.force:
                self._forget_another(folder, self.keys[index])
            say(f"{label}: {int((~flows.computes).sum()):,} flows arrive in {self.spec.run.duration}")
            run = simulate(self.spec, table, topo, flows, self.checkpoints[index])
            run.summary |= stamp(self.spec.only(table))
            with _signals.only_noted():
                run.save(folder, overwrite=replace[index])
                if self.checkpoints[index] and not run.summary.get("interrupted"):
                    _checkpoint_of(folder).unlink(missing_ok=True)
            slim.append(_slim(folder, run))
            if run.summary.get("interrupted") or _signals.received:
                return slim, True
        return slim, False

    def _forget_another(self, folder: Path, key: str) -> None:
        """Remove the checkpoint of a folder unless it is that of the run that will be written there."""
        from penstock_net.sim.checkpoint import note_of

        if any(self.checkpoints) and note_of(_checkpoint_of(folder)) != key:
            _checkpoint_of(folder).unlink(missing_ok=True)


def simulate(spec: "Spec", table: Any, topo: Any, flows: Any, checkpoint: Any = None) -> "Run":
    """Run one scheme, with a progress bar."""
    from penstock_net.progress import Progress

    with Progress(spec.label(table), spec.duration_ps) as progress:
        return spec.simulate(table, topo, flows, progress=progress, checkpoint=checkpoint, on_interrupt="return")


def _checkpoint_of(folder: Path) -> Path:
    """The checkpoint of a run that is written to this folder."""
    return folder.with_name(folder.name + ".checkpoint")


def _folders(spec: "Spec", out: Path) -> list[Path]:
    from penstock_net.errors import SpecError
    from penstock_net.results.rundir import INPUTS

    labels = spec.labels()
    if len(labels) == 1:
        _check_replaceable(out, labels[0])
        return [out]
    if INPUTS in labels:
        raise SpecError("is the folder of copied files", value=INPUTS, path="scheme.label", remedy="give another label")
    return [out / label for label in labels]


def _check_replaceable(out: Path, label: str) -> None:
    """SpecError: the folder cannot be renamed or removed, as happens when a run takes its place."""
    from penstock_net.errors import SpecError

    what = "the current folder" if out.resolve() == Path.cwd() else "a mount point" if out.is_mount() else ""
    if what:
        remedy = f"give one in it, such as --out {out / label}"
        raise SpecError(f"is {what}; the results of a run take the place of a folder", remedy=remedy, place=out)


def _default(spec: "Spec") -> Path:
    """An unused runs/NAME; the last one that was used, if it holds a part of the same runs only."""
    path = Path("runs") / spec.name
    number, free, last = 1, path, None
    while free.exists() or _checkpoint_of(free).exists():
        number += 1
        last, free = free, path.with_name(f"{path.name}-{number}")
    if last is not None:
        work = Work(spec, last, False)
        if any(work.begun()) and not all(work.finished()):
            return last
    return free


def _slim(folder: Path, run: "Run | None" = None) -> "Run":
    """Only what the comparison needs of a run, so that several large ones fit into memory; run: it, if it is in memory."""
    import polars as pl

    from penstock_net.results.frames import empty_frame
    from penstock_net.results.reading import read_frame, read_summary
    from penstock_net.results.run import Run

    columns = ["start_ns", "bytes", "class", "priority", "slowdown"]
    if type(run) is Run:
        flows, summary = pl.DataFrame([run.flows[name] for name in columns]), run.summary
    else:
        flows, summary = read_frame(folder, "flows", columns), read_summary(folder)
    return Run(flows, empty_frame("switches"), empty_frame("ports"), summary=summary)


def _print_results(spec: "Spec", runs: list["Run"], work: Work, interrupted: bool, form: str) -> None:
    from penstock_net.report import tables

    out = work.out
    if len(spec.schemes) > 1:
        compare(runs, out, spec)
    typer.echo(tables.shown(runs, form))
    for run in runs:
        for warning in run.summary.get("warnings") or []:
            typer.echo(f"warning: {run.label}: {warning}", err=True)
    what = "interrupted; partial results are in" if interrupted else "written to"
    following = f"penstock report {out} -o report.html"
    if interrupted and any(work.checkpoints):
        following = "the same command goes on from the checkpoint"
    typer.echo(f"{what} {out}; next: {following}", err=interrupted or form != "text")


def compare(runs: list["Run"], out: Path, spec: "Spec") -> None:
    """Write comparison.csv, slowdown.pdf and slowdown.png of all runs, and their common spec with its input files."""
    from penstock_net.files import new_files
    from penstock_net.report import plots, tables
    from penstock_net.results.rundir import write_inputs

    text, inputs = spec.portable()
    figure = plots.slowdown(*runs)
    with new_files(out, "give another folder with --out") as folder:
        (folder / "comparison.csv").write_text(tables.comparison(runs).write_csv())
        (folder / "spec.toml").write_text(text)
        write_inputs(folder, inputs)
        for form in ("pdf", "png"):
            (folder / f"slowdown.{form}").write_bytes(plots.render(figure, form))
