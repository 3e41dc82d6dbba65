"""The picture of a sharding: an array as a sheet cut into blocks, each with its devices' numbers.

Plain SVG without scripts. Text and lines use the colour around the picture ("inherit"), follow the
reader's light or dark setting ("auto"), or are for one of them. Fills are translucent, to be
readable on both.
"""

from __future__ import annotations

from html import escape
from itertools import product
from math import prod

from ...errors import InvalidInput
from ...wording import each_of
from ..arrays import MeshAxes
from .models import ArrayPlacement

#: Eight fills that colour-blind readers can tell apart; the blocks also have numbers.
_FILLS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#888888")
_MOST_BLOCKS = 16  # along one side
_NAME_LETTERS = 48  # letters of an array's name that are drawn
_LONG_SIDE_PIXELS, _SHORT_SIDE_PIXELS = 480.0, 120.0  # sides of the sheet, in pixels
#: Theme -> colour of text and lines; "auto" follows the reader's setting by a style of its own.
_COLOURS = {"inherit": "", "light": "#1f1f1f", "dark": "#e8e8e8", "auto": ""}
_AUTO = (
    "<style>svg.sharding-auto{color:#1f1f1f}"
    "@media (prefers-color-scheme:dark){svg.sharding-auto{color:#e8e8e8}}</style>"
)


def draw(array: ArrayPlacement, mesh: MeshAxes, theme: str = "inherit") -> str:
    """SVG of how *array* is split: at most two split dimensions, or the last ones.

    Raises `InvalidInput` for unknown themes.
    """
    if theme not in _COLOURS:
        raise InvalidInput(f"Unknown theme {theme!r}.", f"The themes are {', '.join(_COLOURS)}.")
    across, down = _shown(array)
    columns = _Side(array, mesh, across)
    rows = _Side(array, mesh, down)
    width, height = _sheet(columns.size, rows.size, columns.shown, rows.shown)
    beside = (rows.label(0), rows.label(1))
    left, top = max(150.0, 28 + max(map(_length, beside))), 64.0
    shapes = []
    for row, column in product(range(rows.shown), range(columns.shown)):
        x, y = left + width * column / columns.shown, top + height * row / rows.shown
        box_width, box_height = width / columns.shown, height / rows.shown
        block = row * columns.blocks + column
        holders = _holders(array, mesh, {across: column, down: row})
        title = f"devices {_list(holders, 10**6)}"
        shapes.append(
            f'<g><title>{title}</title><rect x="{x:.1f}" y="{y:.1f}" width="{box_width:.1f}" '
            f'height="{box_height:.1f}" fill="{_FILLS[block % len(_FILLS)]}" fill-opacity="0.45" '
            'stroke="currentColor" stroke-width="1"/>'
            f'<text x="{x + box_width / 2:.1f}" y="{y + box_height / 2:.1f}" '
            f'text-anchor="middle" dominant-baseline="central" font-size="{_font(box_width)}">'
            f"{_list(holders, _letters(box_width))}</text></g>"
        )
    heading, foot = _heading(array), _foot(array, mesh)
    labels = [
        _text(left, 22, heading, weight="600"),
        _text(left, 50, columns.label()),
        _text(left - 12, top + height / 2 - 9, beside[0], anchor="end"),
        _text(left - 12, top + height / 2 + 9, beside[1], anchor="end"),
        _text(left, top + height + 24, foot),
    ]
    hidden = "; ".join(side.rest() for side in (columns, rows) if side.blocks > side.shown)
    if hidden:
        labels.append(_text(left, top + height + 44, hidden))
    lengths = (_length(text) for text in (columns.label(), foot, hidden))
    total_width = left + max(width, 1.15 * _length(heading), *lengths) + 16
    total_height = top + height + (60 if hidden else 40)
    kind, style = ("sharding-auto", _AUTO) if theme == "auto" else ("sharding", "")
    colour = f"color:{_COLOURS[theme]}" if _COLOURS[theme] else ""
    what = escape(f"{heading}, {foot}")
    return (
        f'<svg class="{kind}" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{what}" '
        f'viewBox="0 0 {total_width:.0f} {total_height:.0f}" width="{total_width:.0f}" '
        f'height="{total_height:.0f}" style="max-width:100%;{colour}" font-family="sans-serif" '
        f'font-size="13" fill="currentColor">{style}'
        f"{''.join(shapes)}{''.join(labels)}</svg>"
    )


class _Side:
    """One side of the sheet: a dimension of the array, or nothing (a single row)."""

    def __init__(self, array: ArrayPlacement, mesh: MeshAxes, axis: int | None) -> None:
        self.axis = axis
        self.size = 1 if axis is None else array.shape[axis]
        self.axes = () if axis is None else split_axes(array, axis)
        self.mesh = mesh
        self.blocks = prod(mesh[name] for name in self.axes)
        self.shown = min(self.blocks, _MOST_BLOCKS)

    def label(self, line: int | None = None) -> str:
        if self.axis is None:
            return ""
        lines = [f"dimension {self.axis}: {self.size}", self._cut()]
        return ", ".join(lines) if line is None else lines[line]

    def _cut(self) -> str:
        if not self.axes:
            return "not split"
        return "split by " + " × ".join(f"{name}={self.mesh[name]}" for name in self.axes)

    def rest(self) -> str:
        return f"{self.blocks - self.shown} more blocks along dimension {self.axis} not drawn"


def split_axes(array: ArrayPlacement, axis: int) -> tuple[str, ...]:
    """The mesh axes that cut dimension *axis*."""
    part = array.spec[axis]
    return () if part is None else (part,) if isinstance(part, str) else tuple(part)


def _shown(array: ArrayPlacement) -> tuple[int | None, int | None]:
    """(across, down): the dimensions drawn."""
    rank = len(array.shape)
    if rank < 2:
        return (0 if rank else None), None
    split = [axis for axis in range(rank) if split_axes(array, axis)]
    others = [axis for axis in reversed(range(rank)) if axis not in split]
    first, second = sorted([*split[:2], *others][:2])
    return second, first


def _holders(array: ArrayPlacement, mesh: MeshAxes, at: dict[int | None, int]) -> list[int]:
    """The devices, numbered along the mesh, of the block at those places (0 in all others)."""
    names = list(mesh)
    holders = []
    for number, place in enumerate(product(*(range(mesh[name]) for name in names))):
        where = dict(zip(names, place, strict=True))
        if all(
            _index(split_axes(array, axis), where, mesh) == at.get(axis, 0)
            for axis in range(len(array.shape))
        ):
            holders.append(number)
    return holders


def _index(axes: tuple[str, ...], where: dict[str, int], mesh: MeshAxes) -> int:
    index = 0
    for axis in axes:
        index = index * mesh[axis] + where[axis]
    return index


def _sheet(columns: int, rows: int, column_blocks: int, row_blocks: int) -> tuple[float, float]:
    """Width and height: something of the array's proportions, and space for each block's number."""
    ratio = min(4.0, max(0.5, columns / max(rows, 1)))
    width = _LONG_SIDE_PIXELS if ratio >= 1 else max(_SHORT_SIDE_PIXELS, _LONG_SIDE_PIXELS * ratio)
    height = max(_SHORT_SIDE_PIXELS / 2, min(_LONG_SIDE_PIXELS / 2, width / ratio))
    return max(width, 34.0 * column_blocks), max(height, 26.0 * row_blocks)


def _heading(array: ArrayPlacement) -> str:
    shape = " × ".join(str(size) for size in array.shape) or "a single value"
    name = array.name if len(array.name) <= _NAME_LETTERS else f"…{array.name[1 - _NAME_LETTERS :]}"
    return f"{name}  {shape} {array.dtype}".strip()


def _foot(array: ArrayPlacement, mesh: MeshAxes) -> str:
    devices = prod(mesh.values())
    shard = " × ".join(str(size) for size in array.shard_shape) or "the value"
    copies = f", {array.copies} copies of each block" if array.copies > 1 else ""
    return f"{each_of(devices, 'device')} holds {shard}{copies}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "400") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )


def _list(numbers: list[int], width: int) -> str:
    """[0, 1, 2, 5] -> "0–2, 5", shortened to *width* characters."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    texts = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}–{b}" for a, b in runs]
    text = ", ".join(texts)
    if len(text) <= width:
        return text
    kept = ""
    for part in texts:
        if len(kept) + len(part) + 3 > width:
            break
        kept += f"{part}, "
    return f"{kept}…"


def _letters(width: float) -> int:
    return max(3, int(width / 7))


def _length(text: str) -> float:
    """Pixels that a line takes at most, in the sans-serif fonts that browsers have."""
    return 7.3 * len(text)


def _font(width: float) -> int:
    return 13 if width >= 40 else 11
