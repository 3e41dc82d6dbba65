"""The request and the answer of `placement`: a row per array and one per TPU type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ...wording import count
from ..arrays import ArrayRequest, Generation, Memory, MeshAxes, Shape, Spec
from ..tables import MAX_ROWS, binary_size, html_table, shape_text, text_table, with_rest

_PLACEMENT_HEADS = ("", "dtype", "shape", "split", "per device", "copies", "size", "in HBM")
_TYPE_HEADS = ("type", "devices", "HBM per device", "fits")


class PlacementRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/placement."""

    mesh: MeshAxes
    #: Name -> array or tree; what is in a tree has a path for a name, "layers/0/kernel".
    arrays: dict[str, ArrayRequest]
    #: The types to check; all of the catalog by default.
    types: list[str] | None = None
    #: The generation whose padding `padded_bytes` has.
    generation: Generation = "v5e"
    #: Draw the array of this name.
    picture: str | None = None
    theme: Literal["auto", "light", "dark", "inherit"] = "auto"


class ArrayPlacement(Struct, kw_only=True):
    """What one device holds of an array."""

    name: str
    shape: Shape
    dtype: str
    spec: Spec
    shard_shape: Shape
    #: The number of different shards, and of copies of each.
    shards: int
    copies: int
    #: What is in the host's memory takes no HBM.
    memory: Memory
    bytes: int  # of the whole array, once
    bytes_per_device: int
    padded_bytes_per_device: int

    @property
    def replicated(self) -> bool:
        """Whether every device holds all of it."""
        return self.shards == 1


class TypeFit(Struct, kw_only=True):
    """Whether the arrays fit a TPU type; a program also needs memory for its temporaries."""

    type: str
    fits: bool
    devices: int
    #: What a program may use on one device.
    hbm_bytes_per_device: int
    padded_bytes_per_device: int
    #: Why not, in a few words; "" if it fits.
    why: str = ""


class Placement(Struct, kw_only=True):
    """The answer of jax/placement."""

    mesh: MeshAxes
    devices: int
    generation: str
    arrays: list[ArrayPlacement]
    bytes: int
    #: In HBM.
    bytes_per_device: int
    padded_bytes_per_device: int
    #: In the memory of the host, for each of its devices.
    host_bytes_per_device: int
    #: The names of the replicated arrays, and the bytes they take on each device.
    replicated: list[str]
    replicated_bytes_per_device: int
    types: list[TypeFit]
    picture: str | None = None

    def __repr__(self) -> str:
        return "\n".join(
            [
                self._title(),
                text_table(_PLACEMENT_HEADS, self._rows()),
                "",
                text_table(_TYPE_HEADS, self._type_rows()),
            ]
        )

    def _repr_html_(self) -> str:
        return (
            (self.picture or "")
            + html_table(_PLACEMENT_HEADS, self._rows(), self._title())
            + html_table(_TYPE_HEADS, self._type_rows())
        )

    def _title(self) -> str:
        mesh = " × ".join(f"{name}={size}" for name, size in self.mesh.items())
        return (
            f"Mesh {mesh} ({count(self.devices, 'device')}): {binary_size(self.bytes)} in all, "
            f"{binary_size(self.padded_bytes_per_device)} per device with padding, of which "
            f"{binary_size(self.replicated_bytes_per_device)} are replicated on every device"
        )

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            (
                row.name,
                row.dtype,
                shape_text(row.shape),
                _spec(row.spec),
                shape_text(row.shard_shape),
                str(row.copies),
                binary_size(row.bytes_per_device),
                binary_size(row.padded_bytes_per_device)
                if row.memory == "device"
                else "on the host",
            )
            for row in self.arrays[:MAX_ROWS]
        ]
        return with_rest(rows, len(self.arrays))

    def _type_rows(self) -> list[tuple[str, ...]]:
        # All 60 types are too many: the smallest that fit, then the nearest that don't.
        fitting = [row for row in self.types if row.fits]
        others = [row for row in self.types if not row.fits]
        rows: list[tuple[str, ...]] = [
            (
                row.type,
                str(row.devices),
                binary_size(row.hbm_bytes_per_device),
                "yes" if row.fits else f"no: {row.why}",
            )
            for row in [*fitting[: MAX_ROWS // 2], *others[: MAX_ROWS // 2]]
        ]
        return with_rest(rows, len(self.types))


def _spec(spec: Sequence[str | list[str] | None]) -> str:
    parts = [part if isinstance(part, str) else "+".join(part or ()) or "–" for part in spec]
    return ", ".join(parts) if any(part != "–" for part in parts) else "not split"
