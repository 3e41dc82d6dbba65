"""Three ways to a kernel, for kernel.py: on this machine, with jupyter-tpu, and with sshpyk.

The last two reach the same host of an emulated TPU through the same sshd and the same kind of bad
line, each through one of its own. Whatever runs a kernel has the same ipykernel and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))
ZONE, TPU = "us-central1-a", "bench"
PYTHON = "/home/tpu/env/bin/python"
SSHPYK = "1.25"

EMULATOR = """
import asyncio, sys
from pathlib import Path
from jupyter_tpu.emulator import serve
asyncio.run(serve(Path(sys.argv[1]), on_ready=lambda state: print(state.path, flush=True)))
"""
#: In a process of its own, so that it takes nothing from the client that is measured.
LINE = """
import sys
sys.path.insert(0, sys.argv[1])
from fault_proxy import FaultProxy
with FaultProxy(sys.argv[2], int(sys.argv[3]), address=sys.argv[2]) as line:
    print(line.port, flush=True)
    for command in sys.stdin:
        what, _, value = command.strip().partition(" ")
        if value:
            setattr(line, what, float(value))
            print(flush=True)
        else:
            print(getattr(line, what)() or "", flush=True)
"""
MAKE = """
python="$(readlink -f "$(command -v python3.11 || command -v python3)")"
"$python" -m pip install -q --target ~/uv uv
~/uv/bin/uv venv -q --python "$python" ~/env
~/uv/bin/uv pip install -q --python ~/env/bin/python ipykernel=={version}
~/env/bin/python -m ipykernel install --user --name bench >&2
"""
SSH_CONFIG = """\
Host bench_sshpyk
  HostName {address}
  Port {port}
  User {user}
  IdentityFile {key}
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking accept-new
  BatchMode yes
  ControlMaster auto
  ControlPath {folder}/c_%C
  ControlPersist 10m
  ServerAliveInterval 5
  ServerAliveCountMax 120000
  TCPKeepAlive yes
  ConnectionAttempts 1
  ConnectTimeout 5
"""


class Line:
    """A line to the host's sshd; ``line("cut")``, ``line("delay 0.02")``: see tests/fault_proxy."""

    def __init__(self, address: str, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", LINE, HERE.parent / "tests", address, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self._hear())

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def __call__(self, what: str) -> str:
        assert self._process.stdin is not None
        print(what, file=self._process.stdin, flush=True)
        return self._hear().strip()

    def carried(self) -> int:
        """The bytes that it has carried from the host since this was last called."""
        return int(self("count").strip("()").split(",")[1])

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


class Emulator:
    """An emulator in a process of its own, with one TPU."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", EMULATOR, folder], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.state_file = self._process.stdout.readline().strip()
        self._state = json.loads(Path(self.state_file).read_text())

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point jupyter-tpu at it."""
        return {"JUPYTER_TPU_EMULATOR": self.state_file}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        token = Path(self._state["token_file"]).read_text()
        request = urllib.request.Request(
            self._state["rest"] + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


def make_local(folder: Path) -> str:
    """An environment on this machine; returns the name of its kernelspec."""
    import ipykernel

    uv, python = Path(sys.executable).with_name("uv"), folder / "local/bin/python"
    requirement = f"ipykernel=={ipykernel.__version__}"
    commands: list[list[str | Path]] = [
        [uv, "venv", "-q", "--python", os.path.realpath(sys.executable), folder / "local"],
        [uv, "pip", "install", "-q", "--python", python, requirement],
        [python, "-m", "ipykernel", "install", "--name", "local", "--prefix", folder / "jupyter"],
    ]
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.environ["JUPYTER_PATH"] = str(folder / "jupyter/share/jupyter")
    return "local"


async def make_ours(emulator: Emulator) -> tuple[str, Line]:
    """Creates the TPU, its environment and our kernelspec; its link is held, through the line."""
    import ipykernel

    sys.path.append(str(HERE.parent / "tests"))
    from cloud_operations import create_node

    from jupyter_tpu.cloud import CloudTPU, NodeName, NodeSpec, Target
    from jupyter_tpu.kernel_place import KernelPlace
    from jupyter_tpu.kernels import KernelSpecs
    from jupyter_tpu.links import HostName, Links, default_links

    target = Target(emulator=emulator.state_file)
    cloud = CloudTPU(target)
    node = NodeName(cloud.project, ZONE, TPU)
    await create_node(cloud, node, NodeSpec(type="v5litepod-4", version="v2-alpha-tpuv5-lite"))
    making = Links(cloud)
    make = MAKE.replace("{version}", ipykernel.__version__)
    await making.get(HostName(node, 0)).run(["sh", "-ec", make], timeout=300)
    await making.close()
    await cloud.close()

    line = Line(*address_of(emulator))
    fault = {"kind": "line", "node": TPU, "port": line.port}
    emulator.call("POST", "/emulator/v1/faults", fault)
    host = default_links(target).get(HostName(node, 0))
    host.acquire()  # "on a connected TPU"
    await host.wait_up()
    assert host.host_address.port == line.port, "the bad line is not in between"
    name, _ = KernelSpecs().register(
        KernelPlace(
            project=node.project,
            zone=ZONE,
            tpu=TPU,
            host_python=PYTHON,
            emulator=emulator.state_file,
        ),
        python_version="3",
        emulated=True,
    )
    return name, line


async def keep_warm(emulator: Emulator, on: bool) -> None:
    """Has the host keep a kernel warm, or not; returns when that is so."""
    import asyncio

    from jupyter_tpu.cloud import CloudTPU, NodeName, Target
    from jupyter_tpu.links import HostName, default_links
    from jupyter_tpu.on_host.agent.protocol.requests import KeepWarmRequest, WarmEnvironment

    target = Target(emulator=emulator.state_file)
    node = NodeName(CloudTPU(target).project, ZONE, TPU)
    agent = await default_links(target).get(HostName(node, 0)).agent()
    environments: list[WarmEnvironment] = [{"python": PYTHON}] if on else []
    while True:
        kernels = (await agent.request(KeepWarmRequest(environments=environments)))["warm"]
        if [warm["state"] for warm in kernels] == ["ready"] * on:
            return
        await asyncio.sleep(0.1)


def address_of(emulator: Emulator) -> tuple[str, int]:
    """Where the sshd of the TPU's host is, without a line."""
    [host] = emulator.call("GET", "/emulator/v1/hosts")["hosts"]
    return host["address"], host["port"]


def make_sshpyk(emulator: Emulator, folder: Path) -> tuple[str, Line]:
    """sshpyk, in a folder of its own, as its documentation says; its link is up, too."""
    from jupyter_core.paths import jupyter_data_dir

    from jupyter_tpu.ssh import ensure_key, user_name

    there = folder / "sshpyk"
    uv = Path(sys.executable).with_name("uv")
    install = [str(uv), "pip", "install", "-q", "--no-deps", "--target", str(there)]
    subprocess.run([*install, f"sshpyk=={SSHPYK}"], check=True)
    sys.path.append(str(there))  # its entry point is found there, too
    address, port = address_of(emulator)
    line = Line(address, port)
    config = there / "config"
    config.write_text(
        SSH_CONFIG.format(
            address=address, port=line.port, user=user_name(), key=ensure_key(), folder=there
        )
    )
    subprocess.run(["ssh", "-F", config, "bench_sshpyk", "true"], check=True)
    spec = {
        "argv": [],
        "display_name": "sshpyk",
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {
            "kernel_provisioner": {
                "provisioner_name": "sshpyk-provisioner",
                "config": {
                    "ssh_host_alias": "bench_sshpyk",
                    "ssh_config": str(config),
                    "remote_python": PYTHON,
                    "remote_kernel_name": "bench",
                },
            }
        },
    }
    kernels = Path(jupyter_data_dir()) / "kernels/sshpyk"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(json.dumps(spec))
    return "sshpyk", line


class KernelRoute(NamedTuple):
    """How a kernel is reached."""

    kernelspec: str
    line: Line | None = None
    #: Has a kernel kept warm, or not; None: there is no such thing.
    warm: Callable[[bool], None] | None = None
    #: Makes the connection anew where that does not happen by itself.
    anew: Callable[[], None] = lambda: None


@contextlib.contextmanager
def ways(folder: Path) -> Iterator[dict[str, KernelRoute]]:
    """All of them, by name."""
    from jupyter_tpu.links import core_thread

    def part() -> None:
        """Ends sshpyk's connection, which may be dead and not know it."""
        config = folder / "sshpyk/config"
        subprocess.run(["ssh", "-F", config, "-O", "exit", "bench_sshpyk"], capture_output=True)

    local = make_local(folder)
    emulator = Emulator(folder / "emulator")
    lines: list[Line] = []
    try:
        name, line = core_thread().wait(make_ours(emulator))
        lines.append(line)
        theirs, their_line = make_sshpyk(emulator, folder)
        lines.append(their_line)
        yield {
            "local": KernelRoute(local),
            "jupyter-tpu": KernelRoute(
                name, line, lambda on: core_thread().wait(keep_warm(emulator, on))
            ),
            f"sshpyk {SSHPYK}": KernelRoute(theirs, their_line, anew=part),
        }
        part()
    finally:
        for open_line in lines:
            open_line.close()
        emulator.close()
