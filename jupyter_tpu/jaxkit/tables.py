"""Reports as text and as HTML: figures in the units people use, columns that line up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .models import CompileReport, Placement, TilingTable

#: Rows of long tables that are shown.
_MOST = 20


def size_text(size: int | float | None) -> str:
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
    """Columns padded with spaces; the first flush left, numbers flush right."""
    lines = [list(heads), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    right = [_numeric(line[column] for line in lines[1:]) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
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


# ---- tiling -----------------------------------------------------------------------------------

_TILING_HEADS = ("", "dtype", "shape", "size", "in HBM", "waste", "nothing wasted", "layout")


def tiling_text(table: TilingTable) -> str:
    return f"{_tiling_title(table)}\n{text_table(_TILING_HEADS, _tiling_rows(table))}"


def tiling_html(table: TilingTable) -> str:
    return html_table(_TILING_HEADS, _tiling_rows(table), _tiling_title(table))


def _tiling_title(table: TilingTable) -> str:
    waste = table.padded_bytes - table.bytes
    return (
        f"{size_text(table.bytes)} take {size_text(table.padded_bytes)} in the HBM of a TPU "
        f"{table.generation}: {_share(waste, table.padded_bytes)} padding"
    )


def _tiling_rows(table: TilingTable) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            row.name,
            row.dtype,
            _shape(row.shape),
            size_text(row.bytes),
            size_text(row.padded_bytes),
            _share(row.waste, row.padded_bytes),
            "" if not row.waste else _shape(row.full_shape),
            row.layout,
        )
        for row in table.arrays[:_MOST]
    ]
    return _with_rest(rows, len(table.arrays))


# ---- placement --------------------------------------------------------------------------------

_PLACEMENT_HEADS = ("", "dtype", "shape", "split", "per device", "copies", "size", "in HBM")
_TYPE_HEADS = ("type", "devices", "HBM a device", "fits")


def placement_text(placement: Placement) -> str:
    return "\n".join(
        [
            _placement_title(placement),
            text_table(_PLACEMENT_HEADS, _placement_rows(placement)),
            "",
            text_table(_TYPE_HEADS, _type_rows(placement)),
        ]
    )


def placement_html(placement: Placement) -> str:
    return (
        (placement.picture or "")
        + html_table(_PLACEMENT_HEADS, _placement_rows(placement), _placement_title(placement))
        + html_table(_TYPE_HEADS, _type_rows(placement))
    )


def _placement_title(placement: Placement) -> str:
    mesh = " × ".join(f"{name}={size}" for name, size in placement.mesh.items())
    return (
        f"Mesh {mesh} ({placement.devices} devices): {size_text(placement.bytes)} in all, "
        f"{size_text(placement.padded_bytes_per_device)} a device with padding, of which "
        f"{size_text(placement.replicated_bytes_per_device)} are the same on every device"
    )


def _placement_rows(placement: Placement) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            row.name,
            row.dtype,
            _shape(row.shape),
            _spec(row.spec),
            _shape(row.shard_shape),
            str(row.copies),
            size_text(row.bytes_per_device),
            size_text(row.padded_bytes_per_device),
        )
        for row in placement.arrays[:_MOST]
    ]
    return _with_rest(rows, len(placement.arrays))


def _type_rows(placement: Placement) -> list[tuple[str, ...]]:
    # A table of 60 types helps nobody: those that fit, smallest first, then the nearest that don't.
    fitting = [row for row in placement.types if row.fits]
    others = [row for row in placement.types if not row.fits]
    rows: list[tuple[str, ...]] = [
        (
            row.type,
            str(row.devices),
            size_text(row.hbm_bytes_per_device),
            "yes" if row.fits else f"no: {row.why}",
        )
        for row in [*fitting[: _MOST // 2], *others[: _MOST // 2]]
    ]
    return _with_rest(rows, len(placement.types))


# ---- compiling --------------------------------------------------------------------------------

_BUFFER_HEADS = ("size", "padding", "kind", "array", "operation", "source")
_COLLECTIVE_HEADS = ("collective", "times", "bytes a device")


def compile_text(report: CompileReport) -> str:
    parts = ["\n".join(_verdict(report)), text_table(("", ""), _made_of(report))]
    if report.buffers:
        parts.append("Largest:\n" + text_table(_BUFFER_HEADS, _buffer_rows(report)))
    if report.collectives:
        parts.append(text_table(_COLLECTIVE_HEADS, _collective_rows(report)))
    parts.append(_compiler(report))
    return "\n\n".join(parts)


def compile_html(report: CompileReport) -> str:
    verdict = "".join(f"<p>{escape(line)}</p>" for line in _verdict(report))
    tables = html_table(("", ""), _made_of(report))
    if report.buffers:
        tables += html_table(_BUFFER_HEADS, _buffer_rows(report), "Largest in memory")
    if report.collectives:
        tables += html_table(_COLLECTIVE_HEADS, _collective_rows(report))
    return f"{verdict}{tables}<p>{escape(_compiler(report))}</p>"


def _verdict(report: CompileReport) -> list[str]:
    if report.fits:
        first = (
            f"Fits {report.type}: needs {size_text(report.needed_bytes)} of "
            f"{size_text(report.hbm_bytes)} on each of {report.devices_used} devices."
        )
    elif report.needed_bytes is not None:
        first = (
            f"Does not fit {report.type}: needs {size_text(report.needed_bytes)}, a device has "
            f"{size_text(report.hbm_bytes)}."
        )
    else:
        first = f"Does not fit {report.type}: a device has {size_text(report.hbm_bytes)}."
    return [line for line in (first, report.message, *report.notes) if line]


def _made_of(report: CompileReport) -> list[tuple[str, str]]:
    rows = [
        ("arguments", report.argument_bytes),
        ("outputs", report.output_bytes),
        ("  of which in donated arguments", report.aliased_bytes),
        ("temporaries", report.temporary_bytes),
        ("code", report.code_bytes),
        ("padding of arguments and outputs", report.padding_bytes),
    ]
    cells = [(name, size_text(size)) for name, size in rows if size is not None]
    if report.flops is not None:
        cells.append(("floating point operations a device", f"{report.flops:.3g}"))
    return cells


def _buffer_rows(report: CompileReport) -> list[tuple[str, ...]]:
    return [
        (
            size_text(buffer.bytes),
            _share(buffer.bytes - buffer.unpadded_bytes, buffer.bytes),
            buffer.kind,
            f"{buffer.dtype}[{','.join(map(str, buffer.shape))}]",
            buffer.name,
            buffer.source,
        )
        for buffer in report.buffers[:_MOST]
    ]


def _collective_rows(report: CompileReport) -> list[tuple[str, ...]]:
    return [(row.kind, f"{row.count:,}", size_text(row.bytes)) for row in report.collectives]


def _compiler(report: CompileReport) -> str:
    caveat = f" {report.flops_caveat}" if report.flops_caveat else ""
    return (
        f"jax {report.jax_version}, libtpu {report.libtpu_version}, topology {report.topology}, "
        f"{report.seconds:.1f} s. Other versions of libtpu need other temporaries.{caveat}"
    )


def _with_rest(rows: list[tuple[str, ...]], total: int) -> list[tuple[str, ...]]:
    if total > len(rows) and rows:
        blank = ("",) * (len(rows[0]) - 1)
        rows.append((f"… and {total - len(rows)} more", *blank))
    return rows


def _shape(shape: Sequence[int]) -> str:
    return "×".join(str(size) for size in shape) or "()"


def _spec(spec: Sequence[str | list[str] | None]) -> str:
    parts = [part if isinstance(part, str) else "+".join(part or ()) or "–" for part in spec]
    return ", ".join(parts) if any(part != "–" for part in parts) else "not split"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _numeric(cells: Iterable[str]) -> bool:
    found = [cell for cell in cells if cell]
    return bool(found) and all(cell[0].isdigit() for cell in found)
