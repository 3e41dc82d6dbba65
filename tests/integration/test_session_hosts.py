"""`%tpu session` in kernels on hosts: saved by itself, also when Google announces the end."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from local_host import LocalHost
from local_kernels import Notebook, local_host, printed
from waiting import until

from jupyter_tpu.emulator.api.host_identity import HostIdentities
from jupyter_tpu.emulator.state_folder import EmulatorToken

Remote = tuple[LocalHost, Callable[..., KernelManager]]


@pytest.fixture
def node(emulator: Any) -> Iterator[dict[str, Any]]:
    with emulator.tpu("kept", "v5litepod-1", "us-west4-a") as made:
        yield made


@pytest.fixture
def remote(emulator: Any, node: dict[str, Any]) -> Iterator[Remote]:
    """A host that asks the metadata server of *node*."""
    identities = HostIdentities(EmulatorToken(Path(emulator.state.token_file)))
    variables = identities.variables(node["id"], emulator.state.rest)
    with local_host("kept", variables) as host:
        yield host


def saved_names(home: Path) -> list[str]:
    """The variables of the only session on the host's disk."""
    for path in home.rglob("sessions/manifests/*.json"):
        manifest = json.loads(json.loads(path.read_text())["manifest"])
        return sorted(name for group in manifest["groups"] for name in group["names"])
    return []


def test_variables_are_saved_between_cells_and_when_the_end_is_announced(remote, node, faults):
    host, make = remote
    manager = make()
    manager.start_kernel()
    notebook = Notebook(manager)
    try:
        notebook.run(
            "import os, jax.numpy as jnp\nassert 'JUPYTER_TPU_SESSION_KEY' not in os.environ"
        )
        assert "when no cell has run for 0.1 s" in notebook.text("%tpu session auto 0.1")
        notebook.run("x = jnp.arange(8.0)")
        until(lambda: "x" in saved_names(host.home))

        notebook.text("%tpu session auto 3600")
        cell = notebook.client.execute(
            "y = x + 1\nprint('begun', flush=True)\ninput()", allow_stdin=True
        )
        notebook.until_output(cell, "begun")
        faults(kind="preempt", node=node["name"], seconds=3600)
        shown = printed(notebook.until_output(cell, "%tpu session save finished"))
        assert "Google is about to preempt this TPU." in shown
        assert saved_names(host.home) == ["jnp", "os", "x", "y"]

        assert notebook.client.get_stdin_msg(timeout=30)
        notebook.client.input("")
        notebook.until_idle(cell)
        manager.restart_kernel(now=True)
        offered = notebook.text("1 + 1")
        assert "To put them into this kernel: %tpu session restore" in offered
        restored = notebook.text("%tpu session restore")
        assert restored.startswith("Restored 4 variables, saved ")
        assert "on kept" in restored
        assert notebook.text("print(jnp.array_equal(y, jnp.arange(8.0) + 1))") == "True\n"
    finally:
        notebook.close()
        manager.shutdown_kernel(now=True)
