"""Bad days of a pod kernel: lines, servers, machines and hosts that fail while a cell runs."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adoption_server import Client, Server
from fault_proxy import FaultProxy
from jupyter_client.manager import KernelManager
from local_kernels import Notebook, printed
from pod_environment import pod_with_jax, register_pod_kernel
from pod_kernels import ZONE, error_of, in_step, pids, pod_kernel, restart, shown, stderr
from waiting import until

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import HostName, Links, core_thread
from jupyter_tpu.on_host import packing
from jupyter_tpu.on_host.agent.protocol import requests

pytestmark = pytest.mark.long

HOSTS = 4
LINES = (
    "import jax, time\nfor i in range({n}):\n    print('line', i, flush=True)\n"
    "    time.sleep({pause})\nprint('host', jax.process_index())"
)
ENVIRONMENT = {**os.environ, "JUPYTER_TPU_PROJECT_SYNC": "off"}


@pytest.fixture(scope="module")
def pod(emulator: Any) -> Iterator[str]:
    with pod_with_jax(emulator, "tough", ZONE, HOSTS) as name:
        yield name


@pytest.fixture(scope="module")
def kernelspec(emulator: Any, pod: str) -> str:
    return register_pod_kernel(emulator, ZONE, pod, HOSTS)[0]


@pytest.fixture(scope="module")
def kernel(kernelspec: str, pod: str, emulator: Any, line: FaultProxy) -> Iterator[Notebook]:
    with pod_kernel(emulator, kernelspec, pod) as notebook:
        yield notebook


@pytest.fixture
def notebook(kernel: Notebook, line: FaultProxy) -> Notebook:
    """The pod kernel, in step."""
    return in_step(kernel)


def host_0(emulator: Any, pod: str) -> HostName:
    return HostName(NodeName(emulator.state.project, ZONE, pod), 0)


def silent(line: FaultProxy) -> None:
    line.hole()
    time.sleep(8)
    line.mend()


def dead(line: FaultProxy) -> None:
    line.dead()
    time.sleep(2)
    line.mend()


def flapping(line: FaultProxy) -> None:
    for _ in range(8):
        line.cut()
        time.sleep(0.2)
        line.mend()
        time.sleep(0.6)


def slow(line: FaultProxy) -> None:
    line.rate = 8_000
    time.sleep(8)
    line.rate = 0


@pytest.mark.parametrize("storm", [silent, dead, flapping, slow])
def test_every_line_of_a_pods_cell_arrives_once_and_in_order(notebook, line, storm):
    request = notebook.client.execute(LINES.format(n=300, pause=0.04))
    notebook.until_output(request, "line 0\n")
    rate = line.rate
    weather = threading.Thread(target=storm, args=(line,))
    weather.start()
    seen = notebook.until_idle(request)
    weather.join()
    line.rate = rate
    numbers = [int(number) for number in re.findall(r"line (\d+)\n", printed(seen))]
    # `until_output` has read what came before.
    assert numbers == list(range(numbers[0], 300))
    assert printed(seen).endswith("host 0\n")
    assert [f"host {host}:" in shown(seen) for host in range(1, HOSTS)] == [True] * 3
    assert notebook.run("%hosts check")[0]["status"] == "ok"


def test_a_cell_goes_on_while_a_newer_agent_comes_to_host_0(notebook, emulator, pod, monkeypatch):
    request = notebook.client.execute(LINES.format(n=100, pause=0.05))
    notebook.until_output(request, "line 0\n")
    before = packing.agent_bundle().hash
    monkeypatch.setattr(packing, "_AGENT_MAIN", packing._AGENT_MAIN + "\nNEWER = True\n")
    packing.agent_bundle.cache_clear()
    try:
        assert packing.agent_bundle().hash != before

        async def newer() -> tuple[str, list[Any]]:
            links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
            try:
                agent = await links.get(host_0(emulator, pod)).agent()
                return agent.hello["agent"], (await agent.request(requests.ListKernelsRequest()))[
                    "kernels"
                ]
            finally:
                await links.close()
                await links.cloud.close()

        version, kernels = core_thread().wait(newer())
    finally:
        monkeypatch.undo()
        packing.agent_bundle.cache_clear()
    assert version != before
    assert [kernel["id"] for kernel in kernels] == [notebook.manager.kernel_id]
    numbers = re.findall(r"line (\d+)\n", printed(notebook.until_idle(request)))
    assert list(map(int, numbers)) == list(range(int(numbers[0]), 100))


def test_a_rebooted_host_is_named_and_a_restart_has_it_again(notebook, emulator, pod):
    request = notebook.client.execute("import time\ntime.sleep(600)")
    until(lambda: notebook.client.get_iopub_msg(timeout=60)["msg_type"] == "execute_input")
    before = emulator.hosts(pod)[3]["init_pid"]
    os.kill(before, signal.SIGKILL)
    text = error_of(notebook.until_idle(request))
    assert re.search(r"(connection to|kernel of) host 3", text), text
    content, _ = notebook.run("1")
    assert content["ename"] == "OutOfStep"
    until(lambda: emulator.hosts(pod)[3]["init_pid"] not in (None, before))
    restart(notebook)
    assert notebook.text("import jax; print(jax.device_count())") == "16\n"


def test_a_full_disk_on_one_host_is_said_by_the_first_cell(notebook, emulator, pod):
    init = emulator.hosts(pod)[3]["init_pid"]
    inside = ["nsenter", "-m", "-t", str(init)]
    folder = "/home/tpu/.jupyter-tpu/run"
    full = ["mount", "-t", "tmpfs", "-o", "size=4k,mode=0700,uid=1000", "none", folder]
    owner = Path(f"/proc/{init}/root{folder}").stat()
    full[4] = f"size=4k,mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
    subprocess.run([*inside, *full], check=True)
    try:
        subprocess.run([*inside, "sh", "-c", f"head -c 9000 /dev/zero > {folder}/f || true"])
        notebook.manager.restart_kernel(now=True)
        notebook.client.wait_for_ready(timeout=200)
        content, _ = notebook.run("1", timeout=200)
    finally:
        subprocess.run([*inside, "umount", folder], check=True)
    assert content["ename"] == "OutOfStep"
    assert "Host 3" in content["evalue"]
    assert "disk is full" in content["evalue"]
    restart(notebook)


def test_a_host_that_starts_slowly_is_named_and_waited_for(notebook, emulator, pod):
    before = set(pids(emulator, pod, 3))
    notebook.manager.restart_kernel(now=True)
    until(lambda: set(pids(emulator, pod, 3)) - before)
    [slow] = set(pids(emulator, pod, 3)) - before
    os.kill(slow, signal.SIGSTOP)
    seen: list[dict[str, Any]] = []
    try:
        notebook.client.wait_for_ready(timeout=200)  # after 10 s it answers without the host
        request = notebook.client.execute("print('all')")
        while "Waiting for the kernel of host 3 to start." not in shown(seen):
            seen.append(notebook.client.get_iopub_msg(timeout=60))
    finally:
        os.kill(slow, signal.SIGCONT)
    assert printed(notebook.until_idle(request)) == "all\n"


def test_hosts_with_different_packages_and_pythons_are_said_before_the_first_cell(notebook):
    notebook.text(
        "import jax, pathlib, sysconfig\n"
        "p = pathlib.Path(sysconfig.get_path('purelib'), 'flax-9.9.dist-info')\n"
        "if jax.process_index() == 2:\n"
        "    p.mkdir(); _ = (p / 'METADATA').write_text('Name: flax\\nVersion: 9.9\\n')"
    )
    try:
        notebook.manager.restart_kernel(now=True)
        notebook.client.wait_for_ready(timeout=200)
        _, seen = notebook.run("print('first')", timeout=200)
        assert "Hosts differ in flax: missing on hosts 0, 1, 3; 9.9 on host 2." in stderr(seen)
    finally:
        notebook.run(
            "import pathlib, shutil, sysconfig\n"
            "shutil.rmtree(pathlib.Path(sysconfig.get_path('purelib'), 'flax-9.9.dist-info'), True)"
        )


# ---- servers and machines


@pytest.fixture
def server(
    kernel: Notebook, emulator: Any, pod: str, tmp_path: Path
) -> Iterator[tuple[Server, dict[str, Any]]]:
    """A server with a pod kernel's session."""
    if kernel.manager.has_kernel:  # it has the chips; no other test follows
        kernel.manager.shutdown_kernel(now=True)
    server = Server(tmp_path, emulator.environment)
    specs = KernelSpecs(tmp_path / "jupyter" / "kernels")
    spec, _ = register_pod_kernel(emulator, ZONE, pod, HOSTS, specs=specs)
    with server:
        yield server, server.start_session(spec)
        server.end_sessions()


def kill(server: Server) -> None:
    server.kill()
    server.start()


def sleep(server: Server) -> None:
    """The laptop is asleep: its process stands still."""
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(70)
    server.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("trouble", [kill, sleep])
def test_a_pods_cell_goes_on_without_its_server(server, emulator, pod, trouble):
    running, session = server
    kernel_id = session["kernel"]["id"]
    client = Client(running, kernel_id)
    client.connect()
    request = client.execute(LINES.format(n=200, pause=0.2))
    client.until(lambda message: "line 20\n" in message["content"].get("text", ""))
    [kernels] = [pids(emulator, pod, 3)]
    trouble(running)
    if trouble is kill:
        while client.read() is not None:  # what was under way
            pass
        assert [kernel["id"] for kernel in running.request("GET", "/api/kernels")] == [kernel_id]
        client.connect()
    client.until(lambda message: "host 0\n" in message["content"].get("text", ""))
    lines = client.printed(request).splitlines()
    assert lines == [*(f"line {i}" for i in range(200)), "host 0"]
    assert pids(emulator, pod, 3) == kernels, "the same processes"


def rest(notebook: Notebook, request: str) -> list[dict[str, Any]]:
    """What still comes of a cell whose kernel has died."""
    seen: list[dict[str, Any]] = []
    with contextlib.suppress(queue.Empty):
        while True:
            message = notebook.client.get_iopub_msg(timeout=5)
            if message["parent_header"].get("msg_id") == request:
                seen.append(message)
    return seen


@contextlib.contextmanager
def new_kernel(kernelspec: str) -> Iterator[Notebook]:
    manager = KernelManager(kernel_name=kernelspec)
    manager.start_kernel(env=ENVIRONMENT)
    notebook = Notebook(manager)
    try:
        yield notebook
    finally:
        notebook.close()
        manager.shutdown_kernel(now=True)


def test_the_loss_of_host_0_ends_the_kernel_and_frees_the_chips_of_the_others(
    kernel, kernelspec, emulator, pod
):
    if kernel.manager.has_kernel:
        kernel.manager.shutdown_kernel(now=True)
    before = emulator.hosts(pod)[0]["init_pid"]
    with new_kernel(kernelspec) as notebook:
        notebook.text("pass", timeout=200)
        request = notebook.client.execute(LINES.format(n=10_000, pause=0.05))
        notebook.until_output(request, "line 20\n")
        os.kill(before, signal.SIGKILL)
        until(lambda: not notebook.manager.is_alive())
        text = printed(rest(notebook, request))
        assert "host was restarted" in text, text[-1000:]
        until(lambda: not [pid for host in (1, 2, 3) for pid in pids(emulator, pod, host)])
    until(lambda: emulator.hosts(pod)[0]["init_pid"] not in (None, before))
    with new_kernel(kernelspec) as notebook:
        assert notebook.text("import jax; print(jax.device_count())", timeout=200) == "16\n"


def test_a_preempted_pods_kernel_is_reported_and_its_lines_before_are_there(
    kernel, kernelspec, emulator, pod
):
    """The last one: nothing is left of the pod."""
    if kernel.manager.has_kernel:
        kernel.manager.shutdown_kernel(now=True)
    manager = KernelManager(kernel_name=kernelspec)
    manager.start_kernel(env=ENVIRONMENT)
    notebook = Notebook(manager)
    try:
        request = notebook.client.execute(LINES.format(n=10_000, pause=0.05))
        text = printed(notebook.until_output(request, "line 20\n"))
        node = f"projects/{emulator.state.project}/locations/{ZONE}/nodes/{pod}"
        emulator.inject_fault(kind="preempt", node=node)
        until(lambda: not manager.is_alive())
        text += printed(rest(notebook, request))
        assert "preempted" in text
        numbers = [int(number) for number in re.findall(r"line (\d+)\n", text)]
        assert numbers == list(range(len(numbers)))
    finally:
        notebook.close()
        manager.shutdown_kernel(now=True)
