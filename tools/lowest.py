"""The lowest versions that pyproject.toml allows, as constraints for pip: python tools/lowest.py > lowest.txt

Those of what a user installs (the dependencies, and the extras that run penstock); not of linters, tests and docs.
"""

import re
import tomllib
from pathlib import Path

EXTRAS = ("dask", "slurm", "kubernetes", "trace")


def lowest(project: dict) -> list[str]:
    """`name==version` for each requirement `name>=version`; an extra that names another extra of the project adds nothing."""
    wanted = [*project["dependencies"], *(each for extra in EXTRAS for each in project["optional-dependencies"][extra])]
    bounds = (re.fullmatch(r"([\w-]+)>=([\d.]+)", each) for each in wanted if not each.startswith(project["name"]))
    return sorted(f"{bound[1]}=={bound[2]}" for bound in bounds)


if __name__ == "__main__":
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    print("\n".join(lowest(tomllib.loads(pyproject.read_text())["project"])))
