"""Draws the pictures of docs/concepts: links, the journal, and what survives what.

The last one is drawn from the table on its page. With ``--check`` nothing is written; the exit code
says whether the pictures are up to date.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
IMAGES = DOCS / "images"
LINE = 16
#: Readable in the light and in the dark theme: the background is part of the picture.
STYLE = """\
<style>
text { font: 13px sans-serif; fill: #222 } .name { font-weight: bold } .small { font-size: 11px }
.back { fill: #fff } .box { fill: #fff; stroke: #777 } .place { fill: #f2f4f8; stroke: #aab }
.ours { fill: #e3ebfb; stroke: #5a7bc0 } .kept { fill: #cfe0ff; stroke: #5a7bc0 }
.done { fill: #eee; stroke: #bbb } .line { stroke: #456; stroke-width: 2; fill: none }
.cut { stroke: #c33; stroke-width: 2; stroke-dasharray: 6 5 }
.number { fill: #fff; font-weight: bold }
.dot { fill: #456 } .good { fill: #d6f0d8 } .back-again { fill: #fff2c4 } .lost { fill: #fad9d5 }
</style>"""


class Picture:
    """An SVG that grows: shapes in pixels from the top left."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img"><title>{escape(title)}</title>'
        )
        self.parts = [f'<rect class="back" width="{width}" height="{height}" rx="6"/>']

    def box(self, x: int, y: int, width: int, height: int, kind: str, text: str = "") -> None:
        """A box with lines of text; the first line is its name."""
        self.parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'
        )
        for number, line in enumerate(text.splitlines()):
            self.text(x + 10, y + 20 + number * LINE, line, "name" if number == 0 else "small")

    def text(self, x: int, y: int, text: str, kind: str = "", anchor: str = "start") -> None:
        self.parts.append(
            f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def line(self, x1: int, y1: int, x2: int, y2: int, kind: str = "line") -> None:
        self.parts.append(f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')

    def arrow(self, x1: int, y: int, x2: int, kind: str = "line") -> None:
        """A horizontal arrow."""
        step = 7 if x2 < x1 else -7
        self.line(x1, y, x2, y, kind)
        self.parts.append(
            f'<path class="line" d="M{x2 + step} {y - 5} L{x2} {y} L{x2 + step} {y + 5}"/>'
        )

    def number(self, x: int, y: int, number: int) -> None:
        """A number in a circle, which the page explains."""
        self.parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="10"/>')
        self.text(x, y + 4, str(number), "number", "middle")

    def svg(self) -> str:
        return "\n".join([self.head, STYLE, *self.parts, "</svg>", ""])


def links() -> str:
    """Your computer, a connection to each host, and what runs there."""
    picture = Picture(900, 400, "Links")
    picture.box(15, 15, 300, 370, "place", "Your computer")
    picture.box(
        30, 55, 270, 60, "box", "JupyterLab, VS Code, jupyter tpu\nthe panel, notebooks, commands"
    )
    picture.box(30, 160, 270, 210, "ours", "Jupyter server with jupyter-tpu")
    for row, text in enumerate(
        ("a link for each host", "what you asked for, on disk", "output that no tab has shown yet")
    ):
        picture.text(45, 205 + row * 22, f"· {text}", "small")
    picture.line(165, 115, 165, 160)
    picture.number(60, 290, 1)
    picture.text(78, 294, "starts and watches the links", "small")
    picture.box(560, 15, 325, 370, "place", "A TPU of several hosts")
    for host in range(3):
        y = 50 + host * 112
        picture.box(575, y, 295, 98, "box", f"host {host}")
        picture.box(640, y + 12, 100, 36, "ours", "daemon")
        picture.box(640, y + 54, 100, 36, "ours", "keeper")
        picture.box(765, y + 54, 95, 36, "box", "kernel")
        picture.arrow(740, y + 72, 765)
        picture.line(300, 230 + host * 12, 575, y + 49)
        if host == 0:
            picture.number(756, y + 30, 4)
            picture.number(620, y + 72, 5)
    picture.text(350, 60, "SSH, one connection a host", "name")
    picture.text(350, 80, "host keys from Google's API", "small")
    picture.text(350, 98, "address looked up by name", "small")
    picture.number(336, 76, 2)
    picture.number(336, 94 + 6, 3)
    return picture.svg()


def journal() -> str:
    """Numbered messages on their way from the kernel to the tab, while the link is cut."""
    picture = Picture(900, 300, "The journal")
    picture.box(15, 15, 400, 270, "place", "On the host")
    picture.box(485, 15, 400, 270, "place", "Your computer")
    picture.box(30, 55, 110, 50, "box", "kernel\nprints")
    picture.box(185, 55, 215, 50, "ours", "keeper\nwrites the journal")
    picture.arrow(140, 80, 185)
    picture.number(162, 66, 1)
    for count in range(1, 10):
        x = 30 + (count - 1) * 41
        picture.box(x, 140, 36, 36, "done" if count < 5 else "kept")
        picture.text(x + 18, 163, str(count), "name", "middle")
    picture.text(30, 198, "confirmed:", "small")
    picture.text(30, 213, "deleted here", "small")
    picture.text(194, 198, "not confirmed: kept in memory,", "small")
    picture.text(194, 213, "then on the disk, up to 2 GiB", "small")
    picture.box(500, 55, 215, 50, "ours", "Jupyter server\nstores what came")
    picture.box(765, 55, 105, 50, "box", "tab\nshows it")
    picture.arrow(715, 80, 765)
    picture.number(740, 66, 4)
    for count in range(1, 5):
        x = 500 + (count - 1) * 41
        picture.box(x, 140, 36, 36, "kept")
        picture.text(x + 18, 163, str(count), "name", "middle")
    picture.text(500, 198, "has 1 to 4, and asks for 5", "small")
    picture.text(500, 213, "when the link is back", "small")
    picture.line(400, 80, 500, 80, "cut")
    picture.text(450, 70, "cut", "name", "middle")
    picture.number(450, 100, 3)
    picture.arrow(500, 240, 400)
    picture.text(450, 230, '"I have 4"', "small", "middle")
    picture.number(450, 258, 2)
    picture.text(30, 258, "Cells go the other way, and are numbered, too", "small")
    picture.number(320, 254, 5)
    return picture.svg()


def survives() -> str:
    """The table of docs/concepts/what-survives.md in colours."""
    page = (DOCS / "concepts" / "what-survives.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads, _, *rows = rows
    first, width, height = 230, 110, 44
    picture = Picture(first + width * (len(heads) - 1) + 20, 60 + height * len(rows), heads[0])
    for column, head in enumerate(heads[1:]):
        for number, text in enumerate(textwrap.wrap(head, 14)):
            x = first + column * width + width // 2
            picture.text(x, 22 + number * LINE, text, "name", "middle")
    for row, (event, *cells) in enumerate(rows):
        y = 50 + row * height
        for number, text in enumerate(textwrap.wrap(event, 30)):
            picture.text(12, y + 18 + number * LINE, text, "name small")
        for column, cell in enumerate(cells):
            x = first + column * width
            picture.parts.append(
                f'<rect class="{_colour(cell)}" x="{x + 2}" y="{y + 2}" width="{width - 4}" '
                f'height="{height - 4}" rx="4"/>'
            )
            texts = textwrap.wrap(cell, 15)
            for number, text in enumerate(texts):
                top = y + 26 - 7 * (len(texts) - 1) + number * 14
                picture.text(x + width // 2, top, text, "small", "middle")
    return picture.svg()


def _colour(cell: str) -> str:
    if cell in ("lost", "ends"):
        return "lost"
    return (
        "back-again"
        if cell == "comes back" or "again" in cell or "can come back" in cell
        else "good"
    )


PICTURES = {"links.svg": links, "journal.svg": journal, "what-survives.svg": survives}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    options = parser.parse_args(arguments)
    stale = [
        name
        for name, draw in PICTURES.items()
        if not (IMAGES / name).is_file() or (IMAGES / name).read_text("utf-8") != draw()
    ]
    for name in stale:
        if options.check:
            print(f"docs/images/{name} is not up to date: run `make types`", file=sys.stderr)
        else:
            (IMAGES / name).write_text(PICTURES[name](), encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
