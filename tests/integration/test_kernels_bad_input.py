"""Peers that speak nonsense and disks that take nothing: a clear state, and the kernel lives.

No SSH here; a peer that goes wrong connects to the keeper's socket itself.
"""

import asyncio
import gc
import os
import resource
import struct
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from fleet_world import others
from jupyter_client.manager import KernelManager
from jupyter_client.restarter import KernelRestarter
from local_host import LocalHost
from local_kernels import Notebook, local_host, printed
from test_kernels_outages import memory_of, relay_of
from traitlets.config import Config
from waiting import until

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.kernels import exit_cleanup, provisioner
from jupyter_tpu.kernels.attachment import Attachment
from jupyter_tpu.links import core_thread
from jupyter_tpu.on_host.agent.protocol import frames, messages, requests
from jupyter_tpu.on_host.agent.protocol.events import IOPUB, NORMAL, SHELL, JournalEvent, Message
from jupyter_tpu.on_host.agent.protocol.journal import Journal
from jupyter_tpu.on_host.agent.protocol.messages import MessageSigner

Found = tuple[LocalHost, KernelManager, Notebook]


@pytest.fixture(scope="module")
def remote() -> Iterator[Found]:
    with local_host("bad-input") as (host, make):
        manager = make()
        manager.start_kernel()
        notebook = Notebook(manager)
        yield host, manager, notebook
        notebook.close()
        manager.shutdown_kernel(now=True)


async def talk(host: LocalHost, *said: bytes) -> bytes:
    """Says something on a connection to the keeper, and reads until it closes that."""
    (path,) = (host.home / ".jupyter-tpu/run").glob("k-*/keeper.sock")
    reader, writer = await asyncio.open_unix_connection(path)
    answer = b""
    try:
        for data in said:
            writer.write(data)
            answer += await asyncio.wait_for(reader.read(1 << 20), 60) if data else b""
        writer.write_eof()
        answer += await asyncio.wait_for(reader.read(-1), 60)
    except ConnectionError:
        pass  # it closed before all was said
    finally:
        writer.close()
    return answer


def hello(manager: KernelManager) -> bytes:
    """The hello of a client that has the kernel's secret."""
    client = Journal()
    client.connect({"lease": {"secret": relay_of(manager).secret, "holder": "somebody"}})
    return client.data_to_send()


def ack(number: int, credit: int = 0) -> bytes:
    return frames.encode(frames.Ack(NORMAL, number, credit))


NONSENSE = {
    "noise": lambda _: [os.urandom(10_000)],
    "a frame that is cut off": lambda manager: [hello(manager)[:-5]],
    "noise after the hello": lambda manager: [hello(manager), struct.pack("!IB", 100, 200) * 40],
    "a message that is cut off": lambda manager: [
        hello(manager),
        frames.encode(frames.Piece(NORMAL, 1, 0, 1, 1, 1000, 0, b"begin")),
    ],
    "a huge frame": lambda manager: [hello(manager), b"\xff\xff\xff\xff\x03"],
    "acknowledges what was never sent": lambda manager: [hello(manager), ack(1 << 40)],
    "gives credit for what was never sent": lambda manager: [hello(manager), ack(0, 1 << 40)],
    "a message in no lane": lambda manager: [
        hello(manager),
        frames.encode(frames.Piece(9, 1, 0, 1, 1, 4, 0, b"text")),
    ],
}


@pytest.mark.parametrize("what", NONSENSE)
def test_a_peer_that_speaks_nonsense_is_hung_up_on_and_the_client_goes_on(remote, what):
    host, manager, notebook = remote
    request = notebook.client.execute(
        "import time\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(0.01)"
    )
    core_thread().wait(talk(host, *NONSENSE[what](manager)))
    assert printed(notebook.until_idle(request)).split() == list(map(str, range(40)))
    assert manager.is_alive()


def test_a_peer_of_another_version_is_rejected_with_the_reason(remote):
    host, manager, notebook = remote
    said = bytearray(hello(manager))
    at = said.index(frames.MAGIC) + len(frames.MAGIC)
    said[at : at + 2] = struct.pack("!H", frames.VERSION + 1)
    (word,) = frames.Decoder().feed(core_thread().wait(talk(host, bytes(said))))
    assert word.fields["refused"]["reason"] == "PROTOCOL"
    assert "version 2" in word.fields["refused"]["message"]
    assert notebook.text("print('fine')") == "fine\n"


def test_a_kernel_that_another_version_of_us_started_is_given_up_with_the_reason(monkeypatch):
    with local_host("another-version") as (host, make):
        manager = make()
        manager.start_kernel()
        notebook = Notebook(manager)
        monkeypatch.setattr(frames, "VERSION", frames.VERSION + 1)
        host.loop_call(host.cut)
        host.loop_call(host.mend)
        until(lambda: not manager.is_alive())
        problem = relay_of(manager).problem
        assert problem.reason is Reason.CONFLICT
        assert "an incompatible version of jupyter-tpu" in problem.message
        assert "continues on its host" in problem.message
        assert "jupyter tpu kernel take" in problem.hint
        assert [line for line in host.processes() if "ipython_kernel" in line], "it lives on"
        monkeypatch.undo()
        notebook.close()
        manager.shutdown_kernel(now=True)


def garbled(message: bytes) -> list[bytes]:
    raise frames.ProtocolError("this is not what was sent")


@pytest.mark.parametrize(
    ("name", "instead", "problem", "printed"),
    [
        ("split_parts", garbled, "this is not what was sent", "unread\n42\n"),
        *others(
            ("join_parts", lambda _: b"\xff" * 8, "a message with an incomplete header", "42\n")
        ),
    ],
    ids=["to us", "to the host"],
)
def test_a_kernel_that_is_given_up_after_protocol_errors_goes_on_and_can_be_taken(
    monkeypatch, name, instead, problem, printed
):
    """Its server reports it dead and forgets it; who takes it up finds all that it had."""
    with local_host("given-up") as (host, make):
        manager = make()
        manager.start_kernel()
        notebook = Notebook(manager)
        notebook.text("kept = 42")
        relay, kernel_id = relay_of(manager), manager.provisioner.kernel_id
        manager._restarter = restarter = KernelRestarter(kernel_manager=manager)

        monkeypatch.setattr(frames, name, instead)
        notebook.client.execute("print('unread')")
        until(lambda: not manager.is_alive())
        monkeypatch.undo()
        assert relay.problem.message == (
            f"The connection to the kernel failed 3 times: {problem}. "
            "The kernel continues on its host."
        )
        assert "jupyter tpu kernel take" in relay.problem.hint
        assert restarter.restart_limit == 0, "no other kernel is started in its place"
        asyncio.run(report_dead(restarter))
        assert not manager.provisioner.has_process
        notebook.close()
        assert core_thread().wait(take(host, kernel_id, "print(kept)")) == printed


async def report_dead(restarter: KernelRestarter) -> None:
    """As the server does, which then forgets the kernel; waits until its provisioner has, too."""
    restarter._fire_callbacks("dead")
    await asyncio.gather(*provisioner._cleanups)


async def take(host: LocalHost, kernel_id: str, code: str) -> str:
    """Takes a kernel, has it execute *code*, and ends it; what it has printed, also before."""
    agent = await host.agent()
    signer = MessageSigner(
        (await agent.request(requests.GetKernelKeyRequest(id=kernel_id)))["key"], "taker"
    )
    printed: list[str] = []
    idle, gone = asyncio.Event(), asyncio.get_running_loop().create_future()

    def heard(event: JournalEvent) -> None:
        if isinstance(event, Message):
            attachment.acknowledge(event)
            if event.channel == IOPUB:
                content = messages.decode_part(event.parts, messages.CONTENT)
                printed.append(content.get("text", ""))
                asked = messages.decode_part(event.parts, messages.PARENT).get("msg_id")
                if asked == request and content.get("execution_state") == "idle":
                    idle.set()

    content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
    message = signer.message(
        "execute_request", {**content, "user_expressions": {}}, idents=[b"taker"]
    )
    request = messages.decode_part(message, messages.HEADER)["msg_id"]
    host.acquire()
    attachment = Attachment(host, kernel_id, "another secret", heard, gone.set_result, steal=True)
    attachment.send(SHELL, message)
    await asyncio.wait_for(idle.wait(), 60)
    assert not gone.done()
    await agent.request(requests.EndKernelRequest(id=kernel_id, now=True))
    await attachment.close()
    host.release()
    return "".join(printed)


def test_a_disk_that_takes_nothing_pauses_the_kernel_and_nothing_is_lost(remote):
    host, _, notebook = remote
    pid, keeper = map(int, notebook.text("import os; print(os.getpid(), os.getppid())").split())
    (run,) = (host.home / ".jupyter-tpu/run").glob("k-*")
    # As on a disk that is full, or read-only: each write of the keeper's to a file fails.
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    request = notebook.client.execute(
        "for i in range(1200): print(str(i) + ' ' + 'x' * 100_000, flush=True)"
    )
    notebook.until_output(request, "x")
    host.loop_call(host.stall)
    until(lambda: state_of(pid) == "T")
    assert memory_of(keeper) < 250 << 20
    assert not any(file.stat().st_size for file in run.glob("journal-*"))
    host.loop_call(host.mend)
    lines = printed(notebook.until_idle(request)).splitlines()
    assert [line.split(" ")[0] for line in lines[-100:]] == list(map(str, range(1100, 1200)))
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert notebook.text("print('fine')") == "fine\n"


def state_of(pid: int) -> str:
    """The state of a process, as one letter: "T" if it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def resources() -> dict[str, int]:
    """What this process has open."""
    process = psutil.Process()
    listening = [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
    return {
        "threads": process.num_threads(),
        "files": process.num_fds(),
        "listening": len(listening),
        "tasks": core_thread().wait(_count_tasks()),
    }


async def _count_tasks() -> int:
    return len(asyncio.all_tasks())


def test_starts_that_are_refused_leave_nothing_open():
    with local_host("refusing") as (host, make):

        def refused() -> None:
            with pytest.raises(TPUError):
                make(host_python="/nowhere/python").start_kernel()

        refused()  # what is made once for all kernels
        before = resources()
        for _ in range(10):
            refused()
        gc.collect()
        until(lambda: all(now <= before[name] + 2 for name, now in resources().items()))
        assert host.holds == 0


@pytest.mark.parametrize(
    ("silent", "reason"), [("cut", Reason.UNREACHABLE), ("stall", Reason.TIMEOUT)]
)
def test_a_start_that_times_out_says_why_and_leaves_nothing(silent, reason):
    with local_host(f"timeout-{silent}") as (host, make):
        first = make()
        first.start_kernel()  # the agent runs
        host.loop_call(getattr(host, silent))
        config = Config({"TPUProvisioner": {"start_timeout": 0.5}})
        with pytest.raises(TPUError) as caught:
            make(config=config).start_kernel()
        assert "did not answer within 0.5 s" in caught.value.message
        assert caught.value.reason is reason
        host.loop_call(host.mend)
        until(lambda: not exit_cleanup.pending())
        assert host.holds == 1, "the first kernel's"
        first.shutdown_kernel(now=True)
