"""HTML of what a cell of a notebook ends with; colours are the notebook's, light or dark."""

from collections.abc import Iterable, Sequence


def block(title: str, rows: Iterable[Sequence[str]] = (), notes: Iterable[str] = (), head: Sequence[str] = ()) -> str:
    """A title, a table whose rows begin with their heading, and lines below. With `head`, headings are flush left."""
    from html import escape

    first = '<th style="text-align: left">' if head else "<th>"
    heads = ["".join(f"{'<th>' if at else first}{escape(text)}</th>" for at, text in enumerate(head))] if head else []
    body = [f"{first}{escape(heading)}</th>{''.join(f'<td>{escape(text)}</td>' for text in row)}" for heading, *row in rows]
    cells = [*heads, *body]
    table = f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>" if cells else ""
    return f"<div><strong>{escape(title)}</strong>{table}{''.join(f'<div>{escape(note)}</div>' for note in notes)}</div>"


def lines(text: str) -> str:
    """Lines that are aligned."""
    from html import escape

    return f'<pre style="font-family: monospace">{escape(text)}</pre>'
