"""A table of results as text, LaTeX (booktabs), CSV or Markdown."""

import re
from dataclasses import dataclass, field

import polars as pl

from penstock_net.inputs import one_of

FORMS = ("text", "latex", "csv", "markdown")
ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
}


@dataclass
class Printed:
    """A table of results.

    heads, rows  texts, as they are shown
    frame        the same as numbers without units, for CSV
    notes        what the columns mean
    names        how many columns at the left are names, which are flush left; the others are numbers
    titles       what LaTeX has instead of the first heads: for print, where those are for typing again
    """

    heads: list[str]
    rows: list[list[str]]
    frame: pl.DataFrame
    notes: list[str] = field(default_factory=list)
    names: int = 1
    titles: list[str] = field(default_factory=list)

    def show(self, form: str = "text") -> str:
        """The table in a form of FORMS, without a line end.  SpecError: no such form."""
        return {"text": self._text, "latex": self._latex, "csv": self._csv, "markdown": self._markdown}[
            one_of(form, "table", FORMS)
        ]()

    def _text(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.heads, *self.rows)]
        lines = ("  ".join(map(str.rjust, row, widths)).rstrip() for row in (self.heads, *self.rows))
        return "\n".join([*lines, *self.notes])

    def _csv(self) -> str:
        return self.frame.write_csv().rstrip("\n")

    def _markdown(self) -> str:
        def line(cells: list[str]) -> str:
            return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"

        marks = [":---"] * self.names + ["---:"] * (len(self.heads) - self.names)
        return "\n".join([line(self.heads), line(marks), *map(line, self.rows), *(f"\n{note}" for note in self.notes)])

    def _latex(self) -> str:
        def line(cells: list[str]) -> str:
            return f"{' & '.join(map(escaped, cells))} \\\\"

        columns = "l" * self.names + "r" * (len(self.heads) - self.names)
        notes = [f"% {text}" for note in self.notes for text in note.splitlines()]
        return "\n".join(
            [
                r"% needs \usepackage{booktabs}",
                *notes,
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                line([*self.titles, *self.heads[len(self.titles) :]]),
                r"\midrule",
                *map(line, self.rows),
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )


def escaped(text: str) -> str:
    """A text for LaTeX."""
    return re.sub("|".join(map(re.escape, ESCAPES)), lambda found: ESCAPES[found[0]], text)
