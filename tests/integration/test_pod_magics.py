"""A notebook on this machine whose cells run on all hosts of an emulated pod."""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from local_kernels import Notebook, printed
from pod_environment import pod_with_jax, register_pod_kernel

ZONE, HOSTS = "us-central2-b", 2
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def notebook(emulator: Any) -> Iterator[Notebook]:
    with pod_with_jax(emulator, "pair", ZONE, HOSTS, "v4-16") as name:
        register_pod_kernel(emulator, ZONE, name, HOSTS)
        manager = KernelManager(kernel_name="python3")
        hidden = ("JAX_PLATFORMS", "PYTEST_CURRENT_TEST")
        own = {key: value for key, value in os.environ.items() if key not in hidden}
        manager.start_kernel(
            env={
                **own,
                "JUPYTER_TPU_PROJECT_SYNC": "off",
                "JUPYTER_TPU_EMULATOR": str(emulator.state_file),
            }
        )
        local = Notebook(manager)
        local.run("%load_ext jupyter_tpu")
        content, _ = local.run(f"%tpu auto on {name} --all-hosts", timeout=200)
        assert content["status"] == "ok", content
        local.run("pass", timeout=200)  # it may say what it waits for
        yield local
        local.close()
        manager.shutdown_kernel()


def shown(seen: list[dict]) -> str:
    texts = [
        message["content"]["data"].get("text/plain", "")
        for message in seen
        if message["msg_type"] in ("display_data", "update_display_data")
    ]
    return "\n".join(texts)


def test_cells_run_on_all_hosts_and_local_ones_here(notebook):
    content, seen = notebook.run("import jax; i = jax.process_index(); print(i)")
    assert content["status"] == "ok", content
    assert printed(seen) == "0\n"
    assert "host 1:\n    1" in shown(seen)
    _, seen = notebook.run("%%local\nimport os\nprint(os.getpid())")
    assert printed(seen) == f"{notebook.manager.provisioner.pid}\n"


def test_what_is_pushed_is_on_each_host_and_comes_back_from_one_or_all(notebook):
    notebook.run("%%local\nimport numpy\nx = numpy.arange(9_000_000)\nname = 'every host'")
    _, seen = notebook.run("%tpu push x name")
    assert re.match(r"Pushed x, name to all hosts of pair-\w+: 72\.0 MB", printed(seen))
    content, seen = notebook.run("print(name, x.dtype, int(x[8_999_999])); y = x[:3] + i")
    assert content["status"] == "ok", content
    assert (printed(seen), shown(seen)) == ("every host int64 8999999\n", "")
    for option, value in (("", "[0 1 2]"), ("--host 1", "[1 2 3]")):
        _, seen = notebook.run(f"%tpu pull y {option}")
        assert "Pulled y from" in printed(seen)
        _, seen = notebook.run("%%local\nprint(y)")
        assert printed(seen) == f"{value}\n"
    notebook.run("%tpu pull y i --host all")
    _, seen = notebook.run("%%local\nprint(i, [each.tolist() for each in y])")
    assert printed(seen) == "[0, 1] [[0, 1, 2], [1, 2, 3]]\n"
    content, _ = notebook.run("%tpu pull y --host 2")
    assert content["evalue"].startswith("'2' is not a host: they are 0 to 1.")


def test_a_transfer_that_fails_leaves_the_hosts_in_step(notebook):
    notebook.run("%%local\nz = open('/dev/null')")
    content, _ = notebook.run("%tpu push z")
    assert content["status"] == "error"
    content, _ = notebook.run("%tpu pull missing --host 1")
    assert "The variable missing does not exist in this kernel." in content["evalue"]
    _, seen = notebook.run("%hosts check")
    assert printed(seen) == "All hosts are in step.\n"


def test_memory_and_checkpoint_say_it_for_all_hosts_or_one(notebook):
    notebook.run("import jax.numpy as jnp; big = jnp.zeros((1000, 250 * (1 + i)), jnp.float32)")
    _, seen = notebook.run("%tpu memory")
    assert re.search(r"big +1000×250 ", printed(seen))
    assert re.search(r"host 1:\n(?: .*\n)*? +big +1000×500 ", shown(seen))
    _, seen = notebook.run("%tpu memory --host 1")
    assert re.search(r"big +1000×500 ", printed(seen))
    notebook.run("def save(): pass")
    _, seen = notebook.run("%tpu checkpoint save")
    assert printed(seen).startswith("save() runs when Google announces")
    assert shown(seen) == ""
