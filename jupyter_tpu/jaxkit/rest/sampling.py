"""Samples from every distribution of ``jax.random``, on the CPU, bit for bit as jax gives them.

Everything is checked by name first, and the largest array is known before anything is computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache, partial
from math import prod
from typing import Any

import jax
import numpy as np

from ...errors import InvalidInput, TPUError
from ..arrays import operations
from ..keys import one_key
from ..shapes import KEYS, bits_of, checked_shape, dtype_name

_NAMES = """
ball bernoulli beta binomial bits categorical cauchy chisquare choice dirichlet
double_sided_maxwell exponential f gamma generalized_normal geometric gumbel laplace loggamma
logistic lognormal maxwell multinomial multivariate_normal normal orthogonal pareto permutation
poisson rademacher randint rayleigh t triangular truncated_normal uniform wald weibull_min
"""
#: The distributions of jax.random; what the installed version lacks is left out.
DISTRIBUTIONS = tuple(name for name in _NAMES.split() if hasattr(jax.random, name))

#: Parameters that are static for the program, not numbers in it.
_STATIC = {"axis", "d", "dtype", "independent", "m", "method", "mode", "replace", "shape", "unroll"}
#: Whole numbers that are static in these distributions (an array elsewhere).
_STATIC_IN = {"orthogonal": {"n"}, "choice": {"a"}, "permutation": {"x"}}


def sample(
    distribution: str,
    key: jax.Array,
    shape: Any,
    dtype: Any,
    parameters: Mapping[str, Any],
    max_elements: int | None = None,
) -> jax.Array:
    """Draws from ``jax.random.<distribution>`` on the CPU; bit for bit what jax gives there.

    *shape*: None for what the parameters give. *parameters*: the distribution's own, by name
    (``minval``, ``lam``, ``p``). *max_elements*: a draw is rejected, before anything is computed,
    if it would make a larger array on the way.

    Raises `InvalidInput` for unknown distributions and parameters, bad shapes and dtypes, and
    values that jax rejects.
    """
    cpu = jax.local_devices(backend="cpu")[0]
    with jax.default_device(cpu):
        key = jax.device_put(one_key(key), cpu)
        call, arrays = prepare(distribution, shape, dtype, parameters)
        try:
            largest = 0 if max_elements is None else largest_array(call, key, arrays)
            if max_elements is not None and largest > max_elements:
                raise _too_large(largest, max_elements)
            return call(key, **arrays)
        except TPUError:
            raise
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            raise _rejected(distribution, error) from error
        except jax.errors.JaxRuntimeError as error:
            raise _rejected(distribution, error) from error


def prepare(
    distribution: str, shape: Any, dtype: Any, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The sampling function of a key and arrays, and the arrays; all parameters are checked."""
    accepted = accepted_parameters(distribution)
    unknown = sorted(set(parameters) - set(accepted))
    if unknown:
        own = ", ".join(name for name in accepted if name not in ("shape", "dtype"))
        raise InvalidInput(
            f"{distribution} has no parameter {unknown[0]!r}.",
            f"Its parameters are: {own or 'none'}.",
        )
    static: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    if shape is not None:
        if "shape" not in accepted:
            raise InvalidInput(f"{distribution} has no parameter shape.")
        static["shape"] = checked_shape(shape)
    if dtype is not None:
        if "dtype" not in accepted:
            raise InvalidInput(f"{distribution} has no parameter dtype.")
        name = dtype_name(dtype)
        if name in KEYS:
            raise InvalidInput(f"{distribution} samples numbers, not random keys ({name}).")
        if bits_of(name) == 64 and not jax.config.read("jax_enable_x64"):
            raise InvalidInput(f"{name} needs jax_enable_x64; without it JAX uses 32 bits.")
        static["dtype"] = np.dtype(getattr(jax.numpy, name))
    for name, value in parameters.items():
        if name in _STATIC or (name in _STATIC_IN.get(distribution, ()) and _whole(value)):
            static[name] = value
        else:
            arrays[name] = _array(name, value)
    missing = sorted(
        name
        for name, parameter in accepted.items()
        if parameter.default is inspect.Parameter.empty and name not in {**static, **arrays}
    )
    if missing:
        raise InvalidInput(f"{distribution} needs {' and '.join(missing)}.")
    return partial(getattr(jax.random, distribution), **static), arrays


@cache
def accepted_parameters(distribution: str) -> dict[str, inspect.Parameter]:
    """The parameters of a distribution by name, without the key; raises `InvalidInput`."""
    if distribution not in DISTRIBUTIONS:
        raise InvalidInput(
            f"Unknown distribution {str(distribution)[:60]!r}.",
            f"The distributions are {', '.join(DISTRIBUTIONS)}.",
        )
    accepted = inspect.signature(getattr(jax.random, distribution)).parameters
    return {name: accepted[name] for name in accepted if name not in ("key", "out_sharding")}


def largest_array(call: Any, key: jax.Array, arrays: Mapping[str, Any]) -> int:
    """Elements of the largest array made while drawing, found without drawing.

    The result may be small and the work large: one number chosen without replacement out of 10**9
    shuffles all of them.
    """
    signature = (
        call.func.__name__,
        tuple(sorted((name, str(value)) for name, value in call.keywords.items())),
        str(jax.typeof(key)),
        tuple((name, str(jax.typeof(value))) for name, value in sorted(arrays.items())),
    )
    if signature not in _LARGEST:
        if len(_LARGEST) > 1000:
            _LARGEST.clear()
        _LARGEST[signature] = _measure(call, key, arrays)
    return _LARGEST[signature]


#: Results of `largest_array` by all that they depend on: tracing is slower than a small draw.
_LARGEST: dict[Any, int] = {}


def _measure(call: Any, key: jax.Array, arrays: Mapping[str, Any]) -> int:
    jaxpr = jax.make_jaxpr(call)(key, **arrays)
    made = [variable.aval for step in operations(jaxpr.jaxpr) for variable in step.outvars]
    return max((prod(getattr(aval, "shape", ())) for aval in [*made, *jaxpr.out_avals]), default=0)


def _too_large(elements: int, limit: int) -> TPUError:
    return InvalidInput(
        f"This draw makes an array of {elements:,} elements; {limit:,} are allowed here.",
        "Draw it in parts, or in a notebook with jax.random.",
    )


def _array(name: str, value: Any) -> Any:
    if isinstance(value, (jax.Array, np.ndarray, bool, int, float)):
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        array = None
    if array is None or array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} must be a number or a list of numbers of equal lengths.")
    # What jax makes of a Python list: 32 bits unless x64 is on.
    return jax.numpy.asarray(array)


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _rejected(distribution: str, error: Exception) -> TPUError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return InvalidInput(f"jax rejects this {distribution}: {lines[0][:300]}")
