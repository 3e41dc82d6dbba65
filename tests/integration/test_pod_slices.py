"""One notebook on two emulated slices of two hosts each."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from local_kernels import Notebook, printed
from pod_environment import make_environments, register_pod_kernel

from jupyter_tpu.links import core_thread

ZONE, HOSTS = "us-central2-b", 2
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def notebook(emulator: Any) -> Iterator[Notebook]:
    with (
        emulator.tpu("slice", "v4-16", ZONE) as first,
        emulator.tpu("slice", "v4-16", ZONE) as second,
    ):
        names = [node["name"].rpartition("/")[2] for node in (first, second)]
        for name in names:
            core_thread().wait(make_environments(emulator, ZONE, name, HOSTS))
        spec, display_name = register_pod_kernel(
            emulator, ZONE, names[0], 2 * HOSTS, slices=names[1:]
        )
        assert display_name == (
            f"Python 3.11 · {names[0]} + {names[1]} (2 slices, all 4 hosts, emulated)"
        )
        manager = KernelManager(kernel_name=spec)
        manager.start_kernel(env={**os.environ, "JUPYTER_TPU_PROJECT_SYNC": "off"})
        made = Notebook(manager)
        made.run("pass", timeout=200)
        yield made
        made.close()
        manager.shutdown_kernel(now=True)
        for name in names:
            emulator.end_all(name)


def shown(seen: list[dict]) -> str:
    return "\n".join(
        message["content"]["data"]["text/plain"]
        for message in seen
        if message["msg_type"] in ("display_data", "update_display_data")
    )


def test_a_cell_runs_on_the_hosts_of_all_slices_which_know_their_slice(notebook):
    text = notebook.text(
        "import jax, os\nfrom jax.experimental import multihost_utils as m\n"
        "slice_id = int(os.environ['MEGASCALE_SLICE_ID'])\n"
        "print(jax.device_count(), jax.process_count(), os.environ['MEGASCALE_NUM_SLICES'],\n"
        "      m.process_allgather(jax.numpy.array(slice_id)).tolist(),\n"
        "      len({*m.process_allgather(jax.numpy.array(list(map(int, os.environ[\n"
        "          'MEGASCALE_COORDINATOR_ADDRESS'].split('.'))))).ravel().tolist()}) <= 4)"
    )
    assert text == "16 4 2 [0, 0, 1, 1] True\n"


def test_hosts_are_named_with_their_slice(notebook):
    _, seen = notebook.run("if slice_id == 1: print('second')")
    assert shown(seen).startswith("The output above is that of hosts 0, 1 of slice 0.")
    assert "\nhosts 0, 1 of slice 1:\n    second" in shown(seen)
    _, seen = notebook.run("%%host 1.1\nimport jax\nprint(jax.process_index())")
    assert printed(seen) == "3\n"
    _, seen = notebook.run("%%slice 1\nprint(jax.process_index())")
    assert printed(seen) == "2\n"
    assert shown(seen).endswith("host 1 of slice 1:\n    3")
    content, _ = notebook.run("%%host 2\n1")
    assert content["evalue"].startswith("'2' does not name hosts. Write for example 0.1")
    content, _ = notebook.run("import os\nif slice_id == 1: raise ValueError('no')")
    assert content["evalue"] == "no (hosts 0, 1 of slice 1)"
    _, seen = notebook.run("%hosts check")
    assert printed(seen) == "All hosts are in step.\n"


def test_a_host_of_the_other_slice_that_dies_is_named_with_its_slice(notebook):
    content, _ = notebook.run("import os, jax\nif jax.process_index() == 3: os._exit(3)")
    assert content["ename"] == "KernelDied"
    content, _ = notebook.run("1")
    assert content["evalue"] == "The kernel of host 1 of slice 1 exited with code 3."
