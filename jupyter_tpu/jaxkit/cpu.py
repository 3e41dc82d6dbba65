"""Computing on the host's CPU while a TPU is the default: small, quick, leaves HBM alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import jax

from ..errors import InvalidInput


def cpu_device(index: int = 0) -> jax.Device:
    """The *index*-th CPU device of this process.

    Raises `TPUError` (INVALID) where JAX was told to leave the CPU out (``JAX_PLATFORMS=tpu``), or
    has fewer CPU devices.
    """
    try:
        devices = jax.local_devices(backend="cpu")
    except RuntimeError as error:
        raise InvalidInput(
            "JAX has no CPU device in this process.",
            "JAX_PLATFORMS leaves the CPU out: set it to 'tpu,cpu', or unset it, before jax is "
            "first used.",
        ) from error
    if not 0 <= index < len(devices):
        raise InvalidInput(
            f"There is no CPU device {index}; this process has {len(devices)}.",
            "Simulated ones are made with JAX_NUM_CPU_DEVICES, set before jax is first used.",
        )
    return devices[index]


def on_cpu(target: Any = 0) -> Any:
    """Context and decorator: what is made inside lives and is computed on the host's CPU.

    ``with on_cpu():``, ``@on_cpu``, and ``on_cpu(1)`` for the second CPU device. It sets the
    *default* device: an array that was put on a device on purpose stays there, and so does what is
    computed from it. Plain functions only: between two steps of a generator or coroutine the
    caller's code would run on the CPU too (TypeError).
    """
    return _OnCPU(0)(target) if callable(target) else _OnCPU(target)


class _OnCPU:
    def __init__(self, index: int) -> None:
        self._index = index
        self._entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> jax.Device:
        device = cpu_device(self._index)
        context = jax.default_device(device)
        context.__enter__()
        self._entered.append(context)
        return device

    def __exit__(self, *exception: Any) -> None:
        self._entered.pop().__exit__(*exception)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        kinds = (
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
            inspect.isgeneratorfunction,
        )
        if any(kind(function) for kind in kinds):
            raise TypeError("on_cpu decorates plain functions; use `with on_cpu():` inside others.")

        @wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            with jax.default_device(cpu_device(self._index)):
                return function(*arguments, **options)

        return wrapped
