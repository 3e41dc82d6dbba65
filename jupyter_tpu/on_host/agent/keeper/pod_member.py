"""A host's kernel as a member of a pod kernel: joins the other hosts, checks that all are in step,
and says where it is.

Loaded by `ipython_kernel` in the environment's own Python. The conductor (see `agent.pod`) asks by
messages of a type of its own: on shell, so that they run between cells in the main thread, and can
be interrupted; on control for what has to be answered during a cell. Answers are published.
"""

import hashlib
import inspect
import linecache
import os
import socket
import sys
import threading
import time
import types

#: The type of requests and of answers.
KIND = "jupyter_tpu_pod"
#: Packages whose versions have to be the same on all hosts.
PACKAGES = ("jax", "jaxlib", "libtpu", "numpy", "flax", "optax", "orbax-checkpoint", "torch")
#: At most so many Python files of the working folder, of at most so many bytes, are compared.
MOST_FILES, FILE_SIZE = 500, 1 << 20
#: Files of all kinds up to which a folder is looked at.
MOST_NAMES = 20_000
#: Folders whose files are no code of the user.
_SKIPPED = {"node_modules", "__pycache__", "site-packages"}
#: Seconds in which JAX's coordinator on host 0 starts to listen.
LISTENER_SECONDS = 150.0
#: Seconds of silence of one host after which JAX ends the processes of all others (100 by default).
#: The conductor notices a lost host itself, and the others have what the user wants to save.
HEARTBEAT_SECONDS = 30 * 24 * 3600
#: Frames that are told, the innermost ones.
MOST_FRAMES = 12
#: On other hosts than 0, how many cells IPython's history has before they are written to its file.
#: The file takes more time than a short cell, and the notebook's history is that of host 0.
HISTORY_CELLS = 100


def load(shell):
    """Lets the conductor ask IPython's *shell*."""
    member = PodMember(shell)
    shell.kernel.shell_handlers[KIND] = member.requested
    shell.kernel.control_handlers[KIND] = member.requested
    if os.environ["JUPYTER_TPU_POD"] != "0":
        shell.history_manager.db_cache_size = HISTORY_CELLS


class PodMember:
    def __init__(self, shell):
        self._shell = shell
        self._main = threading.main_thread().ident or 0

    def requested(self, stream, ident, request):
        content = request["content"]
        try:
            answer = getattr(self, "_do_" + content["do"])(**content.get("arguments", {}))
        except KeyboardInterrupt:
            answer = {"problem": "it was interrupted"}
        except Exception as error:  # whatever JAX raises
            text = " ".join(("%s: %s" % (type(error).__name__, error)).split())
            answer = {"problem": text[:1000]}
        kernel = self._shell.kernel
        kernel.session.send(kernel.iopub_socket, KIND, {"answer": answer}, parent=request)

    def _do_report(self):
        """What has to be the same on all hosts."""
        from importlib import metadata

        versions = {"Python": sys.version.split()[0]}
        for name in PACKAGES:
            try:
                versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return {"versions": versions, "folder": os.getcwd(), "files": code_files(os.getcwd())}

    def _do_join(self, coordinator, bind, processes, process):
        """Joins the other hosts. `jax` is "" without JAX."""
        try:
            import jax
        except ImportError:
            return {"jax": ""}
        if process:
            wait_for_listener(coordinator)
        before = jax.distributed.initialize
        options = {"coordinator_bind_address": bind} if bind else {}
        if "heartbeat_timeout_seconds" in inspect.signature(before).parameters:  # JAX 0.6
            options["heartbeat_timeout_seconds"] = HEARTBEAT_SECONDS
        before(
            coordinator_address=coordinator,
            num_processes=processes,
            process_id=process,
            **options,
        )
        jax.distributed.initialize = joined_already
        if process:
            write_compiled_programs(jax)
        devices, local = jax.devices(), jax.local_devices()
        return {
            "jax": jax.__version__,
            "devices": len(devices),
            "local": len(local),
            "processes": jax.process_count(),
            "index": jax.process_index(),
            "kind": local[0].device_kind if local else "",
        }

    def _do_check(self, number):
        """A collective that gives the right answer only if nothing else is pending on any host."""
        import jax
        import numpy
        from jax.experimental import multihost_utils

        index, count = jax.process_index(), jax.process_count()
        mine = numpy.array([number, index, 7 * number + index], numpy.int32)
        rows = numpy.asarray(multihost_utils.process_allgather(mine)).reshape(-1, 3).tolist()
        expected = [[number, column, 7 * number + column] for column in range(count)]
        return (
            {} if sorted(rows) == expected else {"problem": "it got the data of another operation"}
        )

    def _do_stack(self):
        """Where the main thread is: the innermost frames, the outermost of them first."""
        frame, frames = sys._current_frames().get(self._main), []
        cells = "ipykernel_%d" % os.getpid()
        while frame is not None:
            code = frame.f_code
            cell = cells in code.co_filename
            frames.append(
                {
                    "file": "" if cell else code.co_filename[-300:],
                    "line": frame.f_lineno or 0,
                    "function": code.co_name[:200],
                    "text": linecache.getline(code.co_filename, frame.f_lineno or 0).strip()[:300],
                    "user": cell or is_user_code(code.co_filename),
                }
            )
            if cell and code.co_name == "<module>":
                break
            frame = frame.f_back
        else:
            frames = []  # it runs no cell
        users = [entry for entry in frames if entry["user"]]
        return {"frames": [*users[:MOST_FRAMES], *frames[:1]]}


def wait_for_listener(address):
    """Returns when something listens there: JAX itself tries again after a second only. Raises
    OSError."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + LISTENER_SECONDS
    while True:
        try:
            socket.create_connection((host, int(port)), 5.0).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise OSError("it does not reach %s: %s" % (address, error)) from error
            time.sleep(0.02)


def write_compiled_programs(jax):
    """Lets JAX write what this host compiles into our cache, which is a folder of this host.

    JAX writes in process 0 alone, since hosts often share a folder. So the others would compile
    again after each restart. A program of one host has another key on each, and on CPUs every
    program has. Does nothing with a JAX that is built in another way (seen: 0.9.0 to 0.12.0.1).
    """
    try:
        from jax._src import compiler, distributed

        write = compiler._cache_write
        if "distributed" not in write.__code__.co_names or write.__closure__:
            return
        state = types.SimpleNamespace(**{**vars(distributed.global_state), "process_id": 0})
        seen = {**vars(compiler), "distributed": types.SimpleNamespace(global_state=state)}
    except (ImportError, AttributeError, TypeError):
        return
    write_as_first = types.FunctionType(write.__code__, seen, write.__name__)

    def write_if_ours(*arguments, **options):
        ours = is_ours(jax.config.jax_compilation_cache_dir)
        return (write_as_first if ours else write)(*arguments, **options)

    compiler._cache_write = write_if_ours


def is_ours(folder):
    """Whether JAX's cache is where we put it, and not in a bucket or on a disk of several hosts."""
    places = os.path.join("~", ".jupyter-tpu", ""), os.path.join("~", ".cache", "jupyter-tpu", "")
    return str(folder or "").startswith(tuple(map(os.path.expanduser, places)))


def is_user_code(path):
    """Whether a file belongs to the user, and not to a Python or an installed package."""
    parts = "site-packages", "dist-packages", "/lib/python3."
    installed = any(part in path for part in parts) or path.startswith("<")
    return not installed and not path.startswith(os.path.dirname(os.__file__))


def joined_already(*_, **__):
    """`jax.distributed.initialize` in a cell: the kernel has done that."""
    print("JAX runs on all hosts already: the kernel called jax.distributed.initialize().")


def code_files(folder):
    """The digests of the Python files below *folder*, by their paths; {} in the home folder.

    None for a folder that has too much to look at. How busy a host is makes no difference.
    """
    files: "dict[str, str]" = {}
    if os.path.realpath(folder) == os.path.realpath(os.path.expanduser("~")):
        return files
    names_left = MOST_NAMES
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED
        )
        names_left -= len(names)
        if names_left < 0:
            return None
        for name in sorted(names):
            path = os.path.join(top, name)
            if not name.endswith(".py"):
                continue
            if len(files) >= MOST_FILES:
                return files
            try:
                if os.path.getsize(path) <= FILE_SIZE:
                    with open(path, "rb") as file:
                        digest = hashlib.sha256(file.read()).hexdigest()[:16]
                    files[os.path.relpath(path, folder)] = digest
            except OSError:
                continue
    return files
