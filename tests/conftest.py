"""For all tests: which kind each is of, what is tried again, and what takes long.

A *computed* test has its result from the code alone: laws, schemes, transcriptions, files. It is never tried again, since one
that fails once is a defect. It may start no process or thread and open no socket, and its file reads no clock. Tests that
drive a switch turn by turn are among them: they, and the switch, have a clock of their own (vswitch/turn_by_turn.py).

A *real-time* test starts a process or a thread, opens a socket, a device or a namespace, waits for somebody else, reads a clock
or /proc, or runs a foreign program. It has a generous end, runs after the computed ones (`./test`), and is tried up to three
times, the last time by `./test` in a process of its own. What passed only then is listed at the end. What a count has proven
wrong (vswitch/proven.py) and a crash fail at once.

Hypothesis: how long an example takes is no reason to fail; the same examples every time, others with PENSTOCK_EXAMPLES
(drawn.py: how many).
"""

import os
import signal
import sys
import types
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import kinds
import polars  # noqa: F401  (its import sets an environment variable, which no file of tests leaves behind)
import pytest
from drawn import number
from hypothesis import HealthCheck, settings

from penstock_net.built import check_built
from penstock_net.errors import SpecError

HERE = Path(__file__).parent
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # as every command does

settings.register_profile(
    "any machine",
    max_examples=number(100),
    deadline=None,
    derandomize="PENSTOCK_EXAMPLES" not in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("any machine")

# ---- The two kinds ----

# What a test of real time begins with, on the generous side: folders, files and tests. Those of vswitch/: vswitch/kinds.txt.
REAL_TIME = (
    "packages/",
    "docs/test_pages.py::test_every_block_runs",  # some start switches and programs
    "docs/test_site.py",
    "laws/test_goldens.py::test_the_core_has_no_arithmetic",
    "laws/test_goldens.py::test_the_same_on_an_older_cpu",
    "laws/test_growth.py::test_the_core_costs_in_proportion",
    "laws/test_interrupt.py",
    "laws/test_resumed.py::test_killed_at_any_time",
    "papers/test_backdraft_figures.py::test_tcp_of_the_kernel_meets_loss",
    "papers/test_command.py",
    "papers/test_confirm.py",
    "papers/test_framework.py::test_a_run_that_fails_in_a_worker_is_reported_as_without_workers",
    "papers/test_framework.py::test_workers_simulate_what_the_cache_lacks",
    "papers/test_records.py",
    "schemes/test_conformance.py",  # `penstock check` ends a run that does not come to its end
    "schemes/test_faults.py",
    "schemes/test_mutations.py",
    "simulated/test_planted.py::test_a_mistake_is_put_in_found_and_undone",
    "simulated/test_simulation.py::test_many_seeds_are_run_by_several_processes",
    "unit/test_advise_yang.py",  # yanglint is a process
    "unit/test_bad_inputs.py::test_files_without_end",
    "unit/test_bench.py",
    "unit/test_cli.py",
    "unit/test_dask.py",
    "unit/test_digests.py",
    "unit/test_files.py",
    "unit/test_identity.py",
    "unit/test_lasting.py",
    "unit/test_man.py",
    "unit/test_notebook.py::test_the_example",  # a kernel is a process
    "unit/test_release.py",
    "unit/test_report_browser.py",
    "unit/test_run_directory.py::test_the_wall_time_begins_after_compiling",
    "unit/test_start.py",
    "unit/test_style.py",
    "unit/test_sweep_from_python.py::test_processes_of_a_script_that_is_not_guarded",
    "unit/test_tampered.py",
    "unit/test_trace.py",
)
# Programs that a computed test may start, since what they answer depends on their input alone.
PROGRAMS = {
    "gcc": "compiles a user's scheme",
    "uname": "Python's platform asks it once",
    "fc-list": "matplotlib asks it once for the fonts of the system",
    "system_profiler": "the same on macOS",
}
# Computed tests that may start Python in an interpreter of its own: the core as plain Python, or without some of its files, or
# another order of sets.
OWN_INTERPRETER = (
    "laws/test_acknowledged.py::test_the_interpreted_core_agrees",
    "laws/test_connections.py::test_the_interpreted_core_agrees",
    "laws/test_in_network.py::test_the_interpreted_core_agrees",
    "laws/test_llr.py::test_plan_a_hundred_in_a_row",
    "schemes/test_host_hooks.py::test_interpreted_equals_compiled",
    "simulated/test_simulation.py::test_a_seed_is_the_same_bits",
    "simulated/test_simulation.py::test_a_process_ends_in_silence",
    "schemes/test_pfabric.py::test_arrivals_may_be_counted",
    "unit/test_arithmetic.py",
    "unit/test_core_equality.py",
    "unit/test_deadlock.py::test_the_interpreted_core_finds_the_same",
)
# Files whose threads decide nothing: they compute a part of a run each, whose bits do not depend on how many there are
# (laws/test_same_bits.py), or say that the fonts take long.
HARMLESS = (os.path.join("penstock_net", "sim", "simulate.py"), os.path.join("matplotlib", "font_manager.py"))
POOL = os.path.join("concurrent", "futures", "thread.py")  # starts threads for others
TRANSLATOR = str(HERE / "schemes/conftest.py")  # forks: Cython can use what it has read only once
END_S = 900  # of each try
PROVEN = ("Wrong: ", "LeftBehind: ")  # exceptions that are never tried again
ONLY_REAL_TIME = 10  # exit status: what failed are tests of real time that may be tried again
STARTS = {
    "subprocess.Popen",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.system",
    "_thread.start_new_thread",  # from Python 3.12 on
    "_thread.start_joinable_thread",  # from Python 3.13 on
    "socket.__new__",
}


KINDS = kinds.read()  # of the tests of vswitch/


def is_real_time(item: pytest.Item) -> bool:
    """Of vswitch/: of which no line says anything else."""
    if place(item).startswith(kinds.FOLDER):
        return not kinds.is_computed(item, KINDS)
    return place(item).startswith(REAL_TIME)


@pytest.fixture(autouse=True)
def turn_by_turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """The world of tests that drive a switch turn by turn."""
    if not place(request.node).startswith(kinds.FOLDER) or kinds.kind_of(request.node, KINDS) != kinds.TURNS:
        yield
        return
    from turn_by_turn import used

    with used():
        yield


def place(item: pytest.Item) -> str:
    """FILE::TEST, without parameters."""
    return f"{item.path.relative_to(HERE).as_posix()}::{getattr(item, 'originalname', item.name)}"


class NotComputed(BaseException):
    """A test of the code alone has reached for the machine: it is one of real time, or wrong."""


class Guard:
    """While a computed test runs, what would make it one of real time fails."""

    def __init__(self) -> None:
        self.test, self.programs = "", set(PROGRAMS)
        sys.addaudithook(self.heard)

    @contextmanager
    def watching(self, item: pytest.Item) -> Iterator[None]:
        self.test = "" if item.get_closest_marker("real_time") else item.nodeid
        self.programs = {*PROGRAMS, Path(sys.executable).name} if place(item).startswith(OWN_INTERPRETER) else set(PROGRAMS)
        try:
            yield
        finally:
            self.test = ""

    def heard(self, event: str, arguments: tuple) -> None:
        if event not in STARTS or not self.test:
            return
        if event in ("subprocess.Popen", "os.posix_spawn") and Path(os.fsdecode(arguments[0])).name in self.programs:
            return  # Python 3.13 has both for one program
        if event.startswith("_thread.start_") and starter(sys._getframe(2)).endswith(HARMLESS):
            return
        if event == "os.fork" and sys._getframe(1).f_code.co_filename == TRANSLATOR:
            return
        raise NotComputed(f"{self.test}: {event}{arguments[:1]}: a test of real time? See tests/conftest.py")


def starter(frame: types.FrameType | None) -> str:
    """The file that starts a thread, itself or by a pool of threads; the frame is that of who has called `Thread.start`."""
    while frame and frame.f_code.co_filename.endswith(POOL):
        frame = frame.f_back
    return frame.f_code.co_filename if frame else ""


GUARD = Guard()


def reads_a_clock(module: types.ModuleType) -> bool:
    """Whether a test's file imports `time`, or a function of it."""
    return any(getattr(value, "__module__", getattr(value, "__name__", "")) == "time" for value in vars(module).values())


class LeftBehind(Exception):
    """A file of tests has left its process in another state than it found it: tests that come after it would be other tests."""


def process_state() -> dict[str, object]:
    """What all tests of a process share."""
    environment = {f"environment: {name}": value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    handlers = {f"handler of {number.name}": signal.getsignal(number) for number in signal.Signals}
    return {**environment, **handlers, "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()), "folder": os.getcwd()}


FOUND: dict[types.ModuleType, dict[str, object]] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.module not in FOUND:
        FOUND.clear()
        FOUND[item.module] = process_state()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if nextitem is None or nextitem.module is not item.module:
        before, after = FOUND.pop(item.module, {}), process_state()
        changed = [name for name in before | after if before.get(name) != after.get(name)]
        if changed:
            found = "; ".join(f"{name}: {before.get(name)!r} was {after.get(name)!r} afterwards" for name in changed)
            raise LeftBehind(f"{item.path.name}: {found}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with GUARD.watching(item):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """What is compiled must be the code that is tested. A test in which the interpreter ends is not tried again."""
    try:
        check_built()
    except SpecError as error:
        raise pytest.UsageError(str(error)) from None
    if hasattr(config, "failures_db"):  # of pytest-rerunfailures: how many more times that may happen
        config.failures_db.set_test_reruns = lambda test, reruns: None


FAILED: list[bool] = []  # of each failure, whether it may be tried again


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)  # of an exception; none if the interpreter ended
        kind = crash.message.partition(" ")[0].rpartition(".")[2] + " " if crash else PROVEN[0]
        FAILED.append("real_time" in report.keywords and not kind.startswith(PROVEN))


def pytest_sessionfinish(session: pytest.Session) -> None:
    failed = session.exitstatus == pytest.ExitCode.TESTS_FAILED and not hasattr(session.config, "workerinput")
    if failed and FAILED and all(FAILED):
        session.exitstatus = ONLY_REAL_TIME


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    again = {report.nodeid for report in terminalreporter.stats.get("rerun", [])}
    passed = {report.nodeid for report in terminalreporter.stats.get("passed", []) if report.when == "call"}
    for test in sorted(passed if terminalreporter.config.getoption("lf", False) else again & passed):
        terminalreporter.write_line(f"passed when tried again: {test}")


# ---- What takes long ----

SLOW = set((HERE / "slow.txt").read_text().splitlines())  # written by tools/durations.py


def read_thorough() -> dict[str, str]:
    """thorough.txt: files, tests or cases, and which of them are kept in ./test."""
    lines = (line.partition(" keep ") for line in (HERE / "thorough.txt").read_text().splitlines() if line and line[0] != "#")
    return {what: kept for what, _, kept in lines}


THOROUGH = read_thorough()


def thorough_cases(cases: list[pytest.Item], failed: bool) -> list[pytest.Item]:
    """Of the cases of a test those that are not needed for every change.

    failed: these may be only those that have failed, of which each is tried again
    """
    file = place(cases[0]).partition("::")[0]
    if file in THOROUGH or THOROUGH.get(place(cases[0])) == "":
        return cases
    kept = THOROUGH.get(place(cases[0]))
    if not kept:
        return [item for item in cases if f"{file}::{item.name}" in THOROUGH]
    if kept.startswith("every "):
        if failed:
            return []
        some = spread(cases, -(-len(cases) // int(kept.split()[1])))
        return [item for item in cases if item not in some]
    return [item for item in cases if item.name.partition("[")[2].removesuffix("]") not in kept.split(", ")]


def spread(cases: list[pytest.Item], count: int) -> list[pytest.Item]:
    """So many of the cases, among which are as many values of each parameter as can be; of equally good ones the first."""
    values = {item: {(name, repr(value)) for name, value in item.callspec.params.items()} for item in cases}  # type: ignore[attr-defined]
    seen: set[tuple[str, str]] = set()
    chosen: list[pytest.Item] = []
    for _ in range(count):
        best = max((item for item in cases if item not in chosen), key=lambda item: len(values[item] - seen))
        chosen.append(best)
        seen |= values[best]
    return chosen


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reverse", action="store_true", help="the tests of each file in reverse order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if is_real_time(item):
            item.add_marker(pytest.mark.real_time)
            item.add_marker(pytest.mark.timeout(END_S, func_only=True))
            if not config.getoption("lf", False):
                item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=1, rerun_except=[f"^{name}" for name in PROVEN]))
        elif item.get_closest_marker("real_time"):
            raise pytest.UsageError(f"{place(item)} is of real time, and REAL_TIME in tests/conftest.py does not say so")
        elif reads_a_clock(item.module) and not place(item).startswith(
            kinds.FOLDER
        ):  # there it is another clock: vswitch/turn_by_turn.py
            raise pytest.UsageError(f"{place(item)} is computed, and its file imports `time`: see tests/conftest.py")
        if f"tests/{place(item)}" in SLOW:
            item.add_marker(pytest.mark.slow)
        if not item.get_closest_marker("thorough"):
            cases[place(item)].append(item)
    for of_test in cases.values():
        for item in thorough_cases(of_test, bool(config.getoption("lf", False))):
            item.add_marker(pytest.mark.thorough)
    if config.getoption("reverse"):
        files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
        items[:] = [item for tests in files for item in reversed(tests)]


# ---- What this installation has ----


def has_switch() -> bool:
    """Whether this installation has the real switch."""
    try:
        return find_spec("penstock_net.vswitch.memory") is not None
    except ImportError:
        return False


def pytest_report_header() -> list[str]:
    return [] if has_switch() else ["the real switch is not built here: its tests are left out"]


def may_be_chosen(file: str, expression: str) -> bool:
    """Whether `-m` may choose tests of a file, as far as that can be said before it is imported; of the form `a and not b` only,
    as in ./test."""
    words = set(expression.split(" and "))
    if file.startswith(kinds.FOLDER):
        all_real_time, some_real_time = kinds.may_be(file, KINDS)
    else:
        all_real_time = file.startswith(tuple(each for each in REAL_TIME if "::" not in each))
        some_real_time = file.startswith(tuple(each.partition("::")[0] for each in REAL_TIME))
    return not (
        ("not real_time" in words and all_real_time)
        or ("real_time" in words and not some_real_time)
        or ("not thorough" in words and THOROUGH.get(file) == "")
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path in (HERE / "vswitch", HERE / "simulated") and not has_switch():
        return True
    if collection_path.suffix == ".py" and HERE in collection_path.parents:
        file = collection_path.relative_to(HERE).as_posix()
        return None if may_be_chosen(file, config.getoption("markexpr").strip()) else True
    return None
