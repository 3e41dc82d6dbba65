"""jax as the unit tests of jaxkit use it: eight simulated CPU devices, no TPU plugin.

Imported before anything makes a backend. The processes which other tests start see nothing of it.
"""

import os
from math import prod

import jax
import pytest

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)

with pytest.MonkeyPatch.context() as patch:
    # The tests compile much and calculate little: half the time without XLA's optimizations.
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"
    patch.setenv("XLA_FLAGS", flags)  # read when the backend is made, and not again
    devices = jax.device_count()

assert devices == 8, "something used jax before the tests of jaxkit could configure it"


def mesh_of(**axes: int) -> jax.sharding.Mesh:
    """A mesh with automatic axes over as many devices as the sizes make."""
    kinds = (jax.sharding.AxisType.Auto,) * len(axes)
    devices = jax.devices()[: prod(axes.values())]
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=kinds, devices=devices)
