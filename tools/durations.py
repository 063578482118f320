"""Which tests take long, from the reports of a run: REPORTS=reports ./test

    python tools/durations.py reports/*.xml           # the 30 slowest files
    python tools/durations.py reports/*.xml --write   # and writes tests/slow.txt, which `./test --fast` leaves out

A test is slow if all its cases together take more than half a second; on a busy machine everything takes longer.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

SLOW = Path(__file__).resolve().parents[1] / "tests/slow.txt"
LIMIT_S = 0.5
FAST = {"tests/laws/test_goldens.py"}  # whose answer is worth its time


def main(reports: list[str], write: bool) -> None:
    found = [case for report in reports for case in ElementTree.parse(report).iter("testcase")]
    cases = [case for case in found if str(case.get("file")).startswith("tests/")]
    files: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for case in cases:
        seconds = float(case.get("time") or 0)
        files[str(case.get("file"))] += seconds
        tests[f"{case.get('file')}::{str(case.get('name')).partition('[')[0]}"] += seconds
    print(f"{sum(files.values()):.0f} s in {len(cases)} tests; the slowest files:")
    for name, seconds in files.most_common(30):
        print(f"{seconds:7.1f} s  {name}")
    if write:
        slow = sorted(name for name, seconds in tests.items() if seconds > LIMIT_S and name.partition("::")[0] not in FAST)
        SLOW.write_text("\n".join(slow) + "\n")


if __name__ == "__main__":
    main([each for each in sys.argv[1:] if each != "--write"], "--write" in sys.argv)
