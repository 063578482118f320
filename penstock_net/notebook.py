"""HTML of what a cell of a notebook ends with; colours are the notebook's, light or dark."""

from collections.abc import Iterable, Sequence


def block(title: str, rows: Iterable[Sequence[str]] = (), notes: Iterable[str] = (), head: Sequence[str] = ()) -> str:
    """A title, a table whose rows begin with their heading, below `head` if there is one, and lines below."""
    from html import escape

    cells = ["".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in zip(("th", *["td"] * len(row)), row)) for row in rows]
    cells = ["".join(f"<th>{escape(text)}</th>" for text in head), *cells] if head else cells
    table = f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>" if cells else ""
    return f"<div><strong>{escape(title)}</strong>{table}{''.join(f'<div>{escape(note)}</div>' for note in notes)}</div>"


def lines(text: str) -> str:
    """Lines that are aligned."""
    from html import escape

    return f'<pre style="font-family: monospace">{escape(text)}</pre>'
