"""What all tests share: folders of their own instead of the user's, and a real emulator.

`emulator` is one process per test session; `create_tpu` makes TPUs on it that are gone after the
test. Faults are switched on by ``emulator.inject_fault(kind, …)`` and are
cleared after each test that uses `create_tpu` or `faults`.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_error import EmulatorError
from forked import forks
from hypothesis import HealthCheck, settings
from memory_files import use_memory
from shared_packages import MAKE_ENVIRONMENT, share_packages
from waiting import until

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.emulator import EmulatorState
from jupyter_tpu.emulator.hosts.namespace_host import is_sshd, process_tree
from jupyter_tpu.links import HostName, Links, core_thread

pytest_plugins = ["cpu_time", "distribution", "second_try"]

#: Variables that would lead a test to the user's own Google project or emulator.
POINTING_AWAY = (
    "JUPYTER_TPU_EMULATOR",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "GCLOUD_PROJECT",
)
use_memory()
# How long an example takes says nothing on a machine that is busy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
# A runner in the background of a shell hands SIGINT on as ignored, to all whom the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> object:
    """An async test is pytest-asyncio's without a mark, but in files for Jupyter's server."""
    if inspect.iscoroutinefunction(obj) and name.startswith("test_"):
        module = collector.getparent(pytest.Module)
        marks = [*getattr(obj, "pytestmark", ()), *(module.iter_markers() if module else ())]
        of_jupyter = "pytest_jupyter" in str(getattr(module and module.obj, "pytest_plugins", ""))
        if not of_jupyter and "asyncio" not in [mark.name for mark in marks]:
            pytest.mark.asyncio(obj)
    return (yield)


RUN = """
import asyncio, signal, sys
from pathlib import Path
from jupyter_tpu.emulator import serve

async def main():
    task, loop = asyncio.current_task(), asyncio.get_running_loop()

    def end():
        loop.remove_reader(0)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    loop.add_reader(0, end)  # the tests' process is gone, however it went
    await serve(Path(sys.argv[1]), on_ready=lambda state: print(state.path, flush=True))

try:
    asyncio.run(main())
except asyncio.CancelledError:
    pass
"""


@pytest.fixture(scope="session", autouse=True)
def isolated_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders for Jupyter's, IPython's, gcloud's and our files, in place of the user's own."""
    root = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("CLOUDSDK_") or name in POINTING_AWAY:
                patch.delenv(name)
        for name, folder in {
            "JUPYTER_TPU_DATA_DIR": "tpu",
            "JUPYTER_DATA_DIR": "jupyter/data",
            "JUPYTER_RUNTIME_DIR": "jupyter/runtime",
            "JUPYTER_CONFIG_DIR": "jupyter/config",
            "CLOUDSDK_CONFIG": "gcloud",
            "IPYTHONDIR": "ipython",
        }.items():
            (root / folder).mkdir(mode=0o700, parents=True)
            patch.setenv(name, str(root / folder))
        # The folder that the tests run in is this repository.
        patch.setenv("JUPYTER_TPU_PROJECT_SYNC", "off")
        # Half of the files of an environment are jedi's, without which IPython completes, too.
        excluded = root / "excluded-packages.txt"
        excluded.write_text("jedi\n")
        patch.setenv("UV_EXCLUDE", str(excluded))
        yield root


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of the test's own: what is kept for other tests is not known there."""
    folder = tmp_path / "data"
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(folder))
    return folder


class EmulatorProcess:
    """A real emulator in a process of its own.

    Attributes
    ----------
    state_file: what ``JUPYTER_TPU_EMULATOR`` has to say.
    state: its content.
    """

    def __init__(self, state_dir: Path, *, delay: float = 0.0, mode: str = "") -> None:
        self.state_dir = state_dir
        self._environment = {
            **os.environ,
            "JUPYTER_TPU_EMULATOR_DELAY": str(delay),
            "JUPYTER_TPU_EMULATOR_MODE": mode,
        }
        self.start()

    def start(self) -> None:
        """Starts it and waits until it is ready."""
        self.log = self.state_dir.with_name(self.state_dir.name + ".log")
        ends, self._lifeline = os.pipe()  # it ends with this process
        answer, output = os.pipe()
        with self.log.open("ab") as log:
            self.process = forks().fork(
                ["", RUN, str(self.state_dir)],
                self._environment,
                [ends, output, log.fileno()],
                session=True,  # Ctrl-C in the tests is for the tests
            )
        os.close(ends)
        os.close(output)
        killer = threading.Timer(120, self.process.kill)
        killer.start()
        with open(answer) as lines:
            line = lines.readline().strip()
        killer.cancel()
        if not line:
            self.process.wait(60)
            raise RuntimeError(f"the emulator did not start:\n{self.log.read_text()}")
        self.state_file = Path(line)
        self.state = EmulatorState.read(self.state_file)

    def stop(self) -> None:
        """Ends it as Ctrl-C does."""
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        os.close(self._lifeline)

    def kill(self) -> None:
        """Ends it without a chance to clean up."""
        self.process.kill()
        self.process.wait(60)
        os.close(self._lifeline)

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point jupyter-tpu at it."""
        return {"JUPYTER_TPU_EMULATOR": str(self.state_file)}

    def request(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        """The decoded answer of a call over REST; `EmulatorError` for an error status."""
        if token is None:
            token = Path(self.state.token_file).read_text()
        request = urllib.request.Request(
            self.state.rest + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise EmulatorError(error.code, json.loads(error.read())["error"]) from None

    def wait(self, operation: dict[str, Any], limit: float = 240.0) -> dict[str, Any]:
        """The finished operation; *limit* in seconds."""

        def done() -> dict[str, Any] | None:
            now = self.request("GET", f"/v2/{operation['name']}")
            return now if now.get("done") else None

        return operation if operation.get("done") else until(done, limit, lambda: str(operation))

    def inject_fault(self, kind: str, **fault: Any) -> dict[str, Any]:
        """Switches one on, or lets it happen: ``inject_fault("reboot", node=path)``."""
        return self.request("POST", "/emulator/v1/faults", {"kind": kind, **fault})

    def hosts(self, node: str) -> list[dict[str, Any]]:
        """The hosts of a node (its id), with what runs in them."""
        hosts = self.request("GET", "/emulator/v1/hosts")["hosts"]
        return [host for host in hosts if host["node"].endswith(f"/nodes/{node}")]

    def create(self, name: str, type: str, zone: str, **fields: Any) -> dict[str, Any]:
        """A READY TPU, as JSON; *fields* of the node."""
        parent = f"projects/{self.state.project}/locations/{zone}"
        body = {"acceleratorType": type, "runtimeVersion": "v2-alpha-tpuv5-lite", **fields}
        made = self.wait(self.request("POST", f"/v2/{parent}/nodes?nodeId={name}", body))
        assert "error" not in made, made["error"]
        return self.request("GET", f"/v2/{parent}/nodes/{name}")

    @contextlib.contextmanager
    def tpu(
        self, prefix: str, type: str = "v5litepod-4", zone: str = "us-central1-a"
    ) -> Iterator[dict[str, Any]]:
        """A TPU that several tests share, under a name of its own that begins with *prefix*."""
        node = self.create(f"{prefix}-{uuid.uuid4().hex[:6]}", type, zone)
        yield node
        self.wait(self.request("DELETE", f"/v2/{node['name']}"))

    def end_all(self, node: str) -> None:
        """Ends all that runs on the hosts of a node, apart from sshd, however it was started."""

        def running() -> set[int]:
            inits = [host["init_pid"] for host in self.hosts(node) if host["init_pid"]]
            processes = [process for init in inits for process in process_tree(init)]
            return {process["outer"] for process in processes if not is_sshd(process["name"])}

        ending = running()
        for pid in ending:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not running() & ending)


@pytest.fixture(scope="session")
def emulator(
    isolated_folders: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmulatorProcess]:
    """A running emulator whose operations take no longer than they must."""
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"]) is None:
        pytest.skip("SKIPPED FOR WANT OF sshd: install openssh-server to run these tests")
    state = tmp_path_factory.mktemp("emulator") / "state"
    share_packages(state, tmp_path_factory)
    process = EmulatorProcess(state)
    yield process
    process.stop()


@pytest.fixture
def faults(emulator: EmulatorProcess) -> Iterator[Callable[..., dict[str, Any]]]:
    """``faults(kind="no-capacity", zone=…, count=…)`` switches one on until the test is over."""
    yield emulator.inject_fault
    emulator.request("DELETE", "/emulator/v1/faults")


@pytest.fixture
def create_tpu(
    emulator: EmulatorProcess, faults: Callable[..., dict[str, Any]]
) -> Iterator[Callable[..., dict[str, Any]]]:
    """``create_tpu(name=…, type=…, zone=…, **fields of the node)``: a READY TPU, as JSON.

    It is deleted after the test if it is still there.
    """
    made: list[str] = []

    def create(
        name: str | None = None,
        type: str = "v5litepod-4",
        zone: str = "us-central1-a",
        **fields: Any,
    ) -> dict[str, Any]:
        name = name or f"tpu-{uuid.uuid4().hex[:8]}"
        made.append(f"projects/{emulator.state.project}/locations/{zone}/nodes/{name}")
        return emulator.create(name, type, zone, **fields)

    yield create
    emulator.request("DELETE", "/emulator/v1/faults")
    deleting = []
    for path in made:
        try:
            deleting.append(emulator.request("DELETE", f"/v2/{path}"))
        except EmulatorError as error:
            if error.status not in (404, 409):  # gone, or on its way
                raise
    for operation in deleting:
        emulator.wait(operation)


@pytest.fixture(scope="module")
def kernels_tpu(emulator: EmulatorProcess, session_kernels_tpu: str) -> Iterator[str]:
    """The name of a TPU in us-central1-a with ipykernel and ipywidgets in ~/env of its host.

    Whatever the tests of one file leave there is none of the next file's business.
    """
    yield session_kernels_tpu
    emulator.end_all(session_kernels_tpu)


@pytest.fixture(scope="session")
def session_kernels_tpu(emulator: EmulatorProcess) -> Iterator[str]:
    """What `kernels_tpu` gives, made once."""
    node = emulator.create("kernels-tpu", "v5litepod-4", "us-central1-a")
    core_thread().wait(_prepare(emulator))
    yield "kernels-tpu"
    emulator.wait(emulator.request("DELETE", f"/v2/{node['name']}"))


async def _prepare(emulator: EmulatorProcess) -> None:
    """Makes the environment, over links of its own, which leave nothing behind."""
    links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
    node = NodeName(emulator.state.project, "us-central1-a", "kernels-tpu")
    await links.get(HostName(node, 0)).run(["sh", "-ec", MAKE_ENVIRONMENT], timeout=500)
    await links.close()
