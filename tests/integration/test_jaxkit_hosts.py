"""Batches and keys over several processes, as on the hosts of a pod: real ones, talking by gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from ports import free_port

pytest.importorskip("jax")

PROGRAM = """
import json, sys
import jax
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", 2, int(sys.argv[2]))
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jupyter_tpu import jaxkit
from jupyter_tpu.errors import TPUError

mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
rows = np.arange(16.0).reshape(8, 2)
mine = rows[jaxkit.host_slice(8)]
batch = jaxkit.join_hosts({"x": mine}, mesh)["x"]
total = jax.jit(jnp.sum)(batch)
weights = jax.device_put(np.ones(2, np.float32), NamedSharding(mesh, P()))
keys = jaxkit.device_keys(jax.random.key(0), mesh)
try:
    jaxkit.save_weights("never.safetensors", {"x": batch})
    refused = ""
except TPUError as error:
    refused = str(error)
print(json.dumps({
    "devices": jax.device_count(),
    "local": jax.local_device_count(),
    "shape": batch.shape,
    "first": [float(shard.data[0, 0]) for shard in batch.addressable_shards],
    "total": float(total),
    "key": np.asarray(jax.random.key_data(jaxkit.process_key(jax.random.key(0)))).tolist(),
    "shards_of_keys": [
        np.asarray(jax.random.key_data(shard.data)).ravel().tolist()
        for shard in keys.addressable_shards
    ],
    "product": float(jax.jit(lambda x, w: (x @ w).sum())(batch, weights)),
    "refused": refused,
}))
"""


#: Meshes that give a host other rows than it loads: all of them, every second, the other half.
MESHES = """
import json, sys, tempfile
import jax
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", 2, int(sys.argv[2]))
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jupyter_tpu import jaxkit

devices = np.array(jax.devices())
meshes = {
    "repeated": Mesh(devices.reshape(2, 4), ("model", "data")),
    "mixed": Mesh(devices.reshape(2, 4).T.ravel(), ("data",)),
    "backwards": Mesh(devices[::-1], ("data",)),
    "plain": Mesh(devices, ("data",)),
}
rows = np.arange(16.0).reshape(8, 2)
mine = rows[jaxkit.host_slice(8)]
answer = {}
keys = jax.random.split(jax.random.key(0), 8)
key_data = np.asarray(jax.random.key_data(keys))
for name, mesh in meshes.items():
    loaded = {"x": mine, "y": mine[:, 0], "rng": keys[jaxkit.host_slice(8)]}
    batch = jaxkit.join_hosts(loaded, mesh, "data")
    padded, _ = jaxkit.shard_batch(keys[:6], mesh, "data", uneven="pad")
    answer[name] = batch["x"].shape == (8, 2) and all(
        (np.asarray(shard.data) == whole[shard.index]).all()
        for whole, array in (
            (rows, batch["x"]),
            (rows[:, 0], batch["y"]),
            (key_data, jax.random.key_data(batch["rng"])),
            (np.r_[key_data[:6], np.zeros((2, 2))], jax.random.key_data(padded)),
        )
        for shard in array.addressable_shards
    )
sharding = NamedSharding(meshes["plain"], P("data"))
with tempfile.TemporaryDirectory() as folder:
    file = jaxkit.save_weights(f"{folder}/keys.safetensors", {"rng": keys})
    read = jaxkit.load_weights(file, sharding=sharding)["rng"]
(ahead,) = jaxkit.prefetch([keys], sharding)
answer["placed"] = [read.sharding == ahead.sharding == sharding, read.shape, ahead.shape]
try:
    jaxkit.join_hosts(rows[:3], meshes["repeated"], "data")
except ValueError as error:
    answer["refused"] = str(error)
print(json.dumps(answer))
"""


def two_hosts(program: str, devices: int) -> list[dict[str, Any]]:
    """The last line that *program* prints in each of two processes with so many devices each."""
    port = free_port()
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        "NPROC": "16",
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(port), str(number)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
    return [json.loads(text.splitlines()[-1]) for text, _ in outputs]  # gloo prints before


def test_a_batch_of_two_hosts_has_all_rows_in_order_on_every_mesh() -> None:
    for answer in two_hosts(MESHES, 4):
        assert "a multiple of 2 rows" in answer.pop("refused")
        assert answer.pop("placed") == [True, [8], [8]]
        assert answer == {"repeated": True, "mixed": True, "backwards": True, "plain": True}


def test_two_hosts_make_one_batch_and_no_key_twice() -> None:
    answers = two_hosts(PROGRAM, 2)
    for answer in answers:
        assert (answer["devices"], answer["local"]) == (4, 2)
        assert answer["shape"] == [8, 2]
        assert answer["total"] == answer["product"] == 120.0
        assert "x is spread over several processes" in answer["refused"]
    assert [answer["first"] for answer in answers] == [[0.0, 4.0], [8.0, 12.0]]
    keys = [answer["key"] for answer in answers]
    shards = [shard for answer in answers for shard in answer["shards_of_keys"]]
    assert len({tuple(key) for key in keys + shards}) == 6
