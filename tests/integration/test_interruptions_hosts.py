"""What happens when Google announces to a host that it is about to stop it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from local_host import LocalHost
from local_kernels import Notebook, local_host, printed
from pod_fleet import open_pod
from waiting import eventually

from jupyter_tpu.emulator.api.host_identity import HostIdentities
from jupyter_tpu.emulator.state_folder import EmulatorToken
from jupyter_tpu.fleet.models import TPU, StartJob
from jupyter_tpu.links import core_thread
from jupyter_tpu.on_host.agent.protocol import requests
from jupyter_tpu.on_host.agent.protocol.declarations import ProtocolRequest

Remote = tuple[LocalHost, Callable[..., KernelManager]]


@pytest.fixture(scope="module")
def node(emulator: Any) -> Iterator[dict[str, Any]]:
    with emulator.tpu("interrupted", "v5litepod-1", "us-west4-a") as made:
        yield made


@pytest.fixture(scope="module")
def remote(emulator: Any, node: dict[str, Any]) -> Iterator[Remote]:
    """A host that asks the metadata server of *node*."""
    identities = HostIdentities(EmulatorToken(Path(emulator.state.token_file)))
    variables = identities.variables(node["id"], emulator.state.rest)
    with local_host("interrupted", variables) as host:
        yield host


def status(host: LocalHost, **params: Any) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        return await (await host.agent()).request(
            requests.GetStatusRequest(environments=[], **params)
        )

    return core_thread().wait(ask())


SETUP = """
def save():
    print("saving", len(state), "steps")
    with open("saved", "w") as file:
        file.write(repr(state))
    done.set()
"""
#: It runs until the function has run beside it.
CELL = """
import threading
done, state = threading.Event(), [1, 2, 3]
print("begun", flush=True)
while not done.wait(0.01):
    pass
%tpu checkpoint off
input()
"""


def test_the_running_cell_hears_of_it_at_once_and_the_chosen_function_runs_beside_it(
    remote, node, faults
):
    host, make = remote
    manager = make()
    manager.start_kernel()
    notebook = Notebook(manager)
    try:
        notebook.run(SETUP)
        assert "it is not a function" in notebook.text("n = 1\n%tpu checkpoint n")
        assert "save() runs when Google" in notebook.text("%tpu checkpoint save")
        cell = notebook.client.execute(CELL, allow_stdin=True)
        notebook.until_output(cell, "begun")
        before = status(host)
        assert before["interruption"] is None
        faults(kind="preempt", node=node["name"], seconds=3600)
        shown = printed(notebook.until_output(cell, "save() finished"))
        assert "Google is about to preempt this TPU. This ends the kernel." in shown
        assert "save() is running" in shown
        saved = next(host.home.rglob("saved"))
        assert saved.read_text() == "[1, 2, 3]"
        after = status(host, version=before["version"], seconds=30)
        assert after["interruption"]["kind"] == "preemption"
        (run,) = status(host)["interruption"]["checkpoints"]
        assert (run["what"], run["state"], run["error"]) == ("save()", "done", "")
        notebook.client.input("")
        assert "Google is about" not in printed(notebook.until_idle(cell)), "it is said once"

        # Chosen only now, also in a kernel that is started only now, it runs at once.
        assert notebook.client.get_stdin_msg(timeout=30)
        for restarted in False, True:
            if restarted:
                manager.restart_kernel(now=True)
                notebook.run(f"import threading\ndone, state = threading.Event(), [1, 2, 3]{SETUP}")
            saved.unlink()
            cell = notebook.client.execute("%tpu checkpoint save\ninput()", allow_stdin=True)
            seen = notebook.until_output(cell, "save() finished")
            assert saved.read_text() == "[1, 2, 3]"
            assert notebook.client.get_stdin_msg(timeout=30)
            notebook.client.input("")
            assert "save() runs now: it is announced" in printed(seen + notebook.until_idle(cell))
    finally:
        notebook.close()
        manager.shutdown_kernel(now=True)


@pytest.mark.long
def test_the_running_cell_hears_of_the_guard_and_the_chosen_function_runs(remote, node):
    host, make = remote
    manager = make()
    manager.start_kernel()
    notebook = Notebook(manager)

    def ask(request: ProtocolRequest[Any]) -> None:
        async def asked() -> None:
            await (await host.agent()).request(request)

        core_thread().wait(asked())

    def set_guard(seconds: float) -> None:
        rule = {"action": "stop", "node": node["name"], "node_id": node["id"], "notice": 3600}
        ask(requests.SetGuardRequest(until=time.time() + seconds, **rule))

    try:
        notebook.run(SETUP)
        notebook.text("%tpu checkpoint save")
        cell = notebook.client.execute(CELL, allow_stdin=True)
        notebook.until_output(cell, "begun")
        set_guard(7200.0)  # nothing is announced yet
        set_guard(1800.0)
        shown = printed(notebook.until_output(cell, "save() finished"))
        assert shown.count("The guard of this TPU stops it at ") == 1
        assert ": its time limit is reached. That ends this kernel." in shown
        assert "jupyter tpu guard keep interrupted" in shown
        notebook.client.input("")
    finally:
        ask(requests.RemoveGuardRequest())
        notebook.close()
        manager.shutdown_kernel(now=True)


@pytest.mark.long
async def test_a_tpu_shows_what_its_hosts_are_told_until_it_is_over(
    emulator, create_tpu, faults, tmp_path
):
    node = create_tpu(type="v5litepod-16", zone="us-west4-a")
    tpu = node["name"].rpartition("/")[2]
    async with open_pod(emulator, tpu, tmp_path) as pod:
        # The hosts of jobs are asked all the time, as those of connected TPUs are.
        await pod.fleet.jobs.start(tpu, StartJob(command=["sleep", "600"], restart_with_tpu=True))

        async def shown(accept: Callable[[TPU], bool]) -> TPU:
            async def accepted() -> TPU | None:
                seen = await pod.fleet.tpu(tpu)
                return seen if accept(seen) else None

            return await eventually(accepted, 120)

        faults(kind="announce-maintenance", node=node["name"], seconds=20)
        told = (await shown(lambda seen: seen.interruption is not None)).interruption
        assert told.kind == "maintenance"
        everywhere = await shown(lambda s: s.interruption is None or len(s.interruption.hosts) == 4)
        assert everywhere.interruption is not None
        await shown(lambda seen: seen.interruption is None)
        faults(kind="preempt", node=node["name"], seconds=10)
        told = (await shown(lambda seen: seen.interruption is not None)).interruption
        assert told.kind == "preemption"
        gone = await shown(lambda seen: seen.state == "PREEMPTED")
        assert gone.interruption is None
