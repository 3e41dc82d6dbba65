"""jax as the unit tests of jaxkit use it: eight simulated CPU devices, no TPU plugin.

Imported before anything makes a backend. By configuration and not by environment, so that the
processes which other tests start see nothing of it.
"""

from math import prod

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)

assert jax.device_count() == 8, "something used jax before the tests of jaxkit could configure it"


def mesh_of(**axes: int) -> jax.sharding.Mesh:
    """A mesh with automatic axes over as many devices as the sizes make."""
    kinds = (jax.sharding.AxisType.Auto,) * len(axes)
    devices = jax.devices()[: prod(axes.values())]
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=kinds, devices=devices)
