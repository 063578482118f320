"""README's table of the papers' best known numbers: every claim is recorded, every miss has a cause and its place."""

from pathlib import Path

from penstock_papers import known_numbers, records
from penstock_papers.claims import PASS

ROOT = Path(__file__).resolve().parents[2]


def test_every_number_is_one_that_the_records_judge_and_a_miss_has_a_cause():
    known, page = records.load(), (ROOT / "docs/differences.md").read_text()
    numbers = known_numbers.load()
    assert len(numbers) == 16 and {each.paper for each in numbers} == {"BFC", "HPCC", "Floodgate", "Backdraft"}
    for number in numbers:
        if any(claim["verdict"] != PASS for claim in known_numbers.judged(number, known)):
            assert 0 < len(number.cause.split()) <= 4, number
            assert f'<a id="{number.place}"></a>' in page, number


def test_the_table_shows_what_was_judged(monkeypatch):
    number = known_numbers.Number("BFC", "a ratio", "2 to 3", ("bfc/x low", "bfc/x high"), "not known", "bfc-x")
    claims = {
        "low": {"kind": "paper", "ours": "1.9 ± 0.1", "verdict": "FAIL"},
        "high": {"kind": "paper", "ours": "2.9", "verdict": "PASS"},
    }
    monkeypatch.setattr(known_numbers, "load", lambda: [number])
    monkeypatch.setattr(records, "load", lambda: {"bfc/x": {"paper": {"claims": claims}}})
    *_, row = known_numbers.table().splitlines()
    assert row == "| BFC | a ratio | 2 to 3 | 1.9 ± 0.1; 2.9 | FAIL; PASS | [not known](docs/differences.md#bfc-x) |"
    claims["low"] |= {"verdict": "PASS"}
    assert known_numbers.table().splitlines()[-1].endswith("| PASS |  |")
