"""JAX's own numbers, in this process, to compare with those of another one."""

from collections.abc import Callable

import jax
import numpy as np


def optimized(sample: Callable[[], jax.Array]) -> np.ndarray:
    """What *sample* gives with XLA's optimizations, as in any other process.

    The unit tests of jaxkit, which may have run in this process, do without (``jaxkit_here``), and
    the last bits of a float depend on them.
    """
    options = {"xla_backend_optimization_level": 3}
    return np.asarray(jax.jit(sample, compiler_options=options)())
