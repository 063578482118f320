"""The rows of a long measurement in a JSON file, from which it can resume and documentation is written."""

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.files import write_file


class Record:
    """The rows of a measurement in a file, which is valid after every row; `settings` must be those of its start."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        self.rows: list[dict[str, Any]] = []
        if not path.exists():
            return
        try:
            found = json.loads(path.read_text())
            before, self.rows = found["settings"], found["rows"]
        except (OSError, ValueError, KeyError, TypeError):
            raise SpecError("is not a record of a measurement", remedy="give another file with --out", place=path) from None
        for key, value in settings.items():
            if before.get(key) != value:
                raise SpecError(
                    f"was begun with {before.get(key)}", path=key, value=value, remedy="give another file with --out", place=path
                )

    def has(self, **wanted: Any) -> bool:
        """Whether there is a row with these values."""
        return any(all(row.get(key) == value for key, value in wanted.items()) for row in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Add a row, with the load average at its end."""
        self.rows.append({**row, "load": round(os.getloadavg()[0], 2)})
        content = {"settings": self.settings, "machine": machine(), "rows": self.rows}
        write_file(self.path, json.dumps(content, indent=1).encode())


def machine() -> dict[str, Any]:
    """The processor and the kernel."""
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.+)", text)
    return {"processor": model[1] if model else platform.machine(), "cpus": os.cpu_count(), "kernel": platform.release()}


def about(rows: list[dict[str, Any]]) -> str:
    """A sentence about the machine that a table was measured on."""
    found, loads = machine(), sorted(row["load"] for row in rows)
    return (
        f"{found['processor']}, {found['cpus']} processors, Linux {found['kernel']}; load average during the runs: "
        f"median {loads[len(loads) // 2]:.1f}, highest {loads[-1]:.1f}."
    )


def write_between(page: Path, name: str, text: str) -> None:
    """Replace a page's text from `<!-- NAME: written by ... -->` to `<!-- end of NAME -->`.  SpecError: it has no such marks."""
    pattern = re.compile(rf"(<!-- {name}: written by [^\n]* -->\n).*?(<!-- end of {name} -->)", re.S)
    before = page.read_text()
    if not pattern.search(before):
        raise SpecError(f'has no marks "<!-- {name}: written by ... -->" and "<!-- end of {name} -->"', place=page)
    write_file(page, pattern.sub(lambda match: f"{match[1]}\n{text.strip()}\n\n{match[2]}", before).encode())
