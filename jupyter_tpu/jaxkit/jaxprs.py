"""Walks a program that jax has traced: every operation, those of inner programs, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def operations(jaxpr: Any) -> Iterator[Any]:
    """The equations of *jaxpr* and of the programs in their parameters (loops, branches, calls)."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)  # closed ones
                if hasattr(inner, "eqns"):
                    yield from operations(inner)
