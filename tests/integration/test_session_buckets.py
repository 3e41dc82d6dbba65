"""`%tpu session` in a bucket: the variables of a TPU that is gone, on another one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local_kernels import Notebook, local_host

from jupyter_tpu.emulator.api.host_identity import HostIdentities
from jupyter_tpu.emulator.state_folder import EmulatorToken

VARIABLES = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
mesh = jax.make_mesh((4, 2), ("data", "model"))
weights = jax.device_put(
    np.arange(2**20, dtype="float32").reshape(1024, 1024),
    NamedSharding(mesh, PartitionSpec("data", "model")),
)
same, factor = weights, 3
def scaled(x):
    return x * factor
"""
CHECK = """
assert same is weights and scaled(2) == 6
assert np.array_equal(weights, np.arange(2**20, dtype="float32").reshape(1024, 1024))
print(len(weights.sharding.device_set), tuple(weights.sharding.spec))
"""


@contextmanager
def notebook_on_a_tpu(emulator: Any, name: str, devices: int) -> Iterator[Notebook]:
    """A kernel with the variables of a host of a new TPU."""
    identities = HostIdentities(EmulatorToken(Path(emulator.state.token_file)))
    with emulator.tpu(name, "v5litepod-1", "us-west4-a") as node:
        variables = {
            **identities.variables(node["id"], emulator.state.rest),
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": str(devices),
        }
        with local_host(name, variables) as (_, make):
            manager = make()
            manager.start_kernel()
            notebook = Notebook(manager)
            try:
                yield notebook
            finally:
                notebook.close()
                manager.shutdown_kernel(now=True)


def test_variables_come_back_from_a_bucket_on_a_tpu_with_fewer_devices(
    emulator: Any, faults: Callable[..., Any]
) -> None:
    bucket = f"sessions-{uuid.uuid4().hex[:8]}"
    body = {"name": bucket, "location": "us-west4"}
    emulator.request("POST", "/storage/v1/b?project=emulated", body)
    place = f"work --in gs://{bucket}/sessions"
    with notebook_on_a_tpu(emulator, "before", 8) as notebook:
        notebook.run(VARIABLES)
        faults("error", method="objects.insert", code="RESOURCE_EXHAUSTED", count=1)
        assert "Saved 9 variables as work in gs://" in notebook.text(f"%tpu session save {place}")
        # A save that fails leaves the session before it.
        fault = faults("permission")
        notebook.run("weights, factor = weights + 1, 4")
        (refused,) = notebook.text(f"%tpu session save {place}").splitlines()
        assert "can't be used: PERMISSION_DENIED" in refused
        assert "does not have storage.objects.create access" in refused
        emulator.request("DELETE", f"/emulator/v1/faults/{fault['id']}")
    with notebook_on_a_tpu(emulator, "after", 4) as notebook:
        restored = notebook.text(f"%tpu session restore {place}")
        assert restored.startswith("Restored 9 variables, saved ")
        assert "The mesh data=4, model=2 has the sizes data=2, model=2 here." in restored
        assert notebook.text(CHECK) == "4 ('data', 'model')\n"
