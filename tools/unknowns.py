"""Says which figures do not show the candidates that penstock_papers/PAPER/unknowns.toml declares as chosen, and in which key.

python tools/unknowns.py            # of all papers; nothing and exit status 0 if every set-up is as declared
python tools/unknowns.py hpcc       # of one
"""

import sys

from penstock_papers import EXPERIMENTS, unknowns
from penstock_papers.candidates import unsettled


def main(*papers: str) -> int:
    """The number of lines."""
    wanted = papers or tuple(dict.fromkeys(id.split("/")[0] for id in EXPERIMENTS))
    lines = [line for paper in wanted for line in unsettled(unknowns.of_paper(paper), EXPERIMENTS)]
    print(*lines, sep="\n" if lines else "")
    return len(lines)


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
