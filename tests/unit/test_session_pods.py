"""`%tpu session` on several hosts: processes that JAX has joined, each with a home of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

#: A pod kernel without a conductor: IPython with the cells of a notebook, on each host.
PROGRAM = """
import json, os, signal, sys
import jax
from IPython.core.interactiveshell import InteractiveShell
from jupyter_tpu.on_host.agent.keeper.ipython_kernel import load_magic, load_session

host, count, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if count > 1:
    os.environ["JUPYTER_TPU_POD"] = str(host)
    jax.distributed.initialize(address, count, host)
shell = InteractiveShell.instance()
command = shell.session_command = load_session(shell)
load_magic(shell, {"session": command})

def outside(line):
    "What the conductor asks all hosts for."
    content = {"kernel": "12345678-9", **json.loads(line)}
    print(json.dumps(command.requested(content, lambda task: None)))

shell.register_magic_function(outside, "line", "outside")

def kill(line):
    "This process is killed at a step of its next save."
    from jupyter_tpu_session import arrays, hosts, storage

    of, number = map(int, line.split())
    left = [number if of == host else 0]

    def counted(owner, name):
        function = getattr(owner, name)

        def call(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        setattr(owner, name, call)

    for name in "write_values", "write_manifest", "remove_unused", "manifest":
        counted(storage.Storage, name)
    counted(arrays.ArraySet, "write")
    counted(hosts.AllHosts, "_send")
    counted(hosts.AllHosts, "_receive")
    shell.steps = left

shell.register_magic_function(kill, "line", "kill")
for cell in json.load(sys.stdin):
    if not shell.run_cell(cell, store_history=True).success:
        sys.exit(1)
if count > 1:
    jax.distributed.shutdown()  # together: a host without host 0 would be aborted
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""


def start(folder: Path, hosts: int, *cells: str, devices: int = 2) -> list[subprocess.Popen]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    processes = []
    for host in range(hosts):
        home = folder / f"home{host}"
        home.mkdir(exist_ok=True, parents=True)
        environment = {
            **os.environ,
            "HOME": str(home),
            "IPYTHONDIR": str(home / "ipython"),
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": str(devices),
            "JPY_SESSION_NAME": "pods.ipynb",
        }
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(host), str(hosts), address],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(cells))
        process.stdin.close()
        process.stdin = None
        processes.append(process)
    return processes


def run(folder: Path, hosts: int, *cells: str, devices: int = 2) -> list[str]:
    """What the cells of a new kernel print on each of so many hosts."""
    processes = start(folder, hosts, *cells, devices=devices)
    printed = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * hosts, "\n\n".join(printed)
    return printed


VARIABLES = """
import threading
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

def spread(data, spec, mesh):
    return jax.make_array_from_callback(data.shape, NamedSharding(mesh, spec), lambda at: data[at])

host = jax.process_index()
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
weights = spread(np.arange(64.0, dtype="float32").reshape(8, 8), P("data", "model"), mesh)
same, everywhere = [weights], spread(np.arange(6), P(), mesh)
keys = jax.jit(lambda: jax.random.split(jax.random.key(1), 4),
               out_shardings=NamedSharding(mesh, P("data")))()
own = jnp.full(4, host)
committed = jax.device_put(jnp.ones(3), jax.local_devices()[1])
local = jax.device_put(np.arange(4.0), NamedSharding(Mesh(jax.local_devices(), "x"), P("x")))
table, mine = np.arange(20_000), np.full(20_000, host)
devices = jax.local_devices()
on_host_0 = jax.device_put(1.0, jax.devices()[0]) if not host else jax.devices()[0]
lock = threading.Lock() if host == 1 else 3

def scaled(x):
    return x * len(table)
"""
#: What holds wherever it is restored.
CHECK = """
def whole(array):
    return np.asarray(jax.jit(lambda x: x, out_shardings=NamedSharding(array.sharding.mesh, P()))(
        array).addressable_shards[0].data)

assert same[0] is weights and scaled(1) == 20_000
assert np.array_equal(whole(weights), np.arange(64.0).reshape(8, 8)), whole(weights)
assert len(weights.sharding.device_set) == len(jax.devices())
assert whole(everywhere).tolist() == list(range(6)) and keys.shape == (4,)
assert whole(jax.random.key_data(keys)).tolist() == np.asarray(
    jax.random.key_data(jax.random.split(jax.random.key(1), 4))).tolist()
assert set(local.sharding.device_set) == set(jax.local_devices())
assert committed.devices() <= set(jax.local_devices()) and devices[0] is jax.local_devices()[0]
assert np.array_equal(table, np.arange(20_000)) and own[0] == mine[0] == host % own_of
print("as host", host, dict(weights.sharding.mesh.shape))
"""


def test_each_host_has_its_own_again_and_all_have_what_is_of_all(tmp_path):
    """On the disks of the hosts; and in one place that all see, on other numbers of hosts."""
    place = f"--in {tmp_path}/bucket"
    save, restore = f"%tpu session save {place}", f"%tpu session restore {place}"
    own = "host, own_of = jax.process_index(), {}"
    first, second = run(tmp_path, 2, VARIABLES, "%tpu session save", save, "x = scaled(2)", save)
    assert first.replace("home0", "home1") == second
    assert first.count("variables of 2 hosts as pods in ") == 3
    assert "25 variables" in first
    assert "of which 22 bytes are new" in first
    assert "Not saved: lock (on host 1: of the class lock, " in first
    again = f"{restore} --overwrite"
    for text in run(tmp_path, 2, "%tpu session restore", own.format(2), CHECK, again, CHECK, save):
        assert text.count("Restored 2") == text.count("as host ") == 2
        assert "Not restored: lock (on host 1: of the class lock, " in text
        assert "There is a session" not in text
    [text] = run(tmp_path, 1, "%tpu session restore", "print('x' in globals())")
    assert "is on the disks of 2 hosts: only a kernel on all of them can restore it" in text
    for hosts, devices, sizes, before in (3, 2, "3, 'model': 2", 2), (1, 4, "2, 'model': 2", 3):
        cells = restore, "import jax", own.format(1), CHECK, f"{save} --overwrite"
        for text in run(tmp_path, hosts, *cells, devices=devices):
            note = f"was saved on {before} hosts. Variables that differed between them have"
            assert note in text
            assert f"{{'data': {sizes}}}" in text
            assert "Saved 2" in text
    assert not [*tmp_path.rglob("marks/*")]


def test_all_hosts_carry_out_what_is_asked_for_from_outside(tmp_path):
    """Whatever each of them did before. The name is chosen by host 0."""
    place = f"{tmp_path}/bucket"

    def ask(id: str, **content: object) -> str:
        return f"%outside {json.dumps({'id': id, 'place': place, **content})}"

    uneven = "host or get_ipython().session_command.kernel_session().moment('names')"
    cells = VARIABLES, ask("a", do="save"), uneven, "x = 1", ask("b", do="save", aside=True)
    for text in run(tmp_path, 2, *cells):
        assert text.count('"state": "saved", ') == 2
        assert '"hosts": 1' in text, "all hosts see this folder"
    nothing, aside = ask("c", do="save"), ask("d", do="save", aside=True)
    for text in run(tmp_path, 2, nothing, "y = 2", aside):
        assert '"state": "empty"' in text
        assert "Another kernel has saved pods, so this is saved as pods-12345678." in text
    check = "host, own_of = jax.process_index(), 2", CHECK
    for text in run(tmp_path, 2, ask("e", do="restore"), *check):
        assert '"state": "restored"' in text


def states(folder: Path) -> set[str]:
    """What a kernel restores on two hosts: "1" or "2", if it is whole."""
    cell = """
import numpy as np
print("state", {int(part) for part in (*np.ravel([s.data for s in all.addressable_shards]),
    *own, *values)})
"""
    texts = run(folder, 2, "%tpu session restore", cell, "%tpu session save")
    assert [text.count("Saved 10 variables of 2 hosts") for text in texts] == [1, 1], texts
    return {line for text in texts for line in text.splitlines() if line.startswith("state ")}


FIRST = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
sharding = NamedSharding(Mesh(jax.devices(), "x"), PartitionSpec("x"))
def fill(number):
    global all, own, values
    all = jax.make_array_from_callback((4,), sharding, lambda at: np.full(4, number)[at])
    own, values = np.full(20_000, number), [number]
fill(1)
"""


def killed_at(folder: Path, host: int, step: int) -> None:
    """Kills a host at a step of its second save; a new kernel has the first, or the second."""
    cells = FIRST, "%tpu session save", "fill(2)", f"%kill {host} {step}", "%tpu session save"
    processes = start(folder, 2, *cells)
    processes[host].communicate(timeout=100)
    if processes[host].returncode == -signal.SIGKILL:
        processes[1 - host].send_signal(signal.SIGINT)  # as the conductor does
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes[1 - host].communicate(timeout=5)
    processes[1 - host].kill()
    processes[1 - host].communicate()
    [state] = states(folder)
    assert state in ("state {1}", "state {2}")


@pytest.mark.parametrize(("host", "step"), [(0, 5), (0, 9), (1, 3)])
def test_a_session_of_a_pod_is_one_that_existed_though_a_host_was_killed(tmp_path, host, step):
    killed_at(tmp_path, host, step)


@pytest.mark.long
def test_a_session_of_a_pod_is_whole_wherever_a_host_is_killed(tmp_path):
    for host in range(2):
        for step in range(1, 11):
            killed_at(tmp_path / f"{host}-{step}", host, step)
