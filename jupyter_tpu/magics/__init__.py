"""A face: ``%tpu`` and ``%%tpu``, which run cells of a local notebook on a TPU's host."""

from __future__ import annotations

from typing import Any

_loaded: dict[int, Any] = {}


def load(ipython: Any) -> None:
    """Registers the magics in an IPython shell; the work is imported when one is first used."""
    from .magic import TPUMagics

    if id(ipython) not in _loaded:
        _loaded[id(ipython)] = TPUMagics(ipython)
        _loaded[id(ipython)].register()


def unload(ipython: Any) -> None:
    """Removes the magics, and shuts down the remote kernels they started."""
    magics = _loaded.pop(id(ipython), None)
    if magics is not None:
        magics.unregister()
