"""penstock sweep"""

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.errors import PenstockError, SpecError

if TYPE_CHECKING:
    from penstock.results.run import Run


def command(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml|PRESET", help="The experiment.", show_default=False)],
    param: Annotated[
        list[str],
        typer.Option(
            "--param",
            metavar="KEY=V1,V2",
            default_factory=list,
            show_default=False,
            help="Values of one key, or scheme=NAME,NAME; ranges are 1..10 and FROM..TO..STEP; repeatable.",
        ),
    ],
    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUE", default_factory=list, show_default=False, help="Change one key in all runs; repeatable."
        ),
    ],
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="N|A..B|A,B", help="Every run with seeds 1 to N, or with these.", show_default=False),
    ] = None,
    on: Annotated[str, typer.Option("--on", metavar="local|dask://HOST:PORT", help="Where to simulate.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="local: processes. Default: one per core.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Default: runs/NAME-sweep.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Allow a load above 1.")] = False,
) -> None:
    """Simulate every combination of parameter values and seeds; finished runs are not repeated.

    Examples:

        penstock sweep quickstart --param workload.0.load=0.5,0.7,0.9 --param scheme=bfc,hpcc --out runs/loads

        penstock sweep quickstart --seeds 10 --param scheme=bfc,hpcc --on dask://head:8786

    Each run is written to DIR/KEY, where KEY is a hash of its spec; sweep.parquet has a row per run. With several seeds the
    table shows means with 95 % intervals. Repeat the same command to resume after an interruption. Then

        penstock plot slowdown DIR -o fct.pdf

        penstock plot against DIR --x workload.0.load --y short_p99 -o load.pdf
    """
    from penstock.report import sweeps
    from penstock.results.rundir import check_writable, is_run
    from penstock.results.sweep import FILE, Sweep
    from penstock.spec import load_spec

    name = load_spec(spec).name
    out = out or Path("runs") / f"{name}-sweep"
    points = list(_points(spec, _axes(param, seeds), set_))
    run_all = _backend(on, workers or os.cpu_count() or 1)
    check_writable(out / "probe")
    todo = [point for point in points if not is_run(out / point.key)]
    print(f"{len(points)} runs, {len(points) - len(todo)} of them finished before", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    failed: list[str] = []
    finished = len(points) - len(todo)
    try:
        for point, problem in run_all(todo, out, force):
            finished += not problem
            state = f"failed: {problem}" if problem else "done"
            print(f"{finished}/{len(points)}  {point.label()}  {state}", file=sys.stderr, flush=True)
            if problem:
                failed.append(problem)
    except KeyboardInterrupt:
        print("interrupted; repeat the same command to resume", file=sys.stderr, flush=True)
        raise
    finally:
        table = summarise(points, out)
    if table.height:
        typer.echo(sweeps.text(Sweep.load(out)))
    typer.echo(f"{table.height} of {len(points)} runs in {out / FILE}")
    if failed:
        raise SweepFailed(f"{len(failed)} of {len(points)} runs failed, the first with: {failed[0]}")


class SweepFailed(PenstockError):
    """Some points of a sweep did not finish."""


@dataclass(frozen=True)
class Point:
    """One run of the sweep: the varied keys and their values, its scheme and seed, and the whole spec as text."""

    values: dict[str, Any]
    scheme: str
    seed: int
    key: str
    toml: str

    def label(self) -> str:
        """The varied values and the scheme, for messages."""
        return "  ".join([*(f"{k}={v}" for k, v in self.values.items()), self.scheme])


def _axes(params: list[str], given_seeds: str | None) -> dict[str, list[str]]:
    """The values of every key that varies.  SpecError: there is none, a key is given twice, or has no values."""
    from penstock.inputs import seeds, values

    axes: dict[str, list[str]] = {}
    for given in params:
        key, equals, text = given.partition("=")
        if not equals or not key:
            raise SpecError("expected KEY=V1,V2, such as workload.0.load=0.5,0.7", place=f"--param {given}")
        if key in axes:
            raise SpecError("is given twice", remedy="write all values in one", place=f"--param {key}")
        axes[key] = values(text, f"--param {given}")
    if given_seeds is not None:
        if "run.seed" in axes:
            raise SpecError("and --param run.seed are the same", remedy="give one of them", place="--seeds")
        axes["run.seed"] = [str(seed) for seed in seeds(given_seeds)]
    if not axes:
        raise SpecError("nothing varies", remedy="give --seeds 10, or --param such as workload.0.load=0.5,0.7", place="sweep")
    return axes


def _points(spec: str, axes: dict[str, list[str]], sets: list[str]) -> Iterator[Point]:
    """All combinations, each checked as far as that is quick: spec, schemes, topology."""
    from penstock.spec import load_spec

    seen: set[str] = set()
    topologies: set[str] = set()
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination))
        chosen = [values["scheme"]] if "scheme" in values else []
        varied = [f"{key}={value}" for key, value in values.items() if key != "scheme"]
        loaded = load_spec(spec, sets=[*sets, *varied], schemes=chosen)
        topology = str(loaded.topology)
        if topology not in topologies:
            topologies.add(topology)
            loaded.build_topology()
        for table in loaded.schemes:
            loaded.build_scheme(table)
            single = loaded.only(table)
            key = single.key()
            if key in seen:
                raise SpecError(f"--param: two combinations are the same run ({', '.join(varied) or table.name})")
            seen.add(key)
            varied_here = {k: v for k, v in values.items() if k != "scheme"}
            yield Point(varied_here, loaded.label(table), loaded.run.seed, key, single.to_toml())


# -- execution backends

Backend = Callable[[list[Point], Path, bool], Iterator[tuple[Point, str | None]]]


def _backend(on: str, workers: int) -> Backend:
    if on == "local":
        return _here if workers == 1 else lambda points, out, force: _processes(points, out, force, workers)
    if on.startswith("dask://") and len(on) > len("dask://"):
        try:
            import distributed  # type: ignore[import-not-found] # noqa: F401
        except ImportError:
            raise SpecError("needs dask", remedy="install it with: pip install distributed", place=f"--on {on}") from None
        return lambda points, out, force: _dask(points, out, force, on.removeprefix("dask://"))
    raise SpecError(f"--on {on}: must be local or dask://HOST:PORT, such as dask://head:8786")


def compute(toml: str, force: bool) -> "Run":
    """Simulate a spec with one scheme in the calling process, which may be a remote worker."""
    from penstock.spec import parse_spec

    spec = parse_spec(toml)
    topo = spec.build_topology()
    return spec.simulate(spec.schemes[0], topo, spec.build_flows(topo, force))


def _compute_and_save(toml: str, force: bool, folder: str) -> str | None:
    """Simulate and save one run; returns None, or the error in one line."""
    try:
        run = compute(toml, force)
        if run.summary.get("interrupted"):
            raise KeyboardInterrupt
        run.save(folder)
    except PenstockError as error:
        return str(error).splitlines()[0]
    return None


def _here(points: list[Point], out: Path, force: bool) -> Iterator[tuple[Point, str | None]]:
    for point in points:
        yield point, _compute_and_save(point.toml, force, str(out / point.key))


def _processes(points: list[Point], out: Path, force: bool, workers: int) -> Iterator[tuple[Point, str | None]]:
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(min(workers, len(points)) or 1, get_context("spawn"), _ignore_ctrl_c)
    futures: dict[Future[str | None], Point] = {}
    try:
        for point in points:
            futures[pool.submit(_compute_and_save, point.toml, force, str(out / point.key))] = point
        for future in as_completed(futures):
            yield futures[future], _outcome(future)
    except BaseException:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)
        for partial in out.glob(".*.partial-*"):
            shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _outcome(future: Any) -> str | None:
    try:
        return future.result()
    except Exception as error:  # a crash of one point must not end the others
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _dask(points: list[Point], out: Path, force: bool, address: str) -> Iterator[tuple[Point, str | None]]:
    """Workers need penstock, not a common file system: results are returned over the network and saved here."""
    from distributed import Client, as_completed

    try:
        client = Client(f"tcp://{address}", timeout="10s")
    except (OSError, ValueError) as error:
        raise SpecError(f"--on dask://{address}: no scheduler answers there ({str(error).splitlines()[0]})") from error
    with client:
        futures = {client.submit(compute, point.toml, force, pure=False): point for point in points}
        try:
            for future in as_completed(list(futures)):
                point = futures.pop(future)
                problem = None
                try:
                    future.result().save(out / point.key)
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}".splitlines()[0]
                future.release()
                yield point, problem
        finally:
            client.cancel(list(futures))


def summarise(points: list[Point], out: Path) -> Any:
    """Write DIR/sweep.parquet: the varied values, the comparison's columns, the seed and the key of every finished run."""
    import polars as pl

    from penstock.report import tables
    from penstock.results.run import Run
    from penstock.results.rundir import is_run, write_file
    from penstock.results.sweep import FILE, KEY, SCHEME, SEED

    rows = []
    for point in points:
        if is_run(out / point.key):
            rows.append(
                {
                    **{k: _typed(v) for k, v in point.values.items()},
                    **tables.row(Run.load(out / point.key)),
                    SCHEME: point.scheme,
                    SEED: point.seed,
                    KEY: point.key,
                }
            )
    table = pl.DataFrame(rows, infer_schema_length=None, strict=False)
    if rows:
        import io

        content = io.BytesIO()
        table.write_parquet(content)
        write_file(out / FILE, content.getvalue())
    return table


def _typed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
