"""What is said of a site: of each switch its settings and what is wrong; as text, Markdown, JSON and files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from penstock_net.advise import repeat, what_ifs
from penstock_net.advise.checks import check
from penstock_net.advise.export import fragment, merged, rollback
from penstock_net.advise.finding import SEVERITIES, Finding
from penstock_net.advise.formulas import Parts
from penstock_net.advise.names import PLATFORMS
from penstock_net.advise.platform import ByHand
from penstock_net.advise.platform import platform as platform_named
from penstock_net.advise.screen import fitted, wrapped
from penstock_net.advise.settings import Advice, Class, Row, advise, assumed, remarks, rows, why_not
from penstock_net.advise.site import Switch, read_site
from penstock_net.advise.sonic import Config, Tables, own_platform, platform_of, ports_of, read_config, switch_of
from penstock_net.advise.what_ifs import WhatIfs
from penstock_net.errors import SpecError
from penstock_net.files import new_files, write_file
from penstock_net.units import format_size

PICTURE = "headroom.png"
COLOUR, ANY = re.compile("green|yellow|red"), "{colours}"
PARTS = ("cable", "response", "frames", "cells", "rounding")


@dataclass(frozen=True)
class Study:
    """A switch with its settings, if they can be said, and what is wrong.

    config    what it has now; None: a site.toml, which has nothing yet     note  why there are no settings; "": there are
    what_ifs  what was simulated of it; None: nothing
    """

    name: str
    advice: Advice | None
    findings: tuple[Finding, ...]
    config: Config | None = None
    note: str = ""
    what_ifs: WhatIfs | None = None

    @property
    def wrong(self) -> bool:
        """Whether there is an error among the findings."""
        return any(finding.severity == "error" for finding in self.findings)


def study(site: Path, platform: str | None = None, neighbours: tuple[Path, ...] = (), own: ByHand | None = None) -> list[Study]:
    """Of a site.toml, or of a config_db.json, whose platform and neighbours may be named; own: its platform by hand.

    SpecError: it is neither, or a platform is named and given by hand.
    """
    if own and platform:
        raise SpecError("is a platform by hand, and --platform names one", remedy="give one of the two", place="--response")
    if site.suffix != ".json":
        for option, given in (("--platform", platform), ("--neighbour", neighbours), ("--response", own)):
            if given:
                raise SpecError("is for a config_db.json", place=option, remedy="a site.toml names its platforms itself")
        return [_of_site(switch, site) for switch in read_site(site)]
    config = read_config(site)
    of = platform_named(platform) if platform else own_platform(config, own) if own else platform_of(config)
    findings = check(config, of, tuple(read_config(path) for path in neighbours))
    row = config.rows("DEVICE_METADATA").get("localhost", {})
    name = str(row.get("hostname", site.stem))[:64]
    if of is None:
        called = str(row.get("hwsku") or row.get("platform") or "")[:64]
        what = f'its platform, "{called}", is not known' if called else "no hwsku says what its platform is"
        note = f"{what}, so headroom is not judged: give --platform ({PLATFORMS} lists them), or --response and --cell"
        return [Study(name, None, tuple(findings), config, note)]
    switch = switch_of(config, of)
    if switch is None:
        return [Study(name, None, tuple(findings), config, "no port has PFC, a speed of whole Gbit/s and a length of cable")]
    try:
        advice = advise(switch)
    except SpecError as error:
        return [Study(name, None, tuple(findings), config, str(error))]
    found = replace(_of_switch(advice), name=name, config=config)
    return [replace(found, findings=tuple(findings) + found.findings)]


def _of_site(switch: Switch, site: Path) -> Study:
    try:
        return _of_switch(advise(switch))
    except SpecError as error:
        raise error.within(switch.name, site) from None


def _of_switch(advice: Advice) -> Study:
    lacks = why_not(advice)
    findings = (Finding("error", "buffer", advice.switch.name, lacks),) if lacks else ()
    return Study(advice.switch.name, advice, findings)


# ---- Text ----


def text(found: Study, settings: bool = True, width: int | None = None) -> Iterator[str]:
    """Lines for a terminal; settings: with these, not only what was simulated and the findings; width: of the terminal."""
    yield from wrapped(heading(found), width)
    if found.advice and settings:
        yield ""
        yield from fitted([headroom_head(), *(parts_of(one) for one in found.advice.classes)], 1, width)
        yield ""
        of = max(len(row.of) for row in rows(found.advice))
        for row in rows(found.advice):
            yield f"{row.setting:<16}  {row.of:<{of}}  {row.value}"
            yield from wrapped(f"{row.reason}; {short_source(row)}", width, " " * 18)
        yield ""
        for line in remarks(found.advice):
            yield from wrapped(line, width)
    if found.what_ifs:
        for what, results in simulated(found.what_ifs):
            yield from ("", f"{what_ifs.WHAT[what]}:")
            yield from fitted(what_ifs.table(results), len(results[0].case.varied), width)
            yield from wrapped(what_ifs.legend(what), width)
            if line := what_ifs.concluded(found.what_ifs, what):
                yield from wrapped(line, width)
        yield ""
        for line in notes(found.what_ifs):
            yield from wrapped(line, width)
    yield ""
    for line in findings_text(found):
        yield from wrapped(line, width)


def with_what_ifs(found: Study, made: WhatIfs) -> Study:
    """The study with what was simulated of it, and the ECN point that this says."""
    advice = found.advice
    if advice and made.choice and made.choice.changed:
        k_min, k_max, p_max = what_ifs.marks_of(made.choice.chosen)
        advice = replace(advice, k_min=k_min, k_max=k_max, p_max=p_max, simulated=what_ifs.said(made.choice))
    return replace(found, advice=advice, what_ifs=made)


def simulated(made: WhatIfs) -> list[tuple[str, list[what_ifs.Result]]]:
    return [(what, made.of(what)) for what in what_ifs.WHAT if made.of(what)]


def notes(made: WhatIfs) -> list[str]:
    """How a number is repeated, what is not there, and what is not simulated."""
    seeds = ",".join(map(str, made.seeds))
    how = f"means over seeds {seeds} with 95 % intervals" if len(made.seeds) > 1 else f"seed {seeds}"
    repeat = f"{how}; a row again: {made.command('FILE')}"
    return [repeat, *(f"left out: {why}" for why in made.left_out), *made.optimistic]


def short_source(row: Row) -> str:
    """The source of a setting without the folder of its table."""
    return re.sub(r": \S+/\S+", "", row.source)


def heading(found: Study) -> str:
    """The switch in a line."""
    if not found.advice:
        return f"{found.name}: {found.note}"
    switch = found.advice.switch
    asic = f" ({switch.platform.asic})" if switch.platform.asic else ""
    priorities = ", ".join(map(str, switch.lossless))
    shares = "headrooms share a pool" if switch.shares else "each headroom for itself"
    return f"{found.name}: {switch.platform.name}{asic}, {switch.count} ports with PFC, lossless {priorities}, {shares}"


def headroom_head() -> list[str]:
    return ["headroom, bytes", *PARTS, "xoff"]


def parts_of(one: Class) -> list[str]:
    parts: Parts | None = one.parts
    return [one.ports.text, *(f"{getattr(parts, key):.0f}" if parts else "-" for key in PARTS), str(one.xoff)]


def findings_text(found: Study) -> Iterator[str]:
    """How many findings there are, and each kind of them once."""
    numbers = {kind: sum(finding.severity == kind for finding in found.findings) for kind in SEVERITIES}
    counts = [f"{number} {kind}{'s' * (number != 1)}" for kind, number in numbers.items()]
    yield f"findings: {', '.join(counts)}" if found.findings else "no findings"
    for finding, places in grouped(found.findings):
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield f"{finding.severity}: {places[0]}{more}: {finding.text}" + (f"; {finding.remedy}" if finding.remedy else "")
    if found.config and found.config.unknown:
        yield f"not read, and left as they are: {', '.join(found.config.unknown)}"


def grouped(findings: tuple[Finding, ...]) -> list[tuple[Finding, list[str]]]:
    """Findings that differ in their places only, with these."""
    places: dict[Finding, list[str]] = {}
    for finding in findings:
        places.setdefault(replace(finding, place=""), []).append(finding.place)
    return list(places.items())


# ---- Files ----


def write(found: list[Study], out: Path, pictures: Callable[[Study], dict[str, bytes]]) -> list[Path]:
    """Write the reports and rows of all switches into a folder; of several, into a folder each.  SpecError: it cannot be.

    advice.json, report.md; what `pictures` makes, report.html and, if there are settings, headroom.png and one of each what-if;
    if the settings fit, config_db.json (rows to load), spec.toml and network.txt (its simulation); of a config_db.json also
    merged.json, all of it with these rows, and rollback.json, a patch back.
    """
    names: list[str] = []
    with new_files(out, "give another folder with --out") as folder:
        for one in found:
            prefix = f"{one.name}/" if len(found) > 1 else ""
            files = {name: content.encode() for name, content in contents(one).items()}
            files |= pictures(one)
            for name, content in files.items():
                names.append(prefix + name)
                write_file(folder / (prefix + name), content)
    return [out / name for name in names]


def contents(found: Study) -> dict[str, str]:
    """The files of a switch, by name."""
    out = {"advice.json": _json(as_json(found)), "report.md": "\n".join(markdown(found)) + "\n"}
    if found.advice and found.advice.fits:
        before = found.config or Config({})
        new = fragment(found.advice, before)
        out["config_db.json"] = Config(new).text()
        out |= repeat.files(found.advice)
        if found.config:
            out["rollback.json"] = _json(rollback(before, new))
            out["merged.json"] = merged(before, new).text()
    return out


def as_json(found: Study) -> dict[str, Any]:
    """All that is said of a switch, as JSON has it."""
    out: dict[str, Any] = {
        "name": found.name,
        "note": found.note,
        "findings": [asdict(finding) for finding in found.findings],
        "unread": found.config.unknown if found.config else [],
    }
    if found.advice:
        budget = asdict(found.advice.budget)
        classes = [{**asdict(one), "ports": asdict(one.ports)} for one in found.advice.classes]
        settings = [asdict(row) for row in rows(found.advice)]
        switch = found.advice.switch
        out |= {
            "platform": switch.platform.name,
            "assumes": assumed(switch),
            "budget": budget,
            "headroom": classes,
            "settings": settings,
        }
    if found.what_ifs:
        out["what_ifs"] = [_result(one) for one in found.what_ifs.results]
    return out


def _result(one: what_ifs.Result) -> dict[str, Any]:
    case = one.case
    numbers = {
        name: {"mean": _known(number.mean), "low": _known(number.low), "high": _known(number.high), "by_seed": one.values[name]}
        for name, number in one.numbers.items()
    }
    spec = f"specs/{case.name}.toml"
    return {"what_if": case.what, "varied": case.varied, "settings": case.settings, "spec": spec, "numbers": numbers}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def markdown(found: Study) -> Iterator[str]:
    """The report for those who decide about a change."""
    yield from (f"# {_cell(found.name)}", "", _cell(heading(found)), "")
    yield from ("## Findings", "")
    if found.findings:
        table = [["severity", "where", "what", "remedy"]]
        for finding, places in grouped(found.findings):
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            table.append([finding.severity, places[0] + more, finding.text, finding.remedy])
        yield from _table(table)
    else:
        yield "None."
    if found.config and found.config.unknown:
        yield from ("", f"Not read, and left as they are: {_cell(', '.join(found.config.unknown))}.")
    if not found.advice:
        return
    yield from ("", "## Headroom of a lossless priority", "")
    yield from _table([headroom_head(), *(parts_of(one) for one in found.advice.classes)])
    yield from ("", f"![By the length of the cable: dots are rows of the vendor's table, rings what is advised]({PICTURE})")
    yield from ("", "## Settings", "")
    yield from _table([["setting", "for", "value", "reason", "source"], *([*asdict(r).values()] for r in rows(found.advice))])
    budget = found.advice.budget
    yield from ("", "## Buffer", "")
    sums = [[what, f"{size} B", format_size(size)] for what, size in asdict(budget).items()]
    yield from _table([["", "bytes", ""], *sums])
    for line in remarks(found.advice):
        yield from ("", f"{line}.")
    if found.config and found.advice.fits:
        yield from ("", "## Before and after", "")
        cells = changes(found.config, fragment(found.advice, found.config))
        yield from _table(cells) if len(cells) > 1 else ["Nothing changes."]
    if found.what_ifs:
        yield from ("", "## What if", "")
        for what, results in simulated(found.what_ifs):
            yield from (f"### {_cell(what_ifs.WHAT[what].capitalize())}", "", f"![{what}]({what}.png)", "")
            yield from _table(what_ifs.table(results))
            yield from ("", f"{what_ifs.legend(what)}.")
            if line := what_ifs.concluded(found.what_ifs, what):
                yield from ("", f"{line}.")
            yield ""
        yield from (f"* {note}" for note in notes(found.what_ifs))


def changes(before: Config, new: Tables) -> list[list[str]]:
    """What the rows change, head and rows: ports with the same change are together, and so are colours of packets."""
    kinds: dict[tuple[str, str, str, str], list[str]] = {}
    colours: dict[tuple[str, str, str, str], list[str]] = {}
    ports = set(ports_of(before))
    for table, added in new.items():
        for key, row in added.items():
            old = before.rows(table).get(key, {})
            for name, value in row.items():
                if old.get(name) != value:
                    port = next((p for p in (key.split("|")[0], name) if p in ports), "")
                    colour = COLOUR.search(name)
                    what = f"{table} {name if port != name else key}" if port else f"{table}|{key} {COLOUR.sub(ANY, name)}"
                    kind = (what, str(old.get(name, "-")), value, port and "ports")
                    kinds.setdefault(kind, []).append(port)
                    colours.setdefault(kind, []).extend([colour[0]] if colour else [])
    cells = [["field", "before", "after", "ports"]]
    for kind, names in kinds.items():
        what, was, value, of = kind
        more = f" and {len(names) - 1} more" if of and len(names) > 1 else ""
        cells.append([what.replace(ANY, ", ".join(colours[kind])), was, value, names[0] + more if of else ""])
    return cells


def _table(cells: list[list[str]]) -> Iterator[str]:
    head, *body = [[_cell(cell) for cell in row] for row in cells]
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in body:
        yield f"| {' | '.join(row)} |"


def _cell(text: str) -> str:
    """A text that stays in its cell, and is not taken as HTML."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
