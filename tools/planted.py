"""Plants mistakes in the switch, one at a time, and says after how many seeds the simulation finds each.

    python tools/planted.py                       # all of tools/planted.toml; half an hour and more
    python tools/planted.py credit "a ring"       # those with one of these texts in their names
    python tools/planted.py --write               # the rows go into docs/vswitch-mistakes.md

It works in a copy of the package, in a temporary folder: there it puts one mistake in, builds the modules concerned and runs
seeds in a process of its own, until one breaks a law, or the time is over (--seconds).  A process that dies, or whose run does
not come to an end, has found it as well.
"""

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE, PAGE = ROOT / "tools/planted.toml", ROOT / "docs/vswitch-mistakes.md"
PATCHES = ROOT / "tests/simulated"  # modules with mistakes that are put in without a build
COPIED = ("penstock_net", "tools", "build", "setup.py")
SECONDS, SEED_S = 60.0, 20.0  # of a processor: of the seeds for a mistake; of one seed, after which its run has no end
WAIT_S, MEMORY = 3600.0, 4 << 30  # for a process, however busy the machine is; bytes that it may have
NO_END = "the run does not end"
BEGIN, END = "<!-- rows: tools/planted.py -->\n", "<!-- end of rows -->\n"
HEADS = ("| fault | named in | where | found by | law |\n", "| mistake | where | found by | law |\n")
KINDS = ("one", "pair")
SAID = 110  # characters of a failure in a row


class Mistake(NamedTuple):
    """A text of a file, and what stands there if somebody errs; or, of `patch`, a module of PATCHES that replaces functions."""

    name: str
    part: str  # of the switch
    named: str = ""  # the document that names the fault; "": nobody had it
    run: str = "one"  # a switch, or a pair
    file: str = ""  # in penstock_net/vswitch
    before: str = ""
    after: str = ""
    patch: str = ""
    missed: str = ""  # why seeds do not find it, if they do not

    @property
    def path(self) -> Path:
        return Path("penstock_net/vswitch", self.file)

    @property
    def place(self) -> str:
        return self.file or self.patch + ".py"


class Row(NamedTuple):
    """What was found of a mistake."""

    mistake: Mistake
    seed: int | None  # by which it was found
    seeds: int  # that were run
    said: str  # by the law that did not hold, or of the end of the process
    seconds: float  # of a processor, without the build

    def __str__(self) -> str:
        return f"{self.mistake.name}: {self.found}; {self.said} ({self.seconds:.1f} s)"

    @property
    def found(self) -> str:
        return f"not in {self.seeds} seeds" if self.seed is None else f"seed {self.seed}"


def mistakes(path: Path = TABLE) -> list[Mistake]:
    """Those of a table.  SystemExit: one is not as it should be."""
    found = [Mistake(**row) for row in tomllib.loads(path.read_text())["mistake"]]
    if again := {each.name for each in found if sum(other.name == each.name for other in found) > 1}:
        raise SystemExit(f"error: {path.name}: several mistakes are called {', '.join(sorted(again))}: give each its own name")
    for each in found:
        if each.run not in KINDS or bool(each.file) == bool(each.patch) or not each.part:
            raise SystemExit(f"error: {each.name}: it needs a part, a run ({' or '.join(KINDS)}), and a file or a patch")
        if each.file:
            planted(each, (ROOT / each.path).read_text())
    return found


def planted(mistake: Mistake, text: str) -> str:
    """A file with the mistake in it.  SystemExit: what it replaces is not there once."""
    if (count := text.count(mistake.before)) != 1 or mistake.before == mistake.after:
        rule = f"its text is {count} times in {mistake.path}, and must be there once, with another `after`"
        raise SystemExit(f"error: {mistake.name}: {rule}")
    return text.replace(mistake.before, mistake.after)


# ---- The copy ----


class Copy(NamedTuple):
    """A package to put mistakes into, and what it is without one."""

    work: Path
    kept: Path


@contextlib.contextmanager
def copied() -> Iterator[Copy]:
    """A built copy of the package, which is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Copy(Path(folder, "work"), Path(folder, "kept"))
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy.work / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(ROOT / name, copy.work / name)
        build(copy)
        shutil.copytree(copy.work, copy.kept)
        sys.path.insert(0, str(copy.work))
        yield copy


def build(copy: Copy) -> None:
    """Build all that has changed.  SystemExit: something cannot be compiled."""
    done = _run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], copy, WAIT_S)
    if done.returncode:
        raise SystemExit(f"error: it cannot be built:\n{done.stdout[-3000:]}")


def build_one(copy: Copy, path: Path) -> None:
    """Build the module of a file, as setup.py does, without a look at all others.  SystemExit: it cannot be compiled."""
    from Cython.Build import cythonize
    from Cython.Compiler.Errors import CompileError
    from setuptools import Extension, setup

    with contextlib.chdir(copy.work):  # paths are relative to it
        made = __import__("setup")  # of the copy
        folders, flags, name = [str(folder) for folder in made.INCLUDE], made.flags_of(path), ".".join(path.with_suffix("").parts)
        module = Extension(name, [str(path)], folders, extra_compile_args=flags, extra_link_args=flags)
        options = {"language_level": 3, "compiler_directives": made.DIRECTIVES, "force": True, "quiet": True}
        try:
            setup(script_args=["-q", "build_ext", "--inplace", "--force"], ext_modules=cythonize([module], **options))
        except CompileError as error:
            raise SystemExit(f"error: {path} cannot be built: {error}") from None


@contextlib.contextmanager
def put_in(copy: Copy, mistake: Mistake) -> Iterator[None]:
    """The mistake is in the copy, and built; afterwards all files are what they were, and need no build."""
    if not mistake.file:
        yield
        return
    path = copy.work / mistake.path
    try:
        path.write_text(planted(mistake, path.read_text()))
        if path.suffix == ".pxd" or path.with_name(f"{path.stem}_inline.pxd").exists():
            build(copy)  # other modules have its functions in them
        elif path.with_suffix(".pxd").exists():
            build_one(copy, mistake.path)
        yield
    finally:
        _undo(copy)


def _undo(copy: Copy) -> None:
    """What a build has changed or made is as it was, with its times."""
    for part in ("penstock_net/vswitch", "build"):
        kept, work = (
            {path.relative_to(top) for path in (top / part).rglob("*") if path.is_file()} for top in (copy.kept, copy.work)
        )
        for name in work - kept:
            (copy.work / name).unlink()
        for name in kept:
            if name not in work or (copy.work / name).stat().st_mtime_ns != (copy.kept / name).stat().st_mtime_ns:
                shutil.copy2(copy.kept / name, copy.work / name)


# ---- Runs ----


def run(copy: Copy, mistake: Mistake, seconds: float) -> Row:
    """Seeds from 0 on, in a process of their own."""
    patch = [mistake.patch, mistake.name] if mistake.patch else []
    done = _run([sys.executable, "tools/planted.py", "--seeds", mistake.run, str(seconds), *patch], copy, WAIT_S)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    if not lines:
        raise SystemExit(f"error: {mistake.name}: no seed was run:\n{done.stdout[-3000:]}")
    seed, failure, took = lines[-1]
    if failure is None:  # the process has ended in this seed
        failure = NO_END if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else f"the process ends {_end(done.returncode)}"
    return Row(mistake, seed if failure else None, seed + 1, failure or "all laws have held", took)


def _end(code: int) -> str:
    return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with {code}"


def _run(command: list[str], copy: Copy, seconds: float) -> "subprocess.CompletedProcess[str]":
    """What it says is in `stdout`; it and all that it has started have ended then."""
    environment = {**os.environ, "PYTHONPATH": str(copy.work), "PYTHONDONTWRITEBYTECODE": "1", "PATCHES": str(PATCHES)}
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=copy.work, env=environment, start_new_session=True, **out)
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return subprocess.CompletedProcess(command, process.returncode, said)


def run_seeds(kind: str, seconds: float, patch: str = "", name: str = "") -> None:
    """Print a line for each seed before it is run, and one with its failure after it; up to the first that fails."""
    from penstock_net.vswitch.simulation.pair_run import simulate_pair
    from penstock_net.vswitch.simulation.run import simulate

    simulated: Callable[..., Any] = simulate_pair if kind == "pair" else simulate
    patched: Callable[[], Any] = contextlib.nullcontext
    if patch:
        sys.path.insert(0, os.environ["PATCHES"])
        module = __import__(patch)
        patched = next(table for table in vars(module).values() if isinstance(table, dict) and name in table)[name]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    begin, seed = time.process_time(), 0
    while (took := time.process_time() - begin) < seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + SEED_S), resource.RLIM_INFINITY))
        print(json.dumps([seed, None, took]), flush=True)
        with patched():
            failure = simulated(seed).failure
        print(json.dumps([seed, failure, time.process_time() - begin]), flush=True)
        if failure:
            break
        seed += 1


# ---- The page ----


def line_of(row: Row) -> str:
    """A line of the page."""
    mistake = row.mistake
    cells = [mistake.name, *([mistake.named] if mistake.named else []), f"`{mistake.place}`", row.found]
    said = short(row.said) if row.seed is not None else mistake.missed or row.said
    return f"| {' | '.join([*cells, said])} |\n"


def short(said: str) -> str:
    """A failure's text as it stands in a table: without what differs from seed to seed."""
    said = re.sub(r"\s+", " ", said.splitlines()[0] if said else "").replace("|", "/")
    return said if len(said) <= SAID else said[: SAID - 3].rstrip() + "..."


def rows_of_page(text: str) -> dict[str, str]:
    """Its lines, by the mistakes' names."""
    lines = text.partition(BEGIN)[2].partition(END)[0].splitlines(keepends=True)
    return {line[2:].partition(" | ")[0]: line for line in lines if line.startswith("| ") and not line.startswith(HEADS)}


def page(text: str, known: Sequence[Mistake], rows: Iterable[Row]) -> str:
    """The page with these rows; others are as they were, and those go whose mistakes are not in the table any more."""
    lines, found = rows_of_page(text) | {row.mistake.name: line_of(row) for row in rows}, ""
    for title, head, are_named in zip(("Faults that the switch had", "Other mistakes"), HEADS, (True, False)):
        those = [each for each in known if bool(each.named) == are_named]
        for part in sorted({each.part for each in those}):
            own = [lines[each.name] for each in those if each.part == part and each.name in lines]
            rule = "|---" * (head.count("|") - 1) + "|\n"
            found += f"\n## {title}: {part}\n\n{head}{rule}{''.join(own)}" if own else ""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{found}\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--seeds"]:
        run_seeds(arguments[1], float(arguments[2]), *arguments[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", help="of the names of mistakes")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="processor time for the seeds of a mistake")
    parser.add_argument("--write", action="store_true", help="put what is found into the page")
    options = parser.parse_args(arguments)
    known = mistakes()
    chosen = [each for each in known if not options.texts or any(text in each.name for text in options.texts)]
    with copied() as copy:
        for mistake in chosen:
            with put_in(copy, mistake):
                row = run(copy, mistake, options.seconds)
            print(row, flush=True)
            if options.write:
                PAGE.write_text(page(PAGE.read_text(), known, [row]))


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)  # so that nothing is left in the temporary folder
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say of SIGINT: not all mistakes were tried
