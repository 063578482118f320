"""One seam to the world: what the switch asks of it goes through `penstock_net.vswitch.world`, and nothing goes around it."""

import ast
import builtins
import subprocess
import sys
from pathlib import Path

import pytest

import penstock_net.vswitch
from penstock_net.vswitch import world
from penstock_net.vswitch.world.contract import ASKED, COMPUTED, Calls, asked

SWITCH = Path(penstock_net.vswitch.__file__).parent
SEAM = "penstock_net.vswitch.world"
FILES = [p for p in sorted(SWITCH.rglob("*.py")) if "world" not in p.relative_to(SWITCH).parts]
# Modules whose functions compute from their arguments alone.
COMPUTING = [
    "__future__",
    "abc",
    "argparse",
    "array",
    "bisect",
    "collections",
    "contextlib",
    "cython",
    "dataclasses",
    "enum",
    "errno",
    "functools",
    "heapq",
    "hashlib",
    "http",
    "ipaddress",
    "itertools",
    "json",
    "math",
    "numpy",
    "re",
    "rich",
    "stat",
    "statistics",
    "struct",
    "types",
    "typing",
]
# What goes around the seam, and why.  A row that is not needed any more is an error, so the list only shrinks.
DECLARED = {
    ("bench", "*"): "measures the real machine; no part of a running switch",
    ("simulation", "*"): "is around the switch, in a world that is simulated; no part of a running switch",
    ("__init__.py", "importlib"): "says whether the switch is built",
    ("attach/open.py", "importlib"): "kinds of port are found by listing their folder",
    ("attach/open.py", "pkgutil"): "the same",
    ("support/layouts.py", "read_text"): "reads the package's own sources",
    ("linux/scheduling.py", "platform"): "the machine's kind, which no world changes",
    ("linux/xdp_setup.py", "platform"): "the same",
    ("client/top.py", "matplotlib"): "a picture for the user of a client",
    ("daemon/doctor.py", "platform"): "which kernel this is: a question about the real one",
    ("daemon/doctor.py", "sys"): "the machine's kind, which no world changes",
    ("daemon/takeover.py", "sys"): "how this process was started",
    ("cni/plugin.py", "sys"): "a process of its own: one request from its input, one answer to its output",
    ("attach/lab.py", "signal"): "numbers of signals",
    **{
        (f"daemon/{name}.py", "logging"): "lines of the log; they are written through the seam (daemon/log.py)"
        for name in ("events", "keeper", "log", "operations", "ports", "server", "upgrade")
    },
}
OF_PATHS = [
    "chmod",
    "exists",
    "glob",
    "is_dir",
    "is_file",
    "is_socket",
    "is_symlink",
    "iterdir",
    "lstat",
    "mkdir",
    "read_bytes",
    "read_text",
    "rglob",
    "rmdir",
    "samefile",
    "stat",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
]


def name_of(path):
    return path.relative_to(SWITCH).as_posix()


def around(tree):
    """(line, what) of everything in a file that may ask the world without the seam."""
    through = set()  # names that are parts of the world
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == SEAM:
            through |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                if first != "penstock_net" and first not in COMPUTING:
                    yield node.lineno, first
        elif isinstance(node, ast.ImportFrom):
            first = (node.module or "").split(".")[0]
            if node.module == SEAM:
                for alias in node.names:
                    if alias.name not in ASKED:
                        yield node.lineno, f"{SEAM}.{alias.name}"
            elif first != "penstock_net" and first not in COMPUTING:
                yield node.lineno, first
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in ("open", "input", "exec", "eval", "compile", "__import__"):
                yield node.lineno, called.id
            of_a_path = isinstance(called, ast.Attribute) and called.attr in OF_PATHS and "pathlib" not in through
            if of_a_path and ast.unparse(called).split(".")[0] not in through:
                yield node.lineno, called.attr


def found_around():
    return {(name_of(path), what, line) for path in FILES for line, what in around(ast.parse(path.read_text()))}


def is_declared(name, what):
    return (name, what) in DECLARED or (name.split("/")[0], "*") in DECLARED


def test_nothing_goes_around_the_seam():
    strangers = sorted(f"{name}:{line}: {what}" for name, what, line in found_around() if not is_declared(name, what))
    assert not strangers, strangers


def test_the_declared_list_only_shrinks():
    found = found_around()
    needed = {(name, what) for name, what, _ in found} | {(name.split("/")[0], "*") for name, _, _ in found}
    assert DECLARED.keys() <= needed, DECLARED.keys() - needed


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from time import monotonic",
        "import random",
        "x = open('f')",
        "x.read_text()",
        "import asyncio.subprocess",
        f"from {SEAM} import chosen",
        "x = __import__('os')",
    ],
)
def test_what_goes_around_is_seen(line):
    assert list(around(ast.parse(line)))


def uses(tree):
    """(part, name, line, whether it is looked up when the module is imported) of what a file takes from the seam."""
    parts = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == SEAM:
            parts |= {alias.asname or alias.name: alias.name for alias in node.names}

    def walk(node, at_import):
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name) and child.value.id in parts:
                    yield parts[child.value.id], child.attr, child.lineno, at_import and field not in ("annotation", "returns")
                inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and field == "body"
                yield from walk(child, at_import and not inside and field not in ("annotation", "returns"))

    return list(walk(tree, True))


USES = [(name_of(path), *use) for path in FILES for use in uses(ast.parse(path.read_text()))]


def test_the_contract_is_what_is_asked():
    """Each name that is used is in the contract, and the contract has no others."""
    used = {(part, name) for _, part, name, _, _ in USES if not name.isupper() or name in asked(part)}
    listed = {(part, name) for part in ASKED for name in asked(part) | COMPUTED.get(part, frozenset())}
    assert used == listed, (used - listed, listed - used)


def test_no_module_keeps_the_world_in_which_it_was_imported():
    kept = [f"{file}:{line}: {part}.{name}" for file, part, name, line, early in USES if early and name in asked(part)]
    assert not kept, kept


def test_what_is_kept_at_import_is_seen():
    for text in ("clock = time.monotonic", "def f(now=time.time): pass", "class A:\n    x = time.time()"):
        (row,) = [row for row in uses(ast.parse(f"from {SEAM} import time\n{text}")) if row[1].startswith(("mono", "time"))]
        assert row[3], text
    assert not any(
        row[3] for row in uses(ast.parse(f"from {SEAM} import time\ndef f(x: time.time) -> time.time:\n    time.time()"))
    )


# ---- The compiled parts: their symbols ----

# The C library's functions that do not ask the kernel, or ask it for memory, which is the same in every world.
WITHOUT_KERNEL = set(
    [
        "__assert_fail",
        "__cmsg_nxthdr",
        "__ctype_b_loc",
        "__errno_location",
        "__memcpy_chk",
        "__stack_chk_fail",
        "abort",
        "calloc",
        "free",
        "fwrite",
        "htons",
        "log",
        "longjmp",
        "malloc",
        "memchr",
        "memcmp",
        "memcpy",
        "memmove",
        "memset",
        "realloc",
        "setjmp",
        "stderr",
        "strcmp",
        "strlen",
        "strrchr",
    ]
)
MEMORY = {
    "madvise": "huge pages",
    "mmap64": "memory",
    "munmap": "memory",
    "posix_memalign": "memory",
    "sysconf": "the size of a page",
    "fstat64": "the length of a guest's memory",
    "fstatfs64": "whether a guest's memory is one",
    "sigaction": "a guest that shortens its memory",
    "sched_yield": "the simulator's barrier between threads, which a switch does not use",
}


def symbols(path):
    said = subprocess.run(["nm", "-D", "--undefined-only", str(path)], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in said.splitlines() if " w " not in line}
    return {name for name in names if not name.startswith(("Py", "_Py", "__pyx", "__asan", "__ubsan"))}


def test_compiled_code_asks_through_the_table():
    """Of all compiled modules of the switch, one makes system calls: the table; some others ask for memory."""
    modules = sorted(SWITCH.rglob("*.so"))
    assert len(modules) > 40
    asks = {path.name.partition(".")[0]: symbols(path) - WITHOUT_KERNEL for path in modules}
    table = asks.pop("table")
    assert {"clock_gettime", "epoll_ctl", "readv", "write", "sendmmsg", "recvmmsg", "ioctl", "syscall"} <= table
    around = {name: found for name, names in asks.items() if (found := names - MEMORY.keys())}
    assert not around, around
    assert not MEMORY.keys() - set().union(*asks.values()), "a row that is not needed"


# ---- The choice of a world ----


class Other:
    """The kernel, but for the clock."""

    calls = None

    def part(self, name):
        if name != "time":
            return world.KERNEL.part(name)
        return type("Clock", (), {"monotonic": staticmethod(lambda: 7.0), "time": staticmethod(lambda: 8.0)})


def test_a_world_is_chosen_for_modules_that_are_imported_already():
    from penstock_net.vswitch.daemon.events import Events

    before = Events()
    assert world.chosen() is world.KERNEL
    world.use(Other())
    try:
        after = Events()
        after.add("up", None, "text")
        assert after.kept[0]["time"] == 8.0
        assert world.time.monotonic() == 7.0
    finally:
        world.use(world.KERNEL)
    before.add("up", None, "text")
    assert before.kept[0]["time"] != 8.0
    assert world.time.monotonic is __import__("time").monotonic


def test_only_what_the_contract_lists_is_there():
    for part, name in (("os", "system"), ("time", "perf_counter"), ("socket", "create_connection")):
        with pytest.raises(AttributeError, match=rf"{part}\.{name} is not part of the contract"):
            getattr(getattr(world, part), name)
    assert world.os.O_RDONLY == 0  # a constant of Linux


def test_the_kernel_has_all_of_it():
    for part in ASKED:
        for name in asked(part) | COMPUTED.get(part, frozenset()):
            assert getattr(getattr(world, part), name) is getattr(sys.modules[part], name)
    assert builtins.open is world.io.open


def test_the_seam_imports_only_what_is_taken():
    """The network plugin is a process for each call."""
    program = f"import sys; import {SEAM}; print([n for n in ('asyncio', 'ctypes', 'subprocess', 'socket') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_table_has_what_the_contract_lists():
    text = (SWITCH / "world/calls/table.py").read_text()
    methods = {name for name in vars(Calls) if not name.startswith("_")}
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "chosen"
    }
    assert called == methods
