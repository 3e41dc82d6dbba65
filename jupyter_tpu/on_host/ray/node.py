"""Ray on one host of a TPU, as the command of a job: it starts with it, and ends with it.

Host 0 is Ray's head; the others join it. Ray's own `ray start --block` does all of the work. Here
is only what it needs to know: this host's address, the token, and ports that are free.

The job's variables: ``JUPYTER_TPU_HOST`` and ``JUPYTER_TPU_ADDRESSES`` (of all hosts, in their
order), as each job has them; ``JUPYTER_TPU_RAY_PORTS``, the ports of the head and of the dashboard;
``RAY_AUTH_TOKEN``; on an emulated host ``JUPYTER_TPU_RAY_CHIPS``.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib import metadata

from ..agent.keeper.owned_process import MARK
from ..agent.protocol.chosen_chips import devices_by_chip
from ..agent.protocol.process_env import RAY_STATE
from ..calls.paths import private_dir, write_file

#: Seconds for host 0 to start; its disk may be slow, or its system may still be starting.
HEAD_LIMIT = 300
#: How often Ray is started on a host where it ended, and the first pause in seconds, which doubles:
#: on a busy host its 30 seconds for a start are too few, and others end before the head is ready.
MOST_STARTS, START_PAUSE_SECONDS = 5, 5
#: A head that ends within so many seconds of its start did not get enough of a busy host: it is
#: started again, once. Later it takes tasks with it, and that is not to go unnoticed.
EARLY_SECONDS = 120
#: Seconds that Ray may take to end; then the job's keeper kills it.
STOP_LIMIT = 60
#: Bytes of the object store of an emulated host, whose memory is this machine's.
EMULATED_STORE = 256 << 20
#: Where Ray's clients look for the token, and for the address of the cluster on this host.
TOKEN_FILE = os.path.expanduser("~/.ray/auth_token")
ADDRESS_FILE = "/tmp/ray/ray_current_cluster"


def state_file():
    """What Ray on this host is: its head, its ports and its version."""
    return os.path.join(private_dir(RAY_STATE[1]), RAY_STATE[2])


def main():
    addresses = known_addresses(os.environ["JUPYTER_TPU_ADDRESSES"].split(","))
    host = int(os.environ["JUPYTER_TPU_HOST"])
    port, dashboard = map(int, os.environ["JUPYTER_TPU_RAY_PORTS"].split(","))
    write_token(os.environ["RAY_AUTH_TOKEN"])
    state = {"head": addresses[0], "port": port, "dashboard": dashboard}
    state["version"] = metadata.version("ray")
    write_file(state_file(), json.dumps(state), 0o600)
    signal.signal(signal.SIGTERM, _raise_exit)
    if not host:
        own_files(dashboard_pages())
    try:
        again = not host  # a head that was up may be started again
        for left in reversed(range(MOST_STARTS)):
            forget_address(addresses[0], port)
            if host:
                wait_for_head(addresses[0], port)
            elif not is_free(port):
                sys.exit("Port %d, which Ray was to use, is in use by another program." % port)
            begun = time.monotonic()
            code = _run(command(host, addresses, port, dashboard), environment())
            seconds = time.monotonic() - begun
            was_up = not host and _is_current(addresses[0], port)
            if not left or (was_up and (seconds > EARLY_SECONDS or not again)):
                sys.exit(code)
            after = ""
            if was_up:
                again = False
                after = " %d s after its start, perhaps because this host is busy" % seconds
            print("Ray ended with exit code %d%s. Starting it again" % (code, after), flush=True)
            _end_leftovers()
            time.sleep(START_PAUSE_SECONDS << (MOST_STARTS - 1 - left))
    finally:
        forget_address(addresses[0], port)
        with contextlib.suppress(OSError):
            os.unlink(state_file())


def dashboard_pages():
    """The folder with the pages of Ray's dashboard."""
    ray = metadata.distribution("ray").locate_file("ray")
    return os.path.join(str(ray), "dashboard", "client", "build")


def own_files(folder):
    """Makes copies of files that are links, as uv makes them where its link mode is "symlink" (on
    emulated hosts, too). Ray's dashboard serves no links, so its page would be blank.
    """
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            if os.path.islink(file):
                shutil.copyfile(file, file + ".copy")
                os.replace(file + ".copy", file)


def known_addresses(addresses):
    """The hosts' addresses, of which one that is alone may not be known. Ray would take another one
    in place of 127.0.0.1.
    """
    return [address or "127.0.0.2" for address in addresses]


def command(host, addresses, port, dashboard):
    """The `ray start` of a host."""
    words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
    words += ["--disable-usage-stats", "--log-color=false"]
    words += ["--node-ip-address=" + addresses[host]]
    words += ["--dashboard-agent-listen-port=%d" % free_port(52365, addresses[host])]
    if host:
        words += ["--address=%s:%d" % (addresses[0], port)]
    else:
        words += ["--head", "--port=%d" % port, "--ray-client-server-port=%d" % free_port(10001)]
        words += ["--dashboard-host=127.0.0.1", "--dashboard-port=%d" % dashboard]
    emulated = os.environ.get("JUPYTER_TPU_RAY_CHIPS")
    chips = int(emulated) if emulated else chips_for_ray()
    if chips:
        words += ["--resources=" + json.dumps({"TPU": chips})]
    if emulated:
        words += ["--object-store-memory=%d" % EMULATED_STORE]
    return words


def chips_for_ray(root="/"):
    """The number of this host's chips; 0 leaves them to Ray.

    Ray counts files of vfio: since 2.58 only those whose group has Google's number in sysfs, which
    a container may not show, and in all versions two for a chip of TPU7x, which has one for each
    core. It refuses more chips than a variable of the host makes visible.
    """
    if any(name in os.environ for name in ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES")):
        return 0
    return len(devices_by_chip(root))


def environment():
    """Variables for Ray. With a token in its file none is needed in what shows variables."""
    # Without a name Ray asks the metadata server for one, which emulated hosts don't have.
    variables = dict(os.environ, RAY_AUTH_MODE="token")
    if "JUPYTER_TPU_RAY_CHIPS" in variables:
        variables.setdefault("TPU_NAME", variables["JUPYTER_TPU_RAY_NAME"])
    variables.pop("RAY_AUTH_TOKEN")
    return variables


def write_token(token):
    """Writes it where Ray's clients look for one: kernels, jobs and shells of this host."""
    before = os.umask(0o077)
    try:
        os.makedirs(os.path.dirname(TOKEN_FILE), exist_ok=True)
        write_file(TOKEN_FILE, token, 0o600)
    finally:
        os.umask(before)


def read_token():
    """The token of this host; "" if it has none."""
    with contextlib.suppress(OSError), open(TOKEN_FILE) as file:
        return file.read().strip()
    return ""


def wait_for_head(address, port):
    """Returns when host 0 answers; ends this process if it does not in time."""
    print("Waiting for host 0 at %s:%d" % (address, port), flush=True)
    deadline = time.monotonic() + HEAD_LIMIT
    while True:
        try:
            return socket.create_connection((address, port), timeout=5).close()
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit("Host 0 does not answer at %s:%d: %s" % (address, port, error))
        time.sleep(0.2)


def forget_address(head, port):
    """Removes the address of a cluster that has ended: Ray leaves it, and looks for it there."""
    if _is_current(head, port):
        with contextlib.suppress(OSError):
            os.unlink(ADDRESS_FILE)


def _is_current(head, port):
    """Whether Ray was up on this host, as a part of this cluster."""
    with contextlib.suppress(OSError), open(ADDRESS_FILE) as file:
        return file.read().strip() == "%s:%d" % (head, port)
    return False


def _end_leftovers():
    """Kills what a failed start has left of this job, which would have Ray's ports."""
    mark = ("%s=%s" % (MARK, os.environ.get(MARK, "?"))).encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/environ" % name, "rb") as environ:
                marked = mark in environ.read().split(b"\0")
            if marked and int(name) != os.getpid():
                os.kill(int(name), signal.SIGKILL)


def free_port(preferred, address=""):
    """*preferred* if it is free, else another one. Emulated hosts share the ports of a machine."""
    if is_free(preferred, address):
        return preferred
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def is_free(port, address=""):
    """Whether a server can listen on it; *address* "": on all addresses."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _run(words, variables):
    """Runs Ray until it ends; its exit code. What ends this process ends Ray."""
    child = subprocess.Popen(words, env=variables)
    try:
        return child.wait()
    except SystemExit:
        child.send_signal(signal.SIGTERM)  # it may have got it already, with the group
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOP_LIMIT)
        raise


def _raise_exit(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + signal.SIGTERM)
