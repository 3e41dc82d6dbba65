"""Draws docs/images/rooms.svg: the parts of the package, and the subjects of the fleet, by floors.

The floors are the layers of setup.cfg, which `make lint` checks: a room imports from lower floors
only. What a room is for is the first line of its ``__init__.py``. With ``--check`` nothing is
written; the exit code says whether the picture is up to date.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import re
import sys
import textwrap
from html import escape
from pathlib import Path

TOP = Path(__file__).parent.parent
TARGET = TOP / "docs" / "images" / "rooms.svg"
WIDTH, GAP, LINE = 1000, 8, 15
STYLE = """\
<style>
text { font: 12px sans-serif; fill: #333 } .name { font-weight: bold }
rect { fill: #fff; stroke: #888 } .inner { fill: #eef4fb }
</style>"""


def floors(contract: str) -> list[list[str]]:
    """The rooms of each layer of a contract, the highest first."""
    parser = configparser.ConfigParser()
    parser.read(TOP / "setup.cfg")
    layers = parser[f"importlinter:contract:{contract}"]["layers"]
    return [re.split(r"\s*[|:]\s*", line) for line in layers.strip().splitlines()]


def purpose(module: str) -> str:
    """The first sentence of a room's docstring; "" if it has none."""
    path = TOP.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    first = re.split(r"(?<=\.)\s|\n\n", " ".join(doc.split("\n\n")[0].split()))[0]
    return re.sub(r"``?|:class:|:mod:|`", "", first)


def draw() -> str:
    """The picture."""
    parts: list[str] = []
    y = GAP
    for floor in floors("parts"):
        rooms = [room.removeprefix("jupyter_tpu.") for room in floor]
        y = _draw_floor(parts, [(room, f"jupyter_tpu.{room}") for room in rooms], y, "")
    parts.append(f'<text class="name" x="{GAP}" y="{y + 2 * LINE}">Inside fleet</text>')
    y += 2 * LINE + GAP
    for floor in floors("fleet"):
        y = _draw_floor(parts, [(room, f"jupyter_tpu.fleet.{room}") for room in floor], y, "inner")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" '
        f'viewBox="0 0 {WIDTH} {y}">'
    )
    return "\n".join([head, STYLE, *parts, "</svg>", ""])


def _draw_floor(parts: list[str], rooms: list[tuple[str, str]], y: int, kind: str) -> int:
    """Adds the boxes of one floor; returns where the next one begins."""
    width = (WIDTH - GAP * (len(rooms) + 1)) // len(rooms)
    texts = [textwrap.wrap(purpose(module), width // 7) for _, module in rooms]
    height = LINE * (max(map(len, texts)) + 1) + 2 * GAP
    for number, ((name, _), lines) in enumerate(zip(rooms, texts, strict=True)):
        x = GAP + number * (width + GAP)
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>')
        for row, line in enumerate([name, *lines]):
            style = ' class="name"' if row == 0 else ""
            at = f'x="{x + GAP}" y="{y + GAP + LINE * (row + 1) - 4}"'
            parts.append(f"<text{style} {at}>{escape(line)}</text>")
    return y + height + GAP


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    options = parser.parse_args(arguments)
    picture = draw()
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == picture:
        return 0
    if options.check:
        print(f"{TARGET.name} is out of date: run `make types`", file=sys.stderr)
        return 1
    TARGET.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
