"""The rules of verdicts: bands that can fail, differences that are predicted, one variant of a scheme for a paper."""

import ast
import importlib
from pathlib import Path

from penstock.experiments import EXPERIMENTS, records
from penstock.experiments.changes import changes, changes_of
from penstock.experiments.claims import PASS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "penstock/experiments"
# These lists may only become shorter: a claim that has its band or its reason is deleted from them.
ONE_SIDED = set((Path(__file__).parent / "data/one_sided_bands.txt").read_text().split("\n")[:-1])
UNPREDICTED: set[str] = set()
# Figures that show a scheme, but not in the variant of their paper.
OTHER_VARIANT = {
    "floodgate/fig16 floodgate",
}
# Orders and conditions of several numbers: they hold or do not, without a number that could be predicted.
CONDITIONS = {
    "floodgate/fig15 floodgate-tor-up",
    "floodgate/fig15 320-floodgate-tor-up",
}


def bands():
    """(figure's file, id, whether both ends are given, whether the band has a reason) of every call of within()."""
    for path in sorted(FOLDER.glob("*/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "within":
                given = dict(zip(("id", "claim", "paper", "ours", "low", "high"), node.args))
                given |= {keyword.arg: keyword.value for keyword in node.keywords}
                closed = [end for end in ("low", "high") if end in given and ast.unparse(given[end]) != "None"]
                name = ast.unparse(given["id"]).removeprefix("f").strip("'\"")
                yield f"{path.parent.name}/{path.stem} {name}", len(closed) == 2, "why" in given


def test_a_band_has_two_ends_or_says_why_one_is_open():
    open_ended = {name for name, two_sided, has_reason in bands() if not two_sided and not has_reason}
    assert sorted(open_ended - ONE_SIDED) == [], "give both ends, or why= for the open one"
    assert sorted(ONE_SIDED - open_ended) == [], "delete these from the list"


def test_every_known_difference_predicts_our_number():
    entries = {f"{id} {claim}": entry for id in EXPERIMENTS for claim, entry in EXPERIMENTS[id].differs.items()}
    assert {name for name, entry in entries.items() if entry.expected is None} - CONDITIONS == UNPREDICTED
    assert set(entries) >= CONDITIONS
    for name, entry in entries.items():
        low, high = entry.expected or (0, 0)
        assert low <= high, name
        assert set(entry.scales) <= set(EXPERIMENTS[name.split()[0]].scales), name


def test_the_log_of_changes_is_of_figures_that_exist_and_in_order():
    assert {id for change in changes() for id in change.figures} <= set(EXPERIMENTS)
    assert [change.date for change in changes()] == sorted(change.date for change in changes())
    assert all(change.what and change.why and change.before and change.after for change in changes())
    assert len(changes_of("floodgate/fig06")) >= 2 and changes_of("hpcc/fig06") == []


def test_what_is_missing_is_missing():
    for paper in {id.split("/")[0] for id in EXPERIMENTS}:
        absent = getattr(importlib.import_module(f"penstock.experiments.{paper}"), "MISSING", {})
        assert not {f"{paper}/{name}" for name in absent} & set(EXPERIMENTS)


def test_no_recorded_claim_passes_that_is_said_to_differ():
    kept = records.load(ROOT / "docs/reproductions.json")
    for id, scale in [(id, scale) for id, found in kept.items() for scale in found]:
        record = kept[id][scale]
        for claim, found in record.get("claims", {}).items():
            known = EXPERIMENTS[id].differs.get(claim)
            assert not known or scale not in known.scales or found["verdict"] != PASS, f"{id} {claim}"


def variants(id):
    """{scheme: its variants that the figure shows}, such as {"bfc": {"bfc:paper"}}."""
    found = {}
    for spec in EXPERIMENTS[id].specs("paper").values():
        tables = spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]
        for part in (part for table in tables for part in table["name"].split("+")):
            found.setdefault(part.split(":")[0], set()).add(part)
    return found


def test_a_paper_s_figures_show_one_variant_of_a_scheme():
    missing = set()
    for id in (id for id in EXPERIMENTS if EXPERIMENTS[id].specs):
        paper = importlib.import_module(f"penstock.experiments.{id.split('/')[0]}")
        chosen = getattr(paper, "VARIANTS", {})
        assert not chosen or paper.VARIANTS_REASON
        missing |= {
            f"{id} {scheme}" for scheme, shown in variants(id).items() if scheme in chosen and chosen[scheme] not in shown
        }
    assert missing == OTHER_VARIANT
