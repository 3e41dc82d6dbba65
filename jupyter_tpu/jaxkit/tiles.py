"""How arrays lie in the HBM of a TPU: tiles, and what they waste.

A TPU stores an array in tiles of rows of 128 elements. The dimension that varies fastest is padded
to a multiple of 128, the next one to a multiple of the tile's rows. A tile has as many rows as the
dimension, rounded up to a power of two, at most 8, and at least as many as fill the smallest tile
(1024 bytes on v2 and v3, 512 later), but 16 of 2-bit elements. From v4 on, tiles have 32 rows of
8-bit elements, 64 of 4-bit and 128 of 2-bit ones where that divides the dimension. The compiler
chooses the two fastest dimensions: the pair with the least padding. One-dimensional arrays have
tiles of up to 1024 elements, of 2 bits up to 2048.

Read from the layouts that the compilers of libtpu 0.0.42.1 and 0.0.50.1 give to the arguments of
programs: they are the same. The tests compare with the first, and scripts/compiler_facts.py with
both. Inside a program the compiler may choose other layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from msgspec import Struct

from .arrays import Shape
from .shapes import bits_of, checked_shape, dtype_name, flat_shapes, stored_as
from .tables import MAX_ROWS, binary_size, html_table, shape_text, share_text, text_table, with_rest
from .topology import generation_of

#: Generation -> bytes of the smallest tile.
_GRANULE = {"v2": 1024, "v3": 1024, "v4": 512, "v5e": 512, "v5p": 512, "v6e": 512, "tpu7x": 512}
_LANES = 128


_HEADS = ("", "dtype", "shape", "size", "in HBM", "waste", "shape without padding", "layout")


class Tiling(Struct, kw_only=True):
    """How an array lies in the HBM of a TPU, and what that wastes."""

    name: str
    shape: Shape
    dtype: str
    generation: str
    #: As the compiler writes it: "{1,0:T(8,128)(2,1)}"; dimensions from the fastest on.
    layout: str
    bytes: int
    padded_bytes: int
    #: padded_bytes - bytes.
    waste: int
    #: The shape that fills the same tiles and wastes nothing; of random keys, *shape* if there is
    #: none.
    full_shape: Shape


class TilingTable(Struct, kw_only=True):
    """The answer of jax/tiling: the most wasteful array first."""

    generation: str
    arrays: list[Tiling]
    bytes: int
    padded_bytes: int

    def __repr__(self) -> str:
        return f"{self._title()}\n{text_table(_HEADS, self._rows())}"

    def _repr_html_(self) -> str:
        return html_table(_HEADS, self._rows(), self._title())

    def _title(self) -> str:
        waste = self.padded_bytes - self.bytes
        return (
            f"{binary_size(self.bytes)} take {binary_size(self.padded_bytes)} in the HBM of a TPU "
            f"{self.generation}: {share_text(waste, self.padded_bytes)} padding"
        )

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            (
                row.name,
                row.dtype,
                shape_text(row.shape),
                binary_size(row.bytes),
                binary_size(row.padded_bytes),
                share_text(row.waste, row.padded_bytes),
                "" if row.full_shape == row.shape else shape_text(row.full_shape),
                row.layout,
            )
            for row in self.arrays[:MAX_ROWS]
        ]
        return with_rest(rows, len(self.arrays))


class Layout(NamedTuple):
    """Dimensions from the fastest on, the tile (rows, lanes or lanes alone), bits an element."""

    order: tuple[int, ...]
    tile: tuple[int, ...]
    bits: int
    #: Elements that share 32 bits, as the compiler writes it after the tile; 1: none.
    packing: int
    padded: int  # elements


def padded_bytes(shape: Sequence[int], dtype: Any = "float32", generation: str = "v5e") -> int:
    """Bytes that an array of *shape* and *dtype* takes in the HBM of a TPU.

    *generation*: "v5e", or a type such as "v5litepod-8" or "v5e-8".

    The rules are those of libtpu's compiler (see the top of this file). Raises
    `InvalidInput` for negative or fractional sizes, unknown dtypes and unknown generations.
    """
    stored, dtype = stored_as(checked_shape(shape), dtype)
    return _bytes(layout(stored, dtype, generation_of(generation)), dtype)


def tiling(
    shape: Sequence[int], dtype: Any = "float32", generation: str = "v5e", *, name: str = ""
) -> Tiling:
    """Layout, bytes, padding, and the shape that would fill the same tiles.

    Arguments and errors as of `padded_bytes`; sizes are in bytes.
    """
    sizes = checked_shape(shape)
    generation = generation_of(generation)
    stored, stored_dtype = stored_as(sizes, dtype)
    where = layout(stored, stored_dtype, generation)
    unpadded = -(-prod(sizes) * bits_of(dtype) // 8)
    padded = _bytes(where, stored_dtype)
    full = _full(stored, where)
    rank = len(sizes)
    return Tiling(
        name=name,
        shape=list(sizes),
        dtype=dtype_name(dtype),
        generation=generation,
        layout=_written(where, bits_of(stored_dtype)),
        bytes=unpadded,
        padded_bytes=padded,
        waste=padded - unpadded,
        full_shape=list(full[:rank] if full[rank:] == stored[rank:] else sizes),
    )


def tiling_table(tree: Any, generation: str = "v5e") -> TilingTable:
    """`tiling` of every array of *tree* (arrays, shapes or (shape, dtype) pairs), worst first.

    Raises `InvalidInput` as `padded_bytes` does, and for trees of more than 20,000 arrays.
    """
    generation = generation_of(generation)
    rows = [tiling(shape, dtype, generation, name=name) for name, shape, dtype in flat_shapes(tree)]
    rows.sort(key=lambda row: -row.waste)
    return TilingTable(
        generation=generation,
        arrays=rows,
        bytes=sum(row.bytes for row in rows),
        padded_bytes=sum(row.padded_bytes for row in rows),
    )


def layout(sizes: tuple[int, ...], dtype: Any, generation: str) -> Layout:
    """The compiler's layout of an argument of that shape."""
    granule = _GRANULE[generation]
    bits = bits_of(dtype)
    two = bits == 2
    bits = min(bits, 32)  # complex64 and the 64-bit types are planes of 32 bits
    old = granule == 1024
    if bits < 8 and old:
        bits = 8  # v2 and v3 do not pack
    packing = granule * 8 // (_LANES * bits)  # rows of the smallest tile
    if 0 in sizes:
        return Layout(tuple(reversed(range(len(sizes)))), (), bits, 1, 0)
    shared = max(1, 32 // bits)
    if not sizes:
        return Layout((), (_LANES * packing,), bits, 1, _LANES * packing)
    if len(sizes) == 1:
        lanes = min(
            2048 if two else 1024, max(_LANES * packing, _LANES * _power(-(-sizes[0] // _LANES)))
        )
        return Layout((0,), (lanes,), bits, shared, _up(sizes[0], lanes))
    tall = 0 if old else {8: 32, 4: 64, 2: 128}.get(bits, 0)

    def rows(size: int) -> int:
        if tall and size % tall == 0:
            return tall
        return max(min(packing, 8), min(8, _power(size)))

    def tile(size: int) -> int:
        # A tile of 2-bit elements has at least 16 rows, but is chosen as if it could have 8.
        return max(16, rows(size)) if two else rows(size)

    *_, lane, row = min(_candidates(sizes, rows, tile))
    rest = (axis for axis in reversed(range(len(sizes))) if axis not in (lane, row))
    padded = _padded(sizes, lane, row, tile)
    return Layout((lane, row, *rest), (tile(sizes[row]), _LANES), bits, shared, padded)


def _padded(sizes: tuple[int, ...], lane: int, row: int, rows: Any) -> int:
    """Elements with the padding of tiles of *rows* over two axes."""
    others = prod(size for axis, size in enumerate(sizes) if axis not in (lane, row))
    return others * _up(sizes[lane], _LANES) * _up(sizes[row], rows(sizes[row]))


def _candidates(
    sizes: tuple[int, ...], rows: Any, tile: Any
) -> Iterator[tuple[int, bool, int, int, int]]:
    """(padded elements by *rows*, whether *tile* pads, preference, lane axis, row axis): row-major
    first, then later axes.
    """
    total, last = prod(sizes), len(sizes) - 1
    usual = (last, last - 1)
    pairs = [(a, b) for a in range(last, -1, -1) for b in range(last, -1, -1) if a != b]
    pairs.sort(key=lambda pair: (pair != usual, -pair[0], -pair[1]))
    # The compiler's own order of preference among equals.
    for preference, (lane, row) in enumerate(pairs):
        yield (
            _padded(sizes, lane, row, rows),
            _padded(sizes, lane, row, tile) > total,
            preference,
            lane,
            row,
        )


def _bytes(where: Layout, dtype: Any) -> int:
    planes = max(1, bits_of(dtype) // 32)
    return where.padded * where.bits * planes // 8


def _full(sizes: tuple[int, ...], where: Layout) -> tuple[int, ...]:
    full = list(sizes)
    for axis, multiple in zip(where.order, reversed(where.tile), strict=False):
        full[axis] = _up(sizes[axis], multiple)
    return tuple(full)


def _written(where: Layout, bits: int) -> str:
    order = ",".join(str(axis) for axis in where.order)
    if not where.tile:
        return f"{{{order}}}"
    text = f"T({','.join(str(size) for size in where.tile)})"
    if where.packing > 1:
        if len(where.tile) == 1:
            text += f"({_LANES})"
        text += f"({where.packing},1)"
    if bits < where.bits or bits >= 8:
        return f"{{{order}:{text}}}"
    return f"{{{order}:{text}E({bits})}}"


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length() if size > 1 else 1
