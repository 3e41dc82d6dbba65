"""One notebook on all hosts of an emulated pod, over real SSH between real hosts.

Of two hosts, since each start of the kernel imports JAX on all of them. Pods of four are in
test_pod_survival.py and test_pod_bad_days.py; how many hosts are named is in the unit tests.
"""

import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from fault_proxy import FaultProxy
from jupyter_client.manager import KernelManager
from local_kernels import Notebook, printed
from pod_environment import pod_with_jax, register_pod_kernel
from pod_kernels import error_of, in_step, pids, pod_kernel, restart, shown, stderr
from refusals import raises
from traitlets.config import Config
from waiting import eventually, until

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.errors import Reason
from jupyter_tpu.links import HostName, Links, core_thread, default_links
from jupyter_tpu.on_host.agent.protocol import requests

ZONE, HOSTS = "us-central2-b", 2
#: Host 1 waits for nobody, and host 0 waits for it.
ONE_RAISES = """\
import jax, jax.numpy as jnp
from jax.experimental import multihost_utils
if jax.process_index() == 1:
    raise ValueError("bad batch")
multihost_utils.process_allgather(jnp.arange(3))
"""


@pytest.fixture(scope="module")
def pod(emulator: Any) -> Iterator[str]:
    """The name of a pod whose hosts have an environment with JAX."""
    with pod_with_jax(emulator, "pod", ZONE, HOSTS, "v4-16") as name:
        yield name


@pytest.fixture(scope="module")
def kernelspec(emulator: Any, pod: str) -> str:
    spec, display_name = register_pod_kernel(emulator, ZONE, pod, HOSTS)
    assert display_name == f"Python 3.11 · {pod} (all 2 hosts, emulated)"
    return spec


@pytest.fixture(scope="module")
def kernel(kernelspec: str, pod: str, emulator: Any, line: FaultProxy) -> Iterator[Notebook]:
    with pod_kernel(emulator, kernelspec, pod) as notebook:
        yield notebook


@pytest.fixture
def notebook(kernel: Notebook) -> Notebook:
    """The pod kernel, in step; after a test that left it out of step it is restarted."""
    return in_step(kernel)


def test_a_cell_runs_on_all_hosts_and_shows_once_what_is_equal(notebook):
    code = "import jax; print(jax.device_count(), jax.local_device_count(), jax.process_count())"
    content, seen = notebook.run(code)
    assert content["status"] == "ok"
    assert printed(seen) == "8 4 2\n"
    assert shown(seen) == ""
    total = "import jax.numpy as jnp; from jax.experimental import multihost_utils as m"
    text = notebook.text(f"{total}\nprint(int(m.process_allgather(jax.process_index()).sum()))")
    assert text == "1\n"


def test_output_that_differs_is_folded_by_host(notebook):
    _, seen = notebook.run(
        "import jax; i = jax.process_index(); print('odd' if i == 1 else 'even')"
    )
    assert printed(seen) == "even\n"
    assert shown(seen) == ("The output above is that of host 0. Different on:\nhost 1:\n    odd")
    [display] = [message for message in seen if message["msg_type"] == "display_data"]
    _, seen = notebook.run("if i == 1: print('<script>alert(1)</script>')")
    [display] = [message for message in seen if message["msg_type"] == "display_data"]
    assert "&lt;script&gt;" in display["content"]["data"]["text/html"]
    assert "<script" not in display["content"]["data"]["text/html"]


def test_a_cell_runs_on_chosen_hosts_and_the_counts_stay_equal(notebook):
    before = notebook.run("'before'")[0]["execution_count"]
    content, seen = notebook.run("%%hosts 1\nimport socket\nwhere = socket.gethostname(); where")
    assert content["execution_count"] == before + 1
    [result] = [message["content"] for message in seen if message["msg_type"] == "execute_result"]
    assert result["data"]["text/plain"].endswith("-w-1'")
    [request] = [message["content"] for message in seen if message["msg_type"] == "execute_input"]
    assert request["code"].startswith("%%hosts 1\n"), "as it was typed"
    content, seen = notebook.run("'where' in globals()")
    assert content["execution_count"] == before + 2
    assert shown(seen).startswith("The output above is that of host 0.")
    usage = notebook.text("%tpu")
    assert all(word in usage for word in ("--host 2", "%%host 2", "%hosts")), usage
    content, seen = notebook.run("%%host 2\n1")
    assert (content["status"], content["evalue"]) == (
        "error", "The hosts are 0 to 1, and '2' names others.",
    )  # fmt: skip


def test_an_error_on_all_hosts_is_one_error_and_leaves_them_in_step(notebook):
    content, seen = notebook.run("1/0")
    assert (content["ename"], content["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert "host" not in error_of(seen)
    assert notebook.text("print('goes on')") == "goes on\n"


def test_an_exception_on_one_host_says_who_raised_and_who_waited_and_refuses_further_cells(
    notebook,
):
    content, seen = notebook.run(ONE_RAISES)
    assert (content["ename"], content["evalue"]) == ("ValueError", "bad batch (host 1)")
    text = error_of(seen)
    assert "Host 1 raised ValueError: bad batch" in text
    assert re.search(r"Host 0 is still at line 5: multihost_utils\.process_allg", text)
    assert "Host 0 was interrupted" not in text, "it does not react"
    assert "The hosts are out of step." in text
    assert "Restart the kernel" in shown(seen)
    assert "host 0: KeyboardInterrupt" not in shown(seen), "it is stuck: no traceback came"
    content, seen = notebook.run("print('never')")
    assert content["ename"] == "OutOfStep"
    assert printed(seen) == ""
    # Unless the user says so. (The host that hangs can't run it.)
    text = notebook.text("%hosts continue")
    assert text.startswith("Cells run again. Ignored: Host 0 does not react to the interrupt.")
    assert notebook.text("%%host 1\nprint('by itself')", allow_stdin=False) == "by itself\n"


def test_an_interrupt_reaches_all_hosts_and_they_are_in_step_afterwards(notebook):
    notebook.text("import pathlib, time")
    request = notebook.client.execute(
        "try:\n    print('begun', flush=True)\n    time.sleep(600)\n"
        "finally: pathlib.Path('interrupted').touch()"
    )
    notebook.until_output(request, "begun")
    notebook.manager.interrupt_kernel()
    seen = notebook.until_idle(request)
    assert "KeyboardInterrupt" in error_of(seen)
    assert notebook.text("print(pathlib.Path('interrupted').exists())") == "True\n"


def test_a_host_that_others_wait_for_is_named_while_the_cell_runs(notebook):
    """The commonest hang: all hosts are busy, and none prints anything."""
    code = (
        "import jax, time\nfrom jax.experimental.multihost_utils import process_allgather\n"
        "if jax.process_index() == 1:\n    time.sleep(17)\n"
        "process_allgather(jax.numpy.arange(3))\nprint('done')"
    )
    content, seen = notebook.run(code)
    assert (content["status"], printed(seen)) == ("ok", "done\n")
    [told, gone] = [
        message["content"]["data"]["text/plain"]
        for message in seen
        if message["msg_type"] in ("display_data", "update_display_data")
    ]
    assert "Host 1 is at line 4: time.sleep(17)\nHost 0 waits at line 5: process_allg" in told
    assert gone == "", "it goes on"


def test_what_is_typed_goes_to_all_hosts(notebook):
    notebook.client.execute("name = input('who? ')", allow_stdin=True)
    question = notebook.client.get_stdin_msg(timeout=30)
    assert question["content"]["prompt"] == "who? "
    notebook.client.input("everyone")
    notebook.client.get_shell_msg(timeout=30)
    _, seen = notebook.run("print(name)")
    assert (printed(seen), shown(seen)) == ("everyone\n", "")


def test_a_host_whose_kernel_ends_is_named_at_once_and_does_not_come_back(notebook, emulator, pod):
    code = "import jax, os, time\nif jax.process_index() == 1: os._exit(3)\ntime.sleep(600)"
    content, seen = notebook.run(code)
    assert content["ename"] == "KernelDied"
    assert "The kernel of host 1 exited with code 3." in error_of(seen)
    content, _ = notebook.run("1")
    assert content["evalue"] == "The kernel of host 1 exited with code 3."
    assert pids(emulator, pod, 1) == []


def test_requests_with_one_id_and_requests_that_are_none_leave_the_kernel_as_it_was(notebook):
    """As the clients of one jupyter_client manager send them: each counts its ids from 1."""
    client = notebook.client
    notebook.text("kept = 7")

    def send(kind: str, content: Any, id: str) -> None:
        request = client.session.msg(kind, content)
        request["msg_id"] = request["header"]["msg_id"] = id
        client.shell_channel.send(request)

    def replies(count: int, id: str) -> list[dict]:
        found: list[dict] = []
        while len(found) < count:
            reply = client.get_shell_msg(timeout=30)
            if reply["parent_header"]["msg_id"] == id:
                found.append(reply["content"])
        return found

    cell = {"code": "kept += 1; kept", "user_expressions": {}}
    for _ in range(2):
        send("execute_request", cell, "same-id")
        send("complete_request", {"code": "kep", "cursor_pos": 3}, "another-id")
    assert [reply["status"] for reply in replies(2, "same-id")] == ["ok", "ok"]
    send("execute_request", cell, "same-id")
    [reply] = replies(1, "same-id")
    for kind in ("execute_request", "complete_request"):
        send(kind, b"[0]", "none")
        send(kind, {**cell, "cursor_pos": 3}, "good")
        [reply] = replies(1, "none")
        assert (reply["status"], reply["ename"]) == ("error", "BadRequest")
        [reply] = replies(1, "good")
        assert reply["status"] == "ok"
    _, seen = notebook.run("print(kept)")
    assert (printed(seen), shown(seen)) == ("11\n", "")


def test_sys_exit_in_a_cell_is_an_error_as_in_any_kernel(notebook):
    content, _ = notebook.run("import sys; sys.exit(1)")
    assert content["ename"] == "SystemExit"
    assert notebook.text("print('still here')") == "still here\n"


def test_a_users_own_initialize_is_harmless(notebook):
    text = notebook.text("import jax; jax.distributed.initialize()")
    assert text.startswith("JAX runs on all hosts already")


def test_the_agent_of_another_host_names_the_pod_kernel_as_user_of_its_chips(
    notebook, emulator, pod
):
    pid = int(notebook.text("%%host 1\nimport os; print(os.getpid())"))

    async def owners() -> list[Any]:
        links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
        try:
            link = links.get(HostName(NodeName(emulator.state.project, ZONE, pod), 1))
            agent = await link.agent()
            return (await agent.request(requests.GetProcessOwnersRequest(pids=[pid])))["owners"]
        finally:
            await links.close()
            await links.cloud.close()

    [owner] = core_thread().wait(owners())
    assert owner["kernel"] == notebook.manager.kernel_id
    assert (owner["job"], owner["run"]) == ("", "")


def test_completion_is_that_of_host_0(notebook):
    notebook.text("a_long_name_to_complete = 1")
    reply = notebook.client.complete("a_long_na", reply=True, timeout=30)
    assert reply["content"]["matches"] == ["a_long_name_to_complete"]


def test_the_debugger_is_that_of_the_chosen_host(notebook):
    def prefix() -> str:
        client = notebook.client
        content = {"type": "request", "seq": 1, "command": "debugInfo"}
        request = client.session.msg("debug_request", content)
        client.control_channel.send(request)
        while True:
            reply = client.get_control_msg(timeout=30)
            if reply["parent_header"]["msg_id"] == request["header"]["msg_id"]:
                return str(reply["content"]["body"]["tmpFilePrefix"])

    _, seen = notebook.run("%%hosts 0,1\nimport os; print(os.getpid())")
    own, other = int(printed(seen)), int(shown(seen).split()[-1])
    assert f"_{own}/" in prefix()
    assert notebook.text("%hosts debug 1").startswith("The debugger works on host 1 now.")
    assert f"_{other}/" in prefix()
    assert notebook.text("%hosts debug 0").startswith("The debugger works on host 0 now.")
    assert f"_{own}/" in prefix()


async def keep_warm(emulator: Any, pod: str, *, warm: bool) -> None:
    """Returns when a pod kernel is warm, or none is."""
    links = default_links(Target(emulator=str(emulator.state_file)))
    link = links.get(HostName(NodeName(emulator.state.project, ZONE, pod), 0))
    addresses = await link.pod_addresses()
    asked: requests.WarmEnvironment = {
        "python": "/home/tpu/env/bin/python",
        "pod": {"hosts": len(addresses), "address": addresses[0]},
    }
    agent = await link.agent()

    async def reached() -> bool:
        answer = await agent.request(requests.KeepWarmRequest(environments=[asked] if warm else []))
        states = [kernel["state"] for kernel in answer["warm"] if kernel.get("pod")]
        assert "failed" not in states, answer
        return states == ["ready"] * warm

    await eventually(reached)


#: Compiles, and prints how often JAX found the program in its cache, and how often not.
COMPILES = """\
import jax, jax.numpy as jnp
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event.split("/")[-1]))
jax.jit(lambda x: jnp.tanh(x) @ x.T)(jnp.ones((33, 7))).block_until_ready()
print(events.count("cache_hits") > 0, events.count("cache_misses") > 0)
"""


def test_after_a_restart_each_host_has_what_it_compiled_before(notebook):
    assert notebook.text(COMPILES) == "False True\n"
    restart(notebook)
    _, seen = notebook.run(COMPILES)
    assert (printed(seen), shown(seen)) == ("True False\n", ""), "on both hosts"


@pytest.mark.long  # four more starts; of one host: test_agent_warm.py
def test_a_warm_pod_kernel_becomes_the_restarted_one_and_one_that_was_killed_does_not(
    notebook, emulator, pod
):
    before = [set(pids(emulator, pod, host)) for host in range(HOSTS)]
    core_thread().wait(keep_warm(emulator, pod, warm=True))
    warm = [set(pids(emulator, pod, host)) - old for host, old in enumerate(before)]
    assert all(warm)
    restart(notebook)
    for host in range(1, HOSTS):
        assert warm[host] == set(pids(emulator, pod, host)) & (warm[host] | before[host])
    total = "import jax.numpy as jnp; from jax.experimental import multihost_utils as m"
    code = f"import jax; {total}\nprint(int(m.process_allgather(jax.process_index()).sum()))"
    assert notebook.text(code) == "1\n"
    # Where a host's has been killed, all are started again.
    core_thread().wait(keep_warm(emulator, pod, warm=True))
    [other] = set(pids(emulator, pod, 1)) - warm[1]
    os.kill(other, signal.SIGKILL)
    restart(notebook)
    assert not set(pids(emulator, pod, 1)) & {*warm[1], other}
    assert notebook.text(code) == "1\n"
    core_thread().wait(keep_warm(emulator, pod, warm=False))


def test_a_fork_in_a_cell_is_warned_of_and_leaves_the_hosts_in_step(notebook):
    code = "import os\npid = os.fork()\nif not pid: os._exit(0)\n_ = os.waitpid(pid, 0)"
    content, seen = notebook.run(code)
    assert content["status"] == "ok"
    assert "this process was forked after JAX started" in stderr(seen)
    assert notebook.run("%hosts check")[0]["status"] == "ok"


def test_a_question_is_over_when_another_host_has_raised(notebook):
    code = "import jax\nif jax.process_index() == 1: raise ValueError('no')\ninput('who? ')"
    content, seen = notebook.run(code, allow_stdin=True, stdin_hook=lambda _: None)
    assert (content["ename"], content["evalue"]) == ("ValueError", "no (host 1)")
    assert "Host 0 was interrupted" in error_of(seen)
    assert notebook.text("print('in step')") == "in step\n"


@pytest.mark.long  # another kernel; what differs: test_pod_start.py
def test_hosts_with_different_code_are_named_by_the_first_cell(kernelspec, emulator, pod, notebook):
    notebook.text(
        "import pathlib, jax; p = pathlib.Path('project'); p.mkdir(exist_ok=True)\n"
        "_ = (p / 'model.py').write_text('x = %d' % (jax.process_index() == 1))"
    )
    config = Config({"TPUProvisioner": {"folder": "/home/tpu/project", "needs_chips": False}})
    manager = KernelManager(kernel_name=kernelspec, config=config)
    manager.start_kernel(env={**os.environ, "JUPYTER_TPU_PROJECT_SYNC": "off"})
    other = Notebook(manager)
    try:
        _, seen = other.run("print('first')")
        assert "Hosts have different files: model.py.\n" in stderr(seen)
        _, seen = other.run("print('second')")
        assert stderr(seen) == ""
    finally:
        other.close()
        manager.shutdown_kernel(now=True)


def test_a_second_notebook_is_told_who_has_the_chips(notebook, kernelspec, pod):
    second = KernelManager(kernel_name=kernelspec)
    with raises(Reason.CHIPS_HELD) as refused:
        second.start_kernel(env={**os.environ, "JUPYTER_TPU_PROJECT_SYNC": "off"})
    kernel = notebook.manager.kernel_id
    assert refused.value.message.startswith(f"The chips of {pod} are in use by the kernel {kernel}")


def test_no_line_of_a_pods_cell_is_lost_when_the_line_breaks(notebook, line):
    request = notebook.client.execute(
        "import jax, time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.02)\n"
        "print(jax.process_index())"
    )
    seen: list[dict] = []
    cuts = 0
    while not (seen and seen[-1]["content"].get("execution_state") == "idle"):
        message = notebook.client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == request:
            seen.append(message)
        lines = printed(seen).count("\n")
        if lines > 60 * (cuts + 1) and cuts < 3:
            cuts += 1
            line.cut()
            line.mend()
    assert cuts == 3
    assert printed(seen).split() == [*map(str, range(300)), "0"]
    assert shown(seen).count("host") == 2, "of each other host its own number, once"


def test_the_checkpoint_function_runs_on_all_hosts_before_google_stops_them(
    notebook, emulator, pod
):
    notebook.text("import pathlib\ndef save(): pathlib.Path('saved').touch()\n%tpu checkpoint save")
    node = f"projects/{emulator.state.project}/locations/{ZONE}/nodes/{pod}"
    emulator.inject_fault(kind="preempt", node=node, seconds=3600)

    def saved() -> bool:
        _, seen = notebook.run("print(pathlib.Path('saved').exists())")
        return (printed(seen), shown(seen)) == ("True\n", "")

    until(saved)
