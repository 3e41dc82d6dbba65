"""The sizes of a mesh's axes, checked; nothing here needs jax."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from math import prod
from typing import Any

from ...errors import InvalidInput
from ...wording import count

_MOST_AXES = 16


class DoesNotDivide(InvalidInput):
    """Sizes that do not divide evenly over this mesh; over another one they may."""


def nearest_sizes(size: int, parts: int) -> str:
    """The nearest multiples of *parts* below and above *size*, as a sentence."""
    lower = size // parts * parts
    if not lower:
        return f"The nearest size is {parts}."
    return f"The nearest sizes are {lower} and {lower + parts}."


def axis_sizes(axes: Any, devices: int | None) -> dict[str, int]:
    """Axis -> size, with -1 replaced; *devices*: how many there are, None if any number will do.

    *axes*: axis -> size, or one name. Raises `InvalidInput`, or `DoesNotDivide` with the sizes that
    are possible.
    """
    if isinstance(axes, str):
        axes = {axes: -1}
    elif not isinstance(axes, Mapping) and len(axes) == 1:
        axes = dict.fromkeys(axes, -1)
    named = isinstance(axes, Mapping) and 0 < len(axes) <= _MOST_AXES
    if not named or not all(isinstance(name, str) and name for name in axes):
        raise InvalidInput(
            "The axes of a mesh are names with sizes, such as {'data': 4, 'model': 2}.",
        )
    sizes = {name: _size(name, size) for name, size in axes.items()}
    free = [name for name, size in sizes.items() if size == -1]
    if len(free) > 1:
        raise InvalidInput("Only one size of a mesh can be -1.")
    if devices is None:
        if free:
            raise InvalidInput(f"The size of axis {free[0]!r} must be a number here, not -1.")
        return sizes
    known = prod(size for size in sizes.values() if size != -1)
    if (devices % known) if free else (known != devices):
        shown = " × ".join(f"{name}={size}" for name, size in sizes.items())
        divisors = [str(number) for number in range(1, devices + 1) if devices % number == 0]
        raise DoesNotDivide(
            f"A mesh of {shown} does not divide {count(devices, 'device')}.",
            f"The product of the sizes must be {devices}; its divisors are {', '.join(divisors)}.",
        )
    return {name: devices // known if size == -1 else size for name, size in sizes.items()}


def _size(name: str, size: Any) -> int:
    try:
        if isinstance(size, bool):
            raise TypeError
        number = operator.index(size)
    except TypeError:
        number = 0
    if number < 1 and number != -1:
        raise InvalidInput(
            f"The size of axis {name!r} must be a positive whole number, not {size!r}.",
        )
    return number
