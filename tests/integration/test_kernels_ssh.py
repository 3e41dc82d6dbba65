"""Kernels on an emulated TPU's host, over real SSH: what a user starts, and how."""

import contextlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pexpect
import pytest
from adoption_server import Server
from cli_shell import COMMAND, Shell
from fleet_world import others
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from local_kernels import Notebook
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from refusals import raises
from stormy_host import line_to
from traitlets.config import Config
from waiting import until

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.emulator.hosts.namespace_host import process_tree
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.kernel_place import KernelPlace
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import HostName, Links, core_thread
from jupyter_tpu.ssh import user_name
from jupyter_tpu.tokens import keep_back, pass_on

ZONE = "us-central1-a"
PYTHON = "/home/tpu/env/bin/python"


@pytest.fixture(scope="module")
def name(emulator: Any, kernels_tpu: str) -> str:
    """The kernelspec of a TPU whose host has an environment."""
    return register(emulator, kernels_tpu)


def register(emulator: Any, tpu: str, chips: Sequence[int] = ()) -> str:
    spec, _ = KernelSpecs().register(
        KernelPlace(
            project=emulator.state.project,
            zone=ZONE,
            tpu=tpu,
            host_python=PYTHON,
            emulator=str(emulator.state_file),
            chips=",".join(map(str, chips)),
        ),
        python_version="3.11",
        emulated=True,
    )
    return spec


@pytest.fixture(autouse=True)
def alone(emulator: Any, kernels_tpu: str) -> Iterator[None]:
    """What a test has left on the host, perhaps because it failed, is in the way of no other."""
    yield
    emulator.end_all(kernels_tpu)


@pytest.fixture
def processes(emulator: Any, kernels_tpu: str) -> Callable[[], list[str]]:
    """What runs on the host, apart from the connection to it."""

    def lines_of_host() -> list[str]:
        (host,) = emulator.hosts(kernels_tpu)
        lines = [" ".join(process["cmdline"]) for process in host["processes"]]
        return sorted(line for line in lines if not line.startswith("sshd"))

    return lines_of_host


def without_agent(processes: list[str]) -> list[str]:
    """It ends half a minute after its last client has gone without a word."""
    return [line for line in processes if not line.endswith((" daemon", " forker"))]


#: What libtpu does with the first chip of a host and with its lock.
HOLD = """\
import fcntl, os
lock = os.open("/tmp/libtpu_lockfile", os.O_CREAT | os.O_RDWR, 0o600)
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
chip = os.open("/dev/vfio/0", os.O_RDWR)
"""
#: A child that tries to get away with them.
HOLD_IN_CHILD = f"""\
os.close(lock); os.close(chip)
import subprocess, sys
hold = '''
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{HOLD}
print(1, flush=True); time.sleep(600)'''
child = subprocess.Popen([sys.executable, "-c", hold], stdout=-1, start_new_session=True)
print(child.stdout.readline())
"""


def test_a_start_that_finds_the_chips_held_says_by_whom_and_starts_when_they_are_free(
    name, kernels_tpu
):
    first = KernelManager(kernel_name=name)
    first.start_kernel(env={**os.environ, "JPY_SESSION_NAME": "/notebooks/training.ipynb"})
    notebook = Notebook(first)
    pid = notebook.text(HOLD + "print(os.getpid())").strip()
    second = KernelManager(kernel_name=name)
    with pytest.raises(TPUError) as refused:
        second.start_kernel()
    error = refused.value
    assert error.reason is Reason.CHIPS_HELD
    who = f"the kernel of training.ipynb (process {pid} of {user_name()} since 2"
    assert error.message.startswith(f"The chips of {kernels_tpu} are in use by {who}")
    assert "UTC: python ipython_kernel.py" in error.message
    assert f"`jupyter tpu kernel stop {kernels_tpu} {first.kernel_id}`" in error.hint

    # Somebody who needs no chip need not wait.
    config = Config({"TPUProvisioner": {"needs_chips": False}})
    beside = KernelManager(kernel_name=name, config=config)
    beside.start_kernel()
    beside.shutdown_kernel(now=True)
    # To the kernel itself a restart is no obstacle, nor what it left behind.
    assert notebook.text(HOLD_IN_CHILD) == "b'1\\n'\n"
    first.restart_kernel()
    notebook.client.wait_for_ready(timeout=60)
    assert notebook.text(HOLD + "print('mine')") == "mine\n"
    notebook.close()
    first.shutdown_kernel()
    second.start_kernel()
    second.shutdown_kernel(now=True)


@pytest.mark.long
def test_kernels_of_single_chips_run_beside_each_other_and_no_chip_has_two(
    name, emulator, kernels_tpu
):
    def spec(*chips: int) -> str:
        return register(emulator, kernels_tpu, chips)

    def refusal(spec: str) -> TPUError:
        with raises(Reason.CHIPS_HELD) as refused:
            KernelManager(kernel_name=spec).start_kernel()
        return refused.value

    def kill(word: str) -> None:
        """Kills those of the host's processes that have *word* in their command line."""
        (host,) = emulator.hosts(kernels_tpu)
        pids = [p["outer"] for p in process_tree(host["init_pid"]) if word in p["cmdline"]]
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    first = KernelManager(kernel_name=spec(0))
    first.start_kernel(env={**os.environ, "JPY_SESSION_NAME": "/notebooks/first.ipynb"})
    pair = KernelManager(kernel_name=spec(2, 3))
    pair.start_kernel()
    show = (
        "import os; print(*(os.environ[name] for name in ('TPU_VISIBLE_CHIPS', "
        "'TPU_CHIPS_PER_PROCESS_BOUNDS', 'TPU_PROCESS_PORT', 'JAX_NUM_CPU_DEVICES')))"
    )
    notebook, beside = Notebook(first), Notebook(pair)
    assert notebook.text(show) == "0 1,1,1 8476 1\n"
    assert beside.text(show) == "2,3 1,2,1 8478 2\n"
    # A process of chip 0's kernel holds its device, which concerns nobody else.
    assert notebook.text("chip = os.open('/dev/vfio/0', os.O_RDWR); print('held')") == "held\n"

    taken = refusal(spec(0))
    assert taken.message.startswith(f"Chip 0 of {kernels_tpu} is in use by the kernel of first.ipy")
    assert f"`jupyter tpu kernel stop {kernels_tpu} {first.kernel_id}`" in taken.hint
    assert f"by the kernel {pair.kernel_id}, which was started with chips 2-3." in str(
        refusal(spec(3))
    )
    assert f"The chips of {kernels_tpu} are in use by the kernel" in refusal(name).message
    with raises(Reason.INVALID, "The host has the chips 0 to 3"):
        KernelManager(kernel_name=spec(4)).start_kernel()

    # A restart keeps the chips, and so does a kernel whose daemon was killed.
    first.restart_kernel()
    notebook.client.wait_for_ready(timeout=60)
    assert notebook.text(show) == "0 1,1,1 8476 1\n"
    kill("daemon")
    refusal(spec(0))
    assert beside.text("print('still here')") == "still here\n"

    # What ends gives them back: a kernel that is shut down, and one whose keeper is killed.
    notebook.close()
    first.shutdown_kernel()
    kill("keeper")
    whole = KernelManager(kernel_name=name)
    whole.start_kernel()
    assert "which was started for all chips" in refusal(spec(0)).message
    beside.close()
    pair.shutdown_kernel(now=True)
    whole.shutdown_kernel(now=True)


@pytest.mark.parametrize("root", [True, *others(False)], ids=["of another user", "of this user"])
def test_chips_that_no_kernel_holds_are_named_with_who_has_them(
    emulator, kernels_tpu, name, tmp_path, root
):
    lock = "/tmp/libtpu_lockfile"
    hold = f"{HOLD}print(os.getpid(), flush=True)\nimport sys; sys.stdin.read()"
    # A file that another user has left would be in root's way, and root's in everybody's.
    script = f"{f'rm -f {lock};' * root} python3 -c {shlex.quote(hold)} {f'; rm -f {lock}' * root}"
    command = f"{'sudo -n ' * root}sh -c {shlex.quote(script)}"
    shell = Shell(tmp_path, **emulator.environment)
    kept = ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR")
    variables = shell.environment | {variable: os.environ[variable] for variable in kept}
    holder = subprocess.Popen(
        [*COMMAND, "ssh", kernels_tpu, "--", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables,
    )
    pid = int(holder.stdout.readline())
    manager = KernelManager(kernel_name=name)
    with pytest.raises(TPUError) as refused:
        manager.start_kernel()
    port = manager.shell_port
    user = "root" if root else user_name()
    assert f"are in use by process {pid} of {user} since 2" in refused.value.message
    assert "UTC: python3 -c import fcntl, os lock = os.open" in refused.value.message
    assert f"`jupyter tpu chips free {kernels_tpu}`" in refused.value.hint
    if root:  # one of the two is enough
        doctor = [*COMMAND, "doctor", kernels_tpu, "--json"]
        checked = subprocess.run(doctor, env=variables, capture_output=True, text=True, timeout=60)
        assert checked.returncode == 1, checked.stderr
        (finding,) = [f for f in json.loads(checked.stdout)["findings"] if f["state"] == "problem"]
        assert finding["message"].startswith(
            f"The chips are in use by process {pid} of root since 2"
        )
        assert finding["hint"] == f"To end it: jupyter tpu chips free {kernels_tpu}"
    holder.communicate()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # another program has it, too
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        manager.start_kernel()  # the lock's file is left over, and blocks nobody
    manager.shutdown_kernel(now=True)


def test_a_token_reaches_the_kernel_and_no_file_or_list_of_processes_of_the_host(
    name, emulator, kernels_tpu, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_not_" + "to_be_found")
    pass_on("HF_TOKEN")
    manager = KernelManager(kernel_name=name)
    try:
        manager.start_kernel()
        notebook = Notebook(manager)
        assert notebook.text("import os; print(os.environ['HF_TOKEN'][:7])") == "hf_not_\n"
        (host,) = emulator.hosts(kernels_tpu)
        assert not [
            process for process in host["processes"] if "hf_not" in " ".join(process["cmdline"])
        ]
        grep = "!grep -rls -D skip 'hf_not_[t]o_be' ~/.jupyter-tpu /tmp ~/.cache; echo end"
        files = notebook.text(grep).split()
        assert files == ["end"]
        notebook.close()
    finally:
        keep_back("HF_TOKEN")
        manager.shutdown_kernel(now=True)


def test_nbclient_runs_a_notebook_with_it(name):
    cells = [
        "import os; print(os.environ['TPU_ACCELERATOR_TYPE'])",
        "import ipywidgets; slider = ipywidgets.IntSlider(value=3); slider",
        "from IPython.display import HTML; HTML('<b>bold</b>')",
        "for i in range(1000): print(i)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    NotebookClient(notebook, kernel_name=name, timeout=60).execute()
    outputs = [cell["outputs"] for cell in notebook["cells"]]
    assert outputs[0][0]["text"] == "v5litepod-4\n"
    assert "application/vnd.jupyter.widget-view+json" in outputs[1][0]["data"]
    assert outputs[2][0]["data"]["text/html"] == "<b>bold</b>"
    printed = "".join(output["text"] for output in outputs[3])
    assert printed.split() == [str(number) for number in range(1000)]
    (state,) = notebook["metadata"]["widgets"].values()
    assert any(w["model_name"] == "IntSliderModel" for w in state["state"].values())


def test_a_runner_that_allows_errors_fails_if_the_kernel_dies_in_the_last_cell(name):
    for kernel in (name, "python3"):
        cells = map(nbformat.v4.new_code_cell, ("print('one')", "import os; os._exit(9)"))
        notebook = nbformat.v4.new_notebook(cells=[*cells])
        with pytest.raises(DeadKernelError):
            NotebookClient(notebook, kernel_name=kernel, timeout=60, allow_errors=True).execute()
        assert notebook.cells[0].outputs[0].text == "one\n"


def test_two_papermills_run_a_notebook_whose_folder_has_their_logs(name, tmp_path):
    """The project with the logs is copied: what is logged of a copy would be copied again."""
    cells = ["n = 1", "import socket; print(socket.gethostname(), n)", "print('end')"]
    kernelspec = {"name": name, "display_name": name, "language": "python"}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": kernelspec},
    )
    notebook.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(notebook, tmp_path / "in.ipynb")
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "in.ipynb"]
    running = []
    for number in ("7", "8"):
        with (tmp_path / f"{number}.log").open("w") as log:
            running.append(
                subprocess.Popen(
                    [*command, f"{number}.ipynb", "-p", "n", number],
                    cwd=tmp_path,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "JUPYTER_TPU_PROJECT_SYNC": "auto"},
                )
            )
    for number, process in zip(("7", "8"), running, strict=True):
        code = process.wait(300)
        logged = (tmp_path / f"{number}.log").read_text()
        assert code == 0, logged
        assert not re.search("asyncssh|SSH session|changes? detected", logged)
        written = nbformat.read(tmp_path / f"{number}.ipynb", as_version=4).cells[-2:]
        (outputs,), (end,) = (cell["outputs"] for cell in written)
        assert outputs["text"].startswith("t1v-n-")
        assert outputs["text"].endswith(f" {number}\n")
        assert end["text"] == "end\n"


def test_jupyter_console_talks_to_it_although_its_loop_stands_still(name, processes):
    """Its loop runs only while it asks something: nothing may depend on it in between."""
    before = processes()
    console = pexpect.spawn(
        sys.executable,
        [
            "-m",
            "jupyter_console",
            "--kernel",
            name,
            "--ZMQTerminalInteractiveShell.simple_prompt=True",
        ],
        encoding="utf-8",
        timeout=90,
        env={**os.environ, "TERM": "dumb", "PROMPT_TOOLKIT_NO_CPR": "1"},
    )
    try:
        console.expect(r"In \[1\]:")
        console.sendline("print(6 * 7, __import__('socket').gethostname())")
        console.expect(r"42 t1v-n-")
        console.expect(r"In \[2\]:")
        console.sendline("input('who? ')")
        console.expect(r"who\? ")
        console.sendline("Ada")
        console.expect("'Ada'")
        console.expect(r"In \[3\]:")
        console.sendline("import time; print('be' + 'gun'); time.sleep(600)")
        console.expect("begun")
        console.sendintr()
        console.expect("KeyboardInterrupt")
        console.expect(r"In \[4\]:")
        console.sendline("exit")
        console.expect(pexpect.EOF)
    finally:
        console.close(force=True)
    until(lambda: without_agent(processes()) == without_agent(before), why=lambda: str(processes()))


@pytest.mark.parametrize("last", ["", *others("client.shutdown()")])
def test_a_kernel_ends_with_a_program_that_just_exits(name, processes, last):
    """As a local kernel does, also when the last request is still under way."""
    before = processes()
    program = f"""
        import sys
        from jupyter_client import KernelManager
        manager = KernelManager(kernel_name=sys.argv[1])
        manager.start_kernel()
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        {last}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), name], check=True, timeout=300)
    until(lambda: not any("keeper" in line for line in processes()))
    until(lambda: without_agent(processes()) == without_agent(before), why=lambda: str(processes()))


FORKING = """
import multiprocessing, sys
import nbformat
from nbclient import NotebookClient

def run(kernel):
    cell = nbformat.v4.new_code_cell("print(6 * 7)")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, kernel_name=kernel, timeout=60).execute()
    return notebook.cells[0].outputs[0].text

for kernel in sys.argv[1:]:
    print(run(kernel))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(*pool.map(run, [kernel]))
    print(run(kernel))
"""


@pytest.mark.long
def test_a_program_that_forks_after_it_has_used_a_kernel_uses_more_in_its_forks(name):
    done = subprocess.run(
        [sys.executable, "-c", FORKING, name, "python3"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.split() == ["42"] * 6, done.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="SKIPPED FOR WANT OF node")
def test_the_client_library_of_jupyterlab_and_vscode_drives_it_from_node(name, emulator, tmp_path):
    server = Server(tmp_path, emulator.environment)
    shutil.copytree(KernelSpecs().folder / name, tmp_path / "jupyter" / "kernels" / name)
    with server:
        done = subprocess.run(
            ["node", Path(__file__).with_name("node_client.mjs"), server.url, server.token, name],
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert done.returncode == 0, done.stderr + server.log.read_text()
    told = json.loads(done.stdout.splitlines()[-1])  # before it the library logs
    assert told == {
        "language": "python",
        "print": ["ok", "", "42\n"],
        "input": ["ok", "", "hello Ada\n"],
        "lines": 20000,
        "interrupted": ["error", "KeyboardInterrupt", told["interrupted"][2]],
        "completed": True,
        "comm": [{"said": "hi"}, "hi\n"],
        "restarted": ["error", "NameError", ""],
        "left": 0,
    }


class Spawned:
    """A kernelspec's argv as VS Code runs it: no provisioner, a connection file, signals."""

    def __init__(self, name: str, folder: Path) -> None:
        spec = KernelSpecManager().get_kernel_spec(name)
        (folder / "select.py").write_text("raise RuntimeError('of the project')")
        file = str(folder / "kernel-vscode.json")
        _, self.connection = write_connection_file(file, ip="127.0.0.1", key=b"a key")
        argv = [part.replace("{connection_file}", file) for part in spec.argv]
        self.process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=folder)
        # A blocking client takes a port that is not bound within a second for a dead kernel.
        until(self.listens)
        self.client = BlockingKernelClient()
        self.client.load_connection_file(file)
        self.client.start_channels()

    def listens(self) -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", self.connection["hb_port"])) == 0

    def run(self, code: str) -> dict:
        return self.client.execute_interactive(code, timeout=60, output_hook=lambda _: None)[
            "content"
        ]

    def close(self) -> None:
        self.client.stop_channels()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def spawned(name: str, tmp_path: Path) -> Iterator[Spawned]:
    process = Spawned(name, tmp_path)
    yield process
    process.close()


def test_the_project_is_there_for_a_notebook_runner_and_for_vscode(name, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_PROJECT_SYNC", "auto")
    (tmp_path / "helper.py").write_text("x = 'from here'")
    cell = nbformat.v4.new_code_cell("import helper, os; print(os.getcwd(), helper.x)")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name=name, timeout=60, resources=where).execute()
    [output] = notebook["cells"][0]["outputs"]
    assert output["text"] == f"/home/tpu/{tmp_path.name} from here\n"
    (tmp_path / "helper.py").write_text("x = 'from vscode'")
    process = Spawned(name, tmp_path)
    try:
        process.client.wait_for_ready(timeout=60)
        said: list[dict] = []
        process.client.execute_interactive(
            "import helper; print(helper.x)", timeout=180, output_hook=said.append
        )
        printed = [
            message["content"]["text"] for message in said if message["msg_type"] == "stream"
        ]
        assert printed[-1:] == ["from vscode\n"], [message["content"] for message in said]
    finally:
        process.close()


def test_the_command_alone_is_a_kernel_that_signals_interrupt_and_end(spawned, processes):
    spawned.client.wait_for_ready(timeout=60)
    assert spawned.run("a = 1")["status"] == "ok"
    spawned.client.execute("import time\nprint('begun')\ntime.sleep(600)")
    while spawned.client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass
    spawned.process.send_signal(signal.SIGINT)
    assert spawned.client.get_shell_msg(timeout=60)["content"]["ename"] == "KeyboardInterrupt"
    assert spawned.run("assert a == 1")["status"] == "ok"
    spawned.process.send_signal(signal.SIGTERM)
    assert spawned.process.wait(60) == 0
    until(lambda: not any("keeper" in line for line in processes()))


@pytest.fixture
def hardened(emulator: Any, kernels_tpu: str) -> Iterator[None]:
    """The host's sshd forbids forwarding, as companies set it."""
    config, restart = "/etc/ssh/sshd_config", "sudo kill -HUP $(pgrep -o -x sshd)"

    async def run(script: str) -> None:
        links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
        node = NodeName(emulator.state.project, ZONE, kernels_tpu)
        await links.get(HostName(node, 0)).run(["sh", "-ec", script], timeout=60)
        await links.close()

    wait = core_thread().wait
    append = f"echo DisableForwarding yes | sudo tee -a {config}"
    wait(run(f"sudo cp {config} {config}.before; {append}; {restart}"))
    yield
    wait(run(f"sudo mv {config}.before {config}; {restart}"))


def test_a_kernel_runs_where_sshd_forbids_forwarding(hardened, spawned, processes):
    spawned.client.wait_for_ready(timeout=60)
    assert spawned.run("a = 'x' * 3_000_000; print(a)")["status"] == "ok"
    spawned.client.shutdown()
    assert spawned.process.wait(60) == 0
    until(lambda: not any("keeper" in line for line in processes()))


def test_the_command_ends_when_its_kernel_is_shut_down(spawned, processes):
    spawned.client.wait_for_ready(timeout=60)
    spawned.client.shutdown()
    assert spawned.process.wait(60) == 0
    until(lambda: not any("keeper" in line for line in processes()))


def test_the_command_ends_with_whoever_started_it(name, processes, tmp_path):
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from test_kernels_ssh import Spawned\n"
        "s = Spawned(sys.argv[2], Path(sys.argv[3])); s.client.wait_for_ready(timeout=60)\n"
        "print(s.process.pid, flush=True); time.sleep(600)"
    )
    folder = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(Path(folder).parent)}
    starter = subprocess.Popen(
        [sys.executable, "-c", script, folder, name, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment,
    )
    pid = int(starter.stdout.readline())
    starter.kill()
    starter.wait(60)
    until(lambda: not Path(f"/proc/{pid}").exists())
    until(lambda: not any("keeper" in line for line in processes()))


def test_a_kernel_whose_command_was_killed_is_ended_before_the_next_one_starts(
    spawned, name, tmp_path, processes
):
    spawned.client.wait_for_ready(timeout=60)
    assert spawned.run(HOLD)["status"] == "ok"
    spawned.process.kill()
    spawned.process.wait(60)
    assert sum("ipython_kernel.py" in line for line in processes()) == 1
    (tmp_path / "next").mkdir()
    following = Spawned(name, tmp_path / "next")
    try:
        following.client.wait_for_ready(timeout=60)
        assert following.run(HOLD)["status"] == "ok"  # the chips are free
        assert sum("ipython_kernel.py" in line for line in processes()) == 1
        following.process.send_signal(signal.SIGTERM)
        assert following.process.wait(60) == 0
    finally:
        following.close()
    until(lambda: not any("keeper" in line for line in processes()))


@pytest.mark.long
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_the_kernel_of_a_runner_that_was_ended_is_ended_by_a_program_that_is_linked_to_its_host(
    name, processes, tmp_path, ending
):
    def kernels() -> int:
        return sum("ipython_kernel.py" in line for line in processes())

    linked = KernelManager(kernel_name=name)
    linked.start_kernel()
    cell = nbformat.v4.new_code_cell("import time; time.sleep(600)")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "in.ipynb")
    command = [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", "-k", name]
    runner = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        until(lambda: kernels() == 2)
        runner.send_signal(ending)
        runner.wait(60)
        until(lambda: kernels() == 1)
        assert linked.is_alive()
    finally:
        runner.kill()
        runner.wait(60)
        linked.shutdown_kernel(now=True)


def command_of(name: str, folder: Path) -> list[str]:
    """What VS Code runs for a kernelspec."""
    spec = json.loads((KernelSpecs().folder / name / "kernel.json").read_text())
    file = str(folder / "kernel-x.json")
    write_connection_file(file, ip="127.0.0.1", key=b"a key")
    return [part.replace("{connection_file}", file) for part in spec["argv"]]


def test_a_host_that_is_silent_is_one_line_on_stderr_and_no_work_meanwhile(
    name, tmp_path, emulator, kernels_tpu
):
    argv = [*command_of(name, tmp_path), "--start-timeout", "6"]
    with line_to(emulator, kernels_tpu) as line:
        line.hole()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "did not answer within 6 s" in done.stderr
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 4  # seconds of processor, most of them for imports


def test_an_environment_that_is_gone_is_one_line_on_stderr(name, tmp_path):
    argv = command_of(name, tmp_path)
    argv[argv.index(PYTHON)] = "/nowhere/python"
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("There is no Python at /nowhere/python on the host.")
    assert len(done.stderr.splitlines()) == 1
