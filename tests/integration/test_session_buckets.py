"""`%tpu session` in a bucket: the variables of a TPU that is gone, on another one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local_kernels import Notebook, local_host
from pod_environment import pod_with_jax, register_pod_kernel
from pod_kernels import error_of, pod_kernel, restart
from waiting import until

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


def new_bucket(emulator: Any) -> str:
    bucket = f"sessions-{uuid.uuid4().hex[:8]}"
    body = {"name": bucket, "location": "us-west4"}
    emulator.request("POST", "/storage/v1/b?project=emulated", body)
    return bucket


def test_variables_come_back_from_a_bucket_on_a_tpu_with_fewer_devices(
    emulator: Any, faults: Callable[..., Any]
) -> None:
    place = f"work --in gs://{new_bucket(emulator)}/sessions"
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


ON_A_POD = """
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
sharding = NamedSharding(mesh, P("data", "model"))
def filled(number):
    return jax.make_array_from_callback((8, 8), sharding, lambda at: np.full((8, 8), number)[at])
weights, own = filled(1), jax.process_index()
"""
SUM = "print(int(jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, P()))(weights)))"


def test_a_pod_saves_by_itself_and_its_variables_come_back_on_it_and_on_one_host(emulator):
    bucket = new_bucket(emulator)
    place = f"--in gs://{bucket}"
    check = f"{SUM}\nassert own == jax.process_index()"

    def generation() -> str:
        path = f"/storage/v1/b/{bucket}/o/manifests%2Fdefault.json"
        return emulator.request("GET", path)["generation"]

    with pod_with_jax(
        emulator, "saved", "us-central2-b", 2, "v4-16", "cloudpickle tensorstore"
    ) as pod:
        spec, _ = register_pod_kernel(emulator, "us-central2-b", pod, 2)
        with pod_kernel(emulator, spec, pod) as notebook:
            notebook.run(ON_A_POD)
            _, refused = notebook.run("%tpu session save --host 1")
            assert "is saved and restored by all hosts together" in error_of(refused)
            saved = notebook.text(f"%tpu session save {place}")
            assert "Saved 10 variables of 2 hosts as default in gs://" in saved
            first = generation()
            assert "when no cell has run for 0.1 s" in notebook.text(
                f"%tpu session auto 0.1 {place}"
            )
            notebook.run("weights = filled(2)")
            until(lambda: generation() != first)
            assert "(emulated v4-16)" in notebook.text(f"%tpu session list {place}")
            notebook.text("%tpu session auto off")
            restart(notebook)
            restored = notebook.text(f"%tpu session restore {place}")
            assert "Restored 10 variables, saved " in restored
            assert notebook.text(check) == "128\n"
            saved = notebook.text("%tpu session save work")
            assert " variables of 2 hosts as work in /home/" in saved
            assert "work" in notebook.text("%tpu session list")
            assert "Deleted the session work" in notebook.text("%tpu session forget work")
            assert "There is no session" in notebook.text("%tpu session list")
    with notebook_on_a_tpu(emulator, "one", 4) as notebook:
        restored = notebook.text(f"%tpu session restore default {place}")
        assert "The session was saved on 2 hosts. Variables that differed" in restored
        assert notebook.text(check) == "128\n"
