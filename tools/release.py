"""What must be true of a clone before a version is tagged and published: python tools/release.py v0.1.0

Prints what is not, and exits with 1 then.  docs/maintaining.md has the steps of a release.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps the version from being released under this tag."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    version = project["version"]
    cited = dict(re.findall(r"^([\w-]+): (.*)$", (root / "CITATION.cff").read_text(), re.M))
    changes = re.search(rf"^## {re.escape(version)} \((.*)\)$", (root / "CHANGELOG.md").read_text(), re.M)
    date = changes[1] if changes else "missing"
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, but pyproject.toml has version {version}: the tag must be v{version}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        found.append(f"CHANGELOG.md: the heading of {version} must end with the day of the release, (YYYY-MM-DD), not ({date})")
    if cited.get("version") != version:
        found.append(f"CITATION.cff: version is {cited.get('version')}, must be {version}")
    if cited.get("date-released") != date:
        found.append(f"CITATION.cff: date-released is {cited.get('date-released')}, must be that of CHANGELOG.md, {date}")
    for name, address in project["urls"].items():
        if "example.org" in address:
            found.append(f"pyproject.toml: {name} = {address} is a placeholder; put the address of the repository there")
    return found


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    found = problems(arguments[0])
    print("\n".join(found) or f"{arguments[0]} can be tagged")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
