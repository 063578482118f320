"""Every .py beside a .pxd becomes an extension module; schemes get their .pxd from what they declare; leaf helpers are inlined.

Generated files lie beside their sources and are not tracked (tools/generate.py).  Rebuild what has changed:

    python setup.py -q build_ext --inplace

The real switch (vswitch/) is built where Linux's headers are; PENSTOCK_VSWITCH=0 leaves it out, PENSTOCK_VSWITCH=1 insists.
PENSTOCK_CFLAGS replaces the compiler flags.  Checked build (index checks and sanitizers):
PENSTOCK_CFLAGS="-O1 -g1 -w -fno-wrapv -ffp-contract=off -DPENSTOCK_CHECK -fsanitize=address,undefined"
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

os.chdir(Path(__file__).parent)
sys.path.insert(0, "tools")
from generate import compiled_files, generate, without_switch  # noqa: E402
from outdated import Built, Contents, compilation, dependency_tree, translation  # noqa: E402

ROOT = Path("penstock_net")
HEADERS = sorted(ROOT.rglob("*.h"))
INCLUDE = [ROOT / "fabric", ROOT / "vswitch/memory", ROOT / "vswitch/dataplane"]
DIRECTIVES = {
    "infer_types": True,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "annotation_typing": False,
}
DEFAULT = "-O3 -ffp-contract=off -fno-math-errno -g0 -w"
# GCC's limits stop it from inlining functions of the event loop into their only caller because that one has many rare branches.
INLINING = "max-inline-insns-auto=80 inline-unit-growth=200 large-function-growth=500 large-unit-insns=50000"
EVENT_LOOP = " ".join([DEFAULT, *(f"--param={limit}" for limit in INLINING.split())])


def flags_of(path: Path) -> list[str]:
    """The compiler flags of a module."""
    hot = path.parts[1:2] in (("fabric",), ("sim",))
    return os.environ.get("PENSTOCK_CFLAGS", EVENT_LOOP if hot else DEFAULT).split()


class ParallelBuild(build_ext):
    """Cython, then the C compiler, on all cores; -j says otherwise.  Only what has changed is done again."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count() or 1

    def run(self) -> None:
        contents, built = Contents(), Built(ROOT, compiled_files(), HEADERS)
        folder = ROOT if self.inplace else Path(self.build_lib) / ROOT
        built.remove(folder)
        self.compile(contents)
        folder.mkdir(parents=True, exist_ok=True)
        built.write(folder)

    def compile(self, contents: Contents) -> None:
        self.translate(contents)
        if not self.inplace:
            super().run()
            return
        made = {Path(os.path.relpath(self.get_ext_fullpath(extension.name))): extension for extension in self.extensions}
        inputs = {path: compilation(extension) for path, extension in made.items()}
        outdated = set(inputs) if self.force else contents.outdated(inputs)
        self.extensions = [made[path] for path in sorted(outdated)]
        self.force = True  # by content, not by the times that setuptools compares
        contents.making({path: inputs[path] for path in outdated}, super().run)

    def translate(self, contents: Contents) -> None:
        """Let Cython write the C of every module whose inputs have changed; the extensions' sources are C then."""
        lines = "-g" in flags_of(ROOT)
        tree = dependency_tree()
        c_file = {extension.name: Path(extension.sources[0]).with_suffix(".c") for extension in self.extensions}
        inputs = {c_file[e.name]: translation(tree, e, (DIRECTIVES, lines)) for e in self.extensions}
        outdated = set(inputs) if self.force else contents.outdated(inputs)
        stale = [extension for extension in self.extensions if c_file[extension.name] in outdated]
        contents.making(
            {path: inputs[path] for path in outdated},
            lambda: cythonize(
                stale,
                language_level=3,
                compiler_directives=DIRECTIVES,
                nthreads=int(self.parallel),
                emit_linenums=lines,
                force=True,
                quiet=True,
            ),
        )
        for extension in self.extensions:
            extension.sources = [str(c_file[extension.name])]


def main() -> None:
    if reason := without_switch():
        print(f"without the real switch: {reason}", file=sys.stderr)
    generate()
    extensions = [
        Extension(
            ".".join(path.with_suffix("").parts),
            [str(path)],
            include_dirs=[str(folder) for folder in INCLUDE],
            extra_compile_args=flags_of(path),
            extra_link_args=flags_of(path),
            depends=[str(header) for header in HEADERS],
        )
        for path in compiled_files()
    ]
    setup(cmdclass={"build_ext": ParallelBuild}, ext_modules=extensions)


if __name__ == "__main__":
    main()
