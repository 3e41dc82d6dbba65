"""Runs ipykernel with an iopub socket that never drops messages.

ipykernel's iopub silently drops messages when 1000 wait for its reader. The keeper always reads, so
here there is no such limit. Run as a script in the environment's own Python; it must not import
anything else of the agent.

``ipython_kernel.py -f FILE`` starts a kernel at once. ``ipython_kernel.py --warm MODULE…`` imports
what a kernel needs, and the modules, reports it on its standard input, a socket, and waits there to
be told which kernel to be: file, folder and variables. Until then nothing of a kernel is set up, no
profile is read and no user code runs, so it becomes the same kernel as after a cold start.
"""

import faulthandler
import functools
import importlib
import json
import os
import signal
import sys

#: The modules that ipykernel imports when it starts; not every version has all of them.
OWN = (
    "zmq",
    "ipykernel.kernelapp",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "tornado.queues",
    "sqlite3",
)
USAGE = (
    "In a kernel on a TPU, %tpu has only: %tpu memory [--free], %tpu checkpoint [FUNCTION|off] and "
    "%tpu session save|restore|list|forget|auto. "
    "The other commands are for a notebook on your computer."
)
POD_USAGE = (
    "%tpu memory --host 2 is for host 2 only, and %%host 2 in the first line of a cell runs the "
    "cell there only. %hosts shows the hosts, and says what else it can do: %hosts help."
)
#: Set in the kernels of which a pod kernel consists.
POD = "JUPYTER_TPU_POD"
#: Signs sessions. Cells do not see it.
SESSION_KEY = "JUPYTER_TPU_SESSION_KEY"
#: Suffixes of the files by which pip records an installed package.
MARKS = (".dist-info", ".egg-info", ".egg-link", ".pth")


def main() -> None:
    # An early interrupt must not end the kernel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Where a crash happened goes to the keeper. (ipykernel takes descriptor 2 for cells.)
    faulthandler.enable(os.dup(2), all_threads=False)
    # The script's folder, which Python puts first. The user's modules are not there.
    own = (
        *("app_notes", "jax_notes", "jax_memory"),
        *("kernel_checkpoint", "kernel_session", "pod_member"),
    )
    app_notes, jax_notes, jax_memory, kernel_checkpoint, kernel_session, pod_member = map(
        importlib.import_module, own
    )
    del sys.path[0]
    for name in own:
        del sys.modules[name]
    if sys.argv[1] == "--warm":
        sys.argv[1:] = wait_warm(sys.argv[2:])

    import zmq
    from ipykernel.kernelapp import IPKernelApp

    class Application(IPKernelApp):
        name = "ipython-kernel"

        def _bind_socket(self, s, port):
            if s.type in (zmq.PUB, zmq.XPUB):
                s.sndhwm = 0
            return super()._bind_socket(s, port)

        def init_shell(self):
            super().init_shell()
            app_notes.load(self.session)
            jax_notes.load(self.shell)
            shell = self.shell
            session = load_session(shell)
            kernel_session.SessionRequests(shell, session)
            checkpoint = kernel_checkpoint.CheckpointFunction(shell, session).command
            memory = functools.partial(jax_memory.command, shell)
            commands = {"memory": memory, "checkpoint": checkpoint, "session": session}
            load_magic(shell, commands)
            if os.environ.get(POD):
                pod_member.load(shell)
            try:  # of our environments: %pip, %uv and !pip
                notebook = importlib.import_module("jupyter_tpu_packages.notebook")
            except ImportError:
                return
            notebook.load(self.shell)

    Application.launch_instance()


def load_session(shell):
    """The command `%tpu session` of IPython's *shell*. What it saves names the package so."""
    from importlib import util

    name = "jupyter_tpu_session"
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "session")
    path = os.path.join(folder, "__init__.py")
    spec = util.spec_from_file_location(name, path, submodule_search_locations=[folder])
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules[name] = util.module_from_spec(spec)
    spec.loader.exec_module(package)
    command, chosen = map(importlib.import_module, (name + ".command", name + ".chosen"))
    setting = chosen.chosen_setting(os.environ)
    return command.SessionCommand(shell, os.environ.pop(SESSION_KEY, ""), setting)


def load_magic(shell, commands):
    """Adds `%tpu` to IPython's *shell*. `%load_ext jupyter_tpu` replaces it.

    commands: by their first words; each gets the other words and returns what to print, None for
    a misuse.
    """

    def tpu(line):
        """What holds the memory of the devices: %tpu memory [--free]

        A function that runs when Google stops this TPU: %tpu checkpoint [FUNCTION|off]

        Saves and restores the variables: %tpu session save|restore|list|forget|auto
        """
        first, *words = line.split() or [""]
        text = commands[first](words) if first in commands else None
        if text is None:
            text = USAGE + ("\n" + POD_USAGE if os.environ.get(POD) else "")
        print(text)

    shell.register_magic_function(tpu, "line", "tpu")


def wait_warm(modules):
    """Imports, reports ``{"folders", "installed", "problem"}`` and waits.

    Answers the assignment, and returns ipykernel's arguments. Ends the process if the keeper is
    gone.
    """
    import socket

    folders = [folder for folder in sys.path if os.path.isdir(folder)]
    report = {"folders": folders, "installed": installed(folders), "problem": ""}
    for name in (*OWN, *modules):
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever a module raises
            if name in modules:
                report["problem"] = "%s cannot be imported: %s" % (name, error)
    with socket.socket(fileno=os.dup(0)) as keeper:
        keeper.sendall(json.dumps(report).encode() + b"\n")
        with keeper.makefile("r", encoding="utf-8") as lines:
            line = lines.readline()
        if not line:
            os._exit(0)
        keeper.sendall(b"\n")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    spec = json.loads(line)
    os.environ.update(spec["env"])
    os.chdir(spec["cwd"])
    return ["-f", spec["file"]]


def installed(folders):
    """A number that changes when a package in *folders* is installed or removed."""
    import zlib

    stamps = []
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                stamps += [
                    (entry.path, entry.stat().st_mtime_ns)
                    for entry in entries
                    if entry.name.endswith(MARKS)
                ]
        except OSError:
            continue
    return zlib.crc32(repr(sorted(stamps)).encode())


if __name__ == "__main__":
    main()
