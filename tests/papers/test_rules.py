"""The rules of verdicts: bands that can fail, differences that are predicted, one variant of a scheme for a paper."""

import importlib
import re
from collections import Counter
from pathlib import Path

from penstock_net.composition import available, parse
from penstock_papers import EXPERIMENTS, records
from penstock_papers.beyond import which_scheme
from penstock_papers.changes import changes, changes_of
from penstock_papers.claims import CALIBRATED, DIFFERS, OPEN, OURS, PASS
from penstock_papers.floodgate import _setup as floodgate
from penstock_papers.hpcc import _fabric as hpcc

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "penstock_papers"
# This list may only become shorter.
UNPREDICTED: set[str] = set()
# Where a figure's [[scheme]] tables are not the paper's (VARIANTS and COMMON): "figure scheme setting: the reason".
SETTINGS = dict(line.split(": ", 1) for line in (Path(__file__).parent / "data/settings.txt").read_text().splitlines())


def pfc(table):
    """Its keys as those of a scheme with it."""
    return {f"pfc.{key}": value for key, value in table.items()}


# Records of fewer seeds than their figure has now: they are to be made again. This list may only become shorter.
FEWER = dict.fromkeys(["bfc/abstract", *(f"bfc/fig{number}" for number in range(10, 14))], 3)
COMMON = {  # what all tables of a paper have
    "backdraft": {},
    "bfc": {},
    "floodgate": {"window": True, **pfc(floodgate.PFC)},
    "hpcc": pfc(hpcc.PFC),
}


def rows():
    """(figure, row) of all tables of claims."""
    return [(id, row) for id in EXPERIMENTS for row in importlib.import_module(f"penstock_papers.{id.replace('/', '.')}").CLAIMS]


def test_every_row_can_fail_and_says_why_its_band_is_as_it_is():
    assert len(rows()) > 1000
    for id, row in rows():
        assert row.why and row.claim and (row.paper or row.kind == OURS), f"{id} {row.id}"
        assert row.low is None or row.high is None or row.low <= row.high, f"{id} {row.id}"


def test_every_known_difference_predicts_our_number():
    entries = {f"{id} {claim}": entry for id in EXPERIMENTS for claim, entry in EXPERIMENTS[id].differs.items()}
    assert {name for name, entry in entries.items() if entry.expected is None} == UNPREDICTED
    for name, entry in entries.items():
        low, high = entry.expected or (0, 0)
        assert low <= high, name
        assert set(entry.scales) <= set(EXPERIMENTS[name.split()[0]].scales), name


def recorded():
    """(figure, scale, record) of the repository's records."""
    kept = records.load()
    return [(id, scale, record) for id, found in kept.items() for scale, record in found.items()]


def holds_at(claim, value):
    """Whether a number lies in a recorded claim's band; None: the band is none of numbers."""
    low, high = claim["low"], claim["high"]
    return None if low is None is high else (low is None or value >= low) and (high is None or value <= high)


def test_the_bounds_of_a_known_difference_are_narrow_and_clear_of_the_band():
    for id, scale, record in recorded():
        known = {name: entry for name, entry in EXPERIMENTS[id].differs.items() if scale in entry.scales}
        assert set(known) <= set(record["claims"]), f"{id} {scale}: entries of claims that it has not"
        for name in set(known) & set(record["claims"]):
            claim, bounds = record["claims"][name], known[name].expected
            least, most = bounds
            assert known[name].width or 0 < least <= most <= 2 * least or least == most, f"{id} {name}: {bounds} need a width"
            ends = [claim[end] for end in ("low", "high") if claim[end] is not None]
            apart = not any(least <= end <= most for end in ends) and not holds_at(claim, least)
            assert apart, f"{id} {name}: {bounds} reach the band {claim['band']}"


def test_every_recorded_verdict_follows_from_its_number():
    for id, scale, record in recorded():
        for kind, counted in (("paper", record["verdicts"]), ("ours", record["ours"])):
            assert Counter(claim["verdict"] for claim in record["claims"].values() if claim["kind"] == kind) == counted, id
        for name, claim in record["claims"].items():
            where, verdict, value = f"{id} {scale} {name}", claim["verdict"], claim["value"]
            inside = None if value is None else holds_at(claim, value)
            if inside is not None and verdict != OPEN:  # which the interval decides, not the mean
                assert inside == (verdict in (PASS, CALIBRATED)), where
            if verdict == DIFFERS:
                least, most = record["differs"][name]["expected"]
                assert least <= value <= most, where


def test_a_record_has_the_seeds_of_its_figure_and_the_commit_of_its_sources():
    for id, scale, record in recorded():
        seeds = EXPERIMENTS[id].seeds.get(scale, 1)
        wanted = FEWER.get(id, seeds)
        assert wanted < seeds or id not in FEWER, f"{id}: delete it from the list"
        assert record["seeds"] == list(range(1, 1 + wanted)), f"{id} {scale}: not chosen, and as many as the figure has"
        assert re.fullmatch("[0-9a-f]{40}", record["commit"]), f"{id} {scale}: sources that differ from their commit"


def test_a_number_and_a_sentence_of_the_paper_have_one_band():
    for id, scale, record in recorded():
        bands = {}
        for name, claim in record["claims"].items():
            if claim["kind"] == "paper" and claim["value"] not in (None, 0, 1):
                bands.setdefault((claim["paper"], claim["value"]), {})[claim["band"]] = name
        assert not [found for found in bands.values() if len(found) > 1], f"{id} {scale}: the weaker one is (ours)"


def test_the_log_of_changes_is_of_figures_that_exist_and_in_order():
    assert {id for change in changes() for id in change.figures} <= set(EXPERIMENTS)
    assert [change.date for change in changes()] == sorted(change.date for change in changes())
    assert all(change.what and change.why and change.before and change.after for change in changes())
    assert len(changes_of("floodgate/fig06")) >= 2 and changes_of("backdraft/memory") == []


def test_what_is_missing_is_missing():
    for paper in {id.split("/")[0] for id in EXPERIMENTS}:
        absent = getattr(importlib.import_module(f"penstock_papers.{paper}"), "MISSING", {})
        assert not {f"{paper}/{name}" for name in absent} & set(EXPERIMENTS)


def test_no_recorded_claim_passes_that_is_said_to_differ():
    for id, scale, record in recorded():
        for claim, found in record.get("claims", {}).items():
            known = EXPERIMENTS[id].differs.get(claim)
            assert not known or scale not in known.scales or found["verdict"] != PASS, f"{id} {claim}"


def settings(table, scheme):
    """What a [[scheme]] table sets for one of its schemes, and for those that come with it: {"assignment": "rotating"}."""
    names = [part.split(":")[0] for part in table["name"].split("+")]
    found = {}
    for key, value in table.items():
        if not isinstance(value, dict):
            found |= {key: value} if len(names) == 1 and key not in ("name", "label") else {}
        elif key == scheme:
            found |= value
        elif key not in names:
            found |= {f"{key}.{inner}": setting for inner, setting in value.items()}
    return found


def tables(id):
    """(scheme, settings with the name of its variant) of every table of a figure, for each scheme of the table."""
    for spec in EXPERIMENTS[id].specs("paper").values():
        for table in spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]:
            for part in table["name"].split("+"):
                scheme = part.split(":")[0]
                yield scheme, {"name": part, **settings(table, scheme)}


def compared(id, chosen, common):
    """The settings by which tables of a figure differ from the paper's, as "scheme setting"; those that not all tables have."""
    away, beside = set(), set()
    for scheme, has in tables(id):
        variant = chosen.get(scheme)
        if variant is None:  # the paper has chosen none: the figure has one
            others = {other["name"] for each, other in tables(id) if each == scheme}
            away |= {f"{scheme} name"} if len(others) > 1 else set()
            continue
        variant = {"name": variant} if isinstance(variant, str) else variant
        wanted = variant | common
        differing = {key for key in has if has[key] != wanted.get(key)} | (set(variant) - set(has))
        away |= {f"{scheme} {key}" for key in differing}
        beside |= {(scheme, *sorted(differing))}
    return away, {
        each for each in away if any(scheme == each.split()[0] and each.split()[1] not in rest for scheme, *rest in beside)
    }


def test_a_paper_s_figures_show_one_variant_of_a_scheme():
    """Whole tables are compared: what a figure sets otherwise is in the list, with the reason, which the figure's text has."""
    found = set()
    for id in (id for id in EXPERIMENTS if EXPERIMENTS[id].specs):
        paper = id.split("/")[0]
        module = importlib.import_module(f"penstock_papers.{paper}")
        chosen = getattr(module, "VARIANTS", {}) | getattr(module, "IMPLEMENTED", {}).get(id.split("/")[1], {})
        if not chosen:
            continue
        assert module.VARIANTS_REASON
        away, beside = compared(id, chosen, COMMON[paper])
        found |= {f"{id} {setting}" for setting in away}
        alone = {f"{id} {setting}" for setting in away - beside}
        assert not [each for each in alone if SETTINGS.get(each, "").startswith("(ours)")], "ours are beside the paper's"
    assert sorted(found - set(SETTINGS)) == [], "settings that are not the paper's variant: give the reason in the list"
    assert sorted(set(SETTINGS) - found) == [], "delete these from the list"


def test_another_variant_in_a_table_is_seen():
    chosen, common = {"bfc": {"name": "bfc", "assignment": "rotating"}}, {}
    away, beside = compared("bfc/fig07", chosen, common)
    assert away == {"bfc assignment", "bfc queues", "bfc th_bytes"} and beside == {"bfc assignment"}
    assert compared("bfc/fig11", {"bfc": "bfc"}, common)[0] == {"bfc assignment", "bfc if_full"}
    assert compared("floodgate/fig20", {}, common)[0] == {"bfc name"}


def test_the_map_has_every_scheme_or_says_why_not():
    parts = {part for scheme in which_scheme.SCHEMES for part in parse(scheme.table["name"]).parts}
    assert parts | set(which_scheme.ABSENT) == set(available()) and not parts & set(which_scheme.ABSENT)
