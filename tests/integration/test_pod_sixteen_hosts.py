"""A pod kernel of 16 hosts: much output on each of them, and hosts that are not like the others."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
from fault_proxy import FaultProxy
from jupyter_client.manager import KernelManager
from local_kernels import Notebook
from pod_environment import make_environments, register_pod_kernel
from pod_kernels import ZONE, shown

from jupyter_tpu.emulator.hosts.namespace_host import process_tree
from jupyter_tpu.links import core_thread

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

HOSTS = 16
#: Seconds for what all hosts print; two cores run 16 kernels here.
LIMIT = 900
#: 50 MB of lines, and 50 MB in one message.
LINES = "for i in range(50_000): print(i, 'x' * 990, {of})"
MESSAGE = "print(chr(97 + {of}) * 50_000_000)"


@pytest.fixture(scope="module")
def pod(emulator: Any) -> Iterator[str]:
    with emulator.tpu("sixteen", "v5litepod-64", ZONE) as node:
        name = node["name"].rpartition("/")[2]
        core_thread().wait(make_environments(emulator, ZONE, name, HOSTS))
        yield name


@pytest.fixture(scope="module")
def notebook(pod: str, emulator: Any, line: FaultProxy) -> Iterator[Notebook]:
    spec, _ = register_pod_kernel(emulator, ZONE, pod, HOSTS)
    manager = KernelManager(kernel_name=spec)
    manager.start_kernel(env={**os.environ, "JUPYTER_TPU_PROJECT_SYNC": "off"})
    notebook = Notebook(manager)
    notebook.run("import jax; host = jax.process_index()", timeout=LIMIT)
    yield notebook
    notebook.close()
    manager.shutdown_kernel(now=True)
    emulator.end_all(pod)


@contextmanager
def growth(*pids: int) -> Iterator[list[int]]:
    """Bytes by which the memory of these processes grows meanwhile, at most; known at the end."""
    processes = [psutil.Process(pid) for pid in pids]
    before = [process.memory_info().rss for process in processes]
    grown, ended = [0] * len(pids), threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            for index, process in enumerate(processes):
                now = process.memory_info().rss - before[index]
                grown[index] = max(grown[index], now)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield grown
    finally:
        ended.set()
        watching.join()


def conductor(emulator: Any, pod: str) -> int:
    [init] = [host["init_pid"] for host in emulator.hosts(pod) if host["worker"] == 0]
    [pid] = [
        process["outer"] for process in process_tree(init) if "conductor" in process["cmdline"]
    ]
    return pid


def run(notebook: Notebook, code: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Runs a cell without keeping what it prints: its characters, the first 100,000 of them, and
    its other messages.
    """
    request, characters, begin = notebook.client.execute(code), 0, ""
    others: list[dict[str, Any]] = []
    while not (others and others[-1]["content"].get("execution_state") == "idle"):
        message = notebook.client.get_iopub_msg(timeout=LIMIT)
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] != "stream":
            others.append(message)
            continue
        text = message["content"]["text"]
        characters += len(text)
        begin = (begin + text[:100_000])[:100_000]
    return characters, begin, others


@pytest.mark.parametrize("code", [LINES, MESSAGE])
@pytest.mark.parametrize("of", ["0", "host"])
def test_50_mb_on_each_of_16_hosts_are_bounded_and_what_is_left_out_is_said(
    notebook, emulator, pod, line, code, of
):
    line.count()
    with growth(conductor(emulator, pod), os.getpid()) as grown:
        characters, begin, seen = run(notebook, code.format(of=of))
    _, carried = line.count()
    print("MB:", *(f"{value / 1e6:.0f}" for value in (*grown, carried)))
    assert not [message for message in seen if message["msg_type"] == "error"]
    # All of host 0, as it came.
    if code == LINES:
        whole = "".join(f"{i} {'x' * 990} 0\n" for i in range(50_000))
        assert (characters, begin) == (len(whole), whole[:100_000])
    else:
        assert (characters, begin) == (50_000_001, "a" * 100_000)
    text = shown(seen)
    if of == "0":
        assert text == "", "it is equal on all hosts"
    else:
        # The beginning and the end of each other host, and how much is left out.
        assert text.startswith("The output above is that of host 0. Different on:")
        assert re.findall(r"^host (\d+):$", text, re.M) == [str(host) for host in range(1, HOSTS)]
        assert len(re.findall(r"\[… \d{8} characters …\]", text)) == HOSTS - 1
        assert len(text) < HOSTS * 80_000
    # Not even one host's output is kept; of large messages the conductor has one at a time.
    assert grown[0] < (100e6 if code == LINES else 500e6)
    assert grown[1] < 500e6
    assert carried < 60e6, "the line carries host 0's, and not 16 times as much"
    assert notebook.run("%hosts check")[0]["status"] == "ok"
