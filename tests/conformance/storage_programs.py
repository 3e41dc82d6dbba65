"""Programs as people have them on TPU hosts: none of them knows that Cloud Storage is emulated.

Each is run by ``python storage_programs.py NAME BUCKET …``, with the variables of a host.
"""

from __future__ import annotations

import os
import sys


def clients(bucket: str) -> None:
    """What one client writes, the others read: google-cloud-storage, gcsfs, TensorStore."""
    import gcsfs
    import google.auth
    import tensorstore
    from google.cloud import storage

    client = storage.Client()
    client.create_bucket(bucket, location="us-central1").blob("by/storage").upload_from_string(b"1")
    files = gcsfs.GCSFileSystem()
    files.pipe(f"{bucket}/by/gcsfs", b"2")
    store = tensorstore.KvStore.open(f"gs://{bucket}/by/").result()
    store.write("tensorstore", b"3").result()
    names = ["by/gcsfs", "by/storage", "by/tensorstore"]
    assert [blob.name for blob in client.list_blobs(bucket)] == names
    assert files.ls(f"{bucket}/by") == [f"{bucket}/{name}" for name in names]
    assert store.list().result() == [name.removeprefix("by/").encode() for name in names]
    assert [client.bucket(bucket).blob(name).download_as_bytes() for name in names] == [
        *(b"2", b"1", b"3")
    ]
    assert [files.cat(f"{bucket}/{name}") for name in names] == [b"2", b"1", b"3"]
    assert store.read("storage").result().value == b"1"
    credentials, project = google.auth.default()  # from the host's metadata server
    assert project == "emulated"
    # With credentials, too, and not only by the address, which is a host's own.
    root = os.environ.pop("STORAGE_EMULATOR_HOST").partition("/metadata/")[0]
    os.environ["API_ENDPOINT_OVERRIDE"] = root
    client = storage.Client(credentials=credentials)
    assert [blob.name for blob in client.list_blobs(bucket)] == names


def arrays(bucket: str) -> None:
    """TensorStore's zarr3, alone and in OCDBT; and a conditional write that comes too late."""
    import numpy as np
    import tensorstore as ts

    values = np.arange(2048 * 2048, dtype="float32").reshape(2048, 2048)
    for store in (
        f"gs://{bucket}/zarr3/",
        {"driver": "ocdbt", "base": f"gs://{bucket}/ocdbt/"},
    ):
        spec = {"driver": "zarr3", "kvstore": store}
        layout = ts.ChunkLayout(chunk_shape=(512, 1024))
        new = ts.open(spec, create=True, dtype="float32", shape=values.shape, chunk_layout=layout)
        new.result().write(values).result()
        again = ts.open(spec).result()
        assert (again.read().result() == values).all()
        assert (again[700:702, 5:9].read().result() == values[700:702, 5:9]).all()
        with ts.Transaction() as transaction:
            again.with_transaction(transaction)[0, :] = 7
        assert (ts.open(spec).result()[0].read().result() == 7).all()
    kv = ts.KvStore.open(f"gs://{bucket}/kv/").result()
    first = kv.write("key", b"1", if_equal=b"").result().generation
    assert kv.write("key", b"2", if_equal=first).result().generation not in (b"", first)
    late = kv.write("key", b"3", if_equal=first).result()
    assert late.generation == b""
    assert kv.read("key").result().value == b"2"
    assert kv.read("key", if_not_equal=first).result().value == b"2"
    second = kv.read("key").result().stamp.generation
    assert kv.read("key", if_not_equal=second).result().state == "unspecified"
    assert kv.read("other").result().state == "missing"


def large(bucket: str) -> None:
    """TensorStore writes and reads a value of 40 MB."""
    import tensorstore as ts

    value = os.urandom(40 * 2**20)
    kv = ts.KvStore.open(f"gs://{bucket}/").result()
    kv.write("large", value).result()
    assert kv.read("large").result().value == value


def database(bucket: str, writer: str) -> None:
    """Ten transactions in a database that others write at the same time."""
    import tensorstore as ts

    for number in range(10):
        # Opened anew each time, so that what others have written is not known before.
        base = {"driver": "ocdbt", "base": f"gs://{bucket}/database/"}
        kv = ts.KvStore.open(base, context=ts.Context()).result()
        kv.write(f"{writer}-{number}", writer.encode() * 1000).result()


def checkpoint(bucket: str) -> None:
    """Orbax saves arrays of 8 devices, and restores them onto 4."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import orbax.checkpoint as ocp
    import tensorstore as ts
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    def placed(devices: int) -> NamedSharding:
        mesh = Mesh(jax.devices()[:devices], ("x",))
        return NamedSharding(mesh, PartitionSpec("x"))

    tree = {
        "w": jax.device_put(np.arange(64, dtype="float32").reshape(16, 4), placed(8)),
        "b": jax.device_put(np.arange(8).astype(jnp.bfloat16), placed(8)),
    }
    path = f"gs://{bucket}/checkpoints/1"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, tree)
        checkpointer.wait_until_finished()
        shape = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=placed(4)), tree
        )
        restored = checkpointer.restore(path, shape)
    for name, array in tree.items():
        assert (np.asarray(restored[name]) == np.asarray(array)).all()
        assert len(restored[name].sharding.device_set) == 4
    assert b"manifest.ocdbt" in ts.KvStore.open(f"{path}/").result().list().result()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
