"""Batches and keys over several processes, as on the hosts of a pod: real ones, talking by gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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


def test_two_hosts_make_one_batch_and_no_key_twice() -> None:
    port = free_port()
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "2",
        "NPROC": "16",
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(port), str(number)],
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
    answers = [json.loads(text.splitlines()[-1]) for text, _ in outputs]  # gloo prints before
    for answer in answers:
        assert (answer["devices"], answer["local"]) == (4, 2)
        assert answer["shape"] == [8, 2]
        assert answer["total"] == answer["product"] == 120.0
        assert "x is spread over several processes" in answer["refused"]
    assert [answer["first"] for answer in answers] == [[0.0, 4.0], [8.0, 12.0]]
    keys = [answer["key"] for answer in answers]
    shards = [shard for answer in answers for shard in answer["shards_of_keys"]]
    assert len({tuple(key) for key in keys + shards}) == 6
