"""The precision of matrix products by name.

On a TPU a float32 product is computed from bfloat16 parts unless asked otherwise. JAX takes the
names as strings; ``jax.lax.Precision.HIGHEST`` in the configuration, as older guides have it, is
an error.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax

from ..errors import InvalidInput

#: What people write -> what JAX's configuration takes.
_NAMES = {
    "default": "default",
    "bfloat16": "bfloat16",
    "fastest": "default",
    "high": "high",
    "bfloat16_3x": "high",
    "tensorfloat32": "high",
    "highest": "highest",
    "float32": "highest",
}


def matmul_precision(name: Any) -> AbstractContextManager[Any]:
    """Context in which products have precision *name*: "default", "high" or "highest".

    On a TPU: one, three or six bfloat16 passes per product. "bfloat16" and "float32" mean the
    first and the last; a `jax.lax.Precision` works too.
    """
    return jax.default_matmul_precision(precision_name(name))


def set_matmul_precision(name: Any) -> str:
    """Sets the precision of products for the whole process; returns the name JAX was given.

    Names as for `matmul_precision`; raises `TPUError` (INVALID) for others, with those there are.
    """
    value = precision_name(name)
    jax.config.update("jax_default_matmul_precision", value)
    return value


def precision_name(name: Any) -> str:
    """JAX's name for *name*; a `TPUError` (INVALID) lists the names where there is none."""
    if isinstance(name, jax.lax.Precision):
        name = name.name
    found = _NAMES.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise InvalidInput(
            f"There is no precision {name!r}.",
            f"The names are {', '.join(sorted(_NAMES))}.",
        )
    return found
