"""Text and HTML tables: figures in the units people use, columns that line up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

#: Rows of long tables that are shown.
MAX_ROWS = 20


def binary_size(size: int | float | None) -> str:
    """1536 -> "1.5 KiB"."""
    if size is None:
        return "not known"
    number = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(number) < 1024:
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.2f} {unit}"
        number /= 1024
    return f"{number:,.2f} PiB"


def text_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns padded with spaces, numbers flush right; no first line if *heads* are empty."""
    lines = [list(heads), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    right = [_numeric(line[column] for line in lines[1:]) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (lines if any(heads) else lines[1:])
    )


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A plain table in the notebook's own style; all text escaped."""
    rows = [list(row) for row in rows]
    right = [_numeric(row[column] for row in rows) for column in range(len(heads))]
    style = [
        f' style="text-align:{"right" if flush else "left"};padding:2px 10px"' for flush in right
    ]
    head = "".join(f"<th{how}>{escape(text)}</th>" for text, how in zip(heads, style, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{how}>{escape(text)}</td>" for text, how in zip(row, style, strict=True))
        + "</tr>"
        for row in rows
    )
    above = f"<p>{escape(caption)}</p>" if caption else ""
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def with_rest(rows: list[tuple[str, ...]], total: int) -> list[tuple[str, ...]]:
    if total > len(rows) and rows:
        blank = ("",) * (len(rows[0]) - 1)
        rows.append((f"… and {total - len(rows)} more", *blank))
    return rows


def shape_text(shape: Sequence[int]) -> str:
    return "×".join(str(size) for size in shape) or "()"


def share_text(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _numeric(cells: Iterable[str]) -> bool:
    filled = [cell for cell in cells if cell]
    return bool(filled) and all(cell[0].isdigit() for cell in filled)
